// half, and its functions.
#pragma once
#include "weft_small_floats.h"

WEFT_SMALL_FLOAT(__half, _Float16)
typedef __half half;
typedef __half2 half2;

WEFT_SMALL_CONVERSIONS(__half, half)
#ifdef __CUDACC__
WEFT_SMALL_ATOMICS(__half)
#endif
