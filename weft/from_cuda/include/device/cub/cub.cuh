// Of CUB, what kernels may use.
#pragma once
#include "weft_std.h"
#include "cub/weft_block.cuh"
