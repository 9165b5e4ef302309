// NVTX: names and ranges for a profiler. There is none here that would read them, so they are taken and forgotten.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define NVTX_VERSION 3
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE ((uint16_t)sizeof(nvtxEventAttributes_t))
typedef enum { NVTX_COLOR_UNKNOWN = 0, NVTX_COLOR_ARGB = 1 } nvtxColorType_t;
typedef enum { NVTX_MESSAGE_UNKNOWN = 0, NVTX_MESSAGE_TYPE_ASCII = 1, NVTX_MESSAGE_TYPE_UNICODE = 2 } nvtxMessageType_t;
typedef uint64_t nvtxRangeId_t;
typedef struct nvtxDomain_st *nvtxDomainHandle_t;
typedef union {
  const char *ascii;
  const wchar_t *unicode;
} nvtxMessageValue_t;
typedef struct {
  uint16_t version, size;
  uint32_t category;
  int32_t colorType;
  uint32_t color;
  int32_t payloadType, reserved0;
  union { uint64_t ullValue; int64_t llValue; double dValue; uint32_t uiValue; int32_t iValue; float fValue; } payload;
  int32_t messageType;
  nvtxMessageValue_t message;
} nvtxEventAttributes_t;

#define WEFT_TAKES(type, name, ...) \
  static inline type name(__VA_ARGS__) { return (type)0; }
WEFT_TAKES(int, nvtxRangePushA, const char *)
WEFT_TAKES(int, nvtxRangePushEx, const nvtxEventAttributes_t *)
WEFT_TAKES(int, nvtxRangePop, void)
WEFT_TAKES(nvtxRangeId_t, nvtxRangeStartA, const char *)
WEFT_TAKES(nvtxRangeId_t, nvtxRangeStartEx, const nvtxEventAttributes_t *)
WEFT_TAKES(void, nvtxRangeEnd, nvtxRangeId_t)
WEFT_TAKES(void, nvtxMarkA, const char *)
WEFT_TAKES(void, nvtxMarkEx, const nvtxEventAttributes_t *)
WEFT_TAKES(void, nvtxNameCategoryA, uint32_t, const char *)
WEFT_TAKES(void, nvtxNameOsThreadA, uint32_t, const char *)
WEFT_TAKES(void, nvtxNameCudaDeviceA, int, const char *)
WEFT_TAKES(void, nvtxNameCudaStreamA, void *, const char *)
WEFT_TAKES(void, nvtxNameCudaEventA, void *, const char *)
WEFT_TAKES(nvtxDomainHandle_t, nvtxDomainCreateA, const char *)
WEFT_TAKES(void, nvtxDomainDestroy, nvtxDomainHandle_t)
WEFT_TAKES(int, nvtxDomainRangePushEx, nvtxDomainHandle_t, const nvtxEventAttributes_t *)
WEFT_TAKES(int, nvtxDomainRangePop, nvtxDomainHandle_t)
WEFT_TAKES(void, nvtxDomainMarkEx, nvtxDomainHandle_t, const nvtxEventAttributes_t *)
#undef WEFT_TAKES
#define nvtxRangePush nvtxRangePushA
#define nvtxRangeStart nvtxRangeStartA
#define nvtxMark nvtxMarkA
#define nvtxNameCategory nvtxNameCategoryA
#define nvtxNameOsThread nvtxNameOsThreadA
#define nvtxNameCudaDevice nvtxNameCudaDeviceA
#define nvtxNameCudaStream nvtxNameCudaStreamA
#define nvtxNameCudaEvent nvtxNameCudaEventA
#define nvtxDomainCreate nvtxDomainCreateA
