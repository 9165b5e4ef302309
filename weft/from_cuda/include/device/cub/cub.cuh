// Of CUB, what kernels may use.
#pragma once
#include "cub/weft_block.cuh"
