// The CUDA samples' helpers.
#pragma once
#include "helper_string.h"
#include "helper_timer.h"
