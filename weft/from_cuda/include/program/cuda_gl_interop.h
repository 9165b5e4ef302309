// There is no display to share memory with.
#pragma once
#include "cuda_runtime.h"
