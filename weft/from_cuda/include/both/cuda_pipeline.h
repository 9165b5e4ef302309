// It comes with cuda/pipeline.
#pragma once
#include <cuda/pipeline>
