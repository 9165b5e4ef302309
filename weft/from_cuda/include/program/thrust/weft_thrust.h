// All of Thrust that there is.
#pragma once
#include "thrust/device_vector.h"
#include "thrust/weft_sorting.h"
