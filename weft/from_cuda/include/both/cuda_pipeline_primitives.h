// It comes with cuda_pipeline.h.
#pragma once
#include <cuda/pipeline>
