// Loads and stores that hint at caches: the hints are not needed here.
#pragma once

#define WEFT_LOAD(name) template <typename T> static __inline__ __device__ T name(const T *at) { return *at; }
#define WEFT_STORE(name) template <typename T> static __inline__ __device__ void name(T *at, T value) { *at = value; }
WEFT_LOAD(__ldg) WEFT_LOAD(__ldca) WEFT_LOAD(__ldcg) WEFT_LOAD(__ldcs) WEFT_LOAD(__ldlu) WEFT_LOAD(__ldcv)
WEFT_STORE(__stwb) WEFT_STORE(__stcg) WEFT_STORE(__stcs) WEFT_STORE(__stwt)
#undef WEFT_LOAD
#undef WEFT_STORE
