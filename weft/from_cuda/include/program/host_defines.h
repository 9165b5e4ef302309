// CUDA's words come with cuda_runtime.h.
#pragma once
#include "cuda_runtime.h"
