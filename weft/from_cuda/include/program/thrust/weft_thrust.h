// All of Thrust that there is.
#pragma once
#include <iostream>  // programs have it from Thrust
#include "thrust/device_vector.h"
#include "thrust/weft_sorting.h"
