// What nvcc includes before every program: the device's functions, the runtime API, and its C++ forms.
#pragma once
#define __CUDA_RUNTIME_H__  // headers of the CUDA samples ask for it
#include <stdint.h>
#ifdef __cplusplus
#include <utility>  // NVIDIA's does, and programs use what comes with it
#endif
#include "cuda_runtime_api.h"
#ifdef __CUDA__
#include "weft_device.h"
#include "texture_fetch_functions.h"
#elif defined(__cplusplus)
#include "vector_functions.h"
#endif
#ifdef __cplusplus
#include "channel_descriptor.h"
#include "weft_runtime_templates.h"
#endif
