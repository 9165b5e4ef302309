// cuFFT; nothing of its functions for several GPUs, callbacks and other types is there.
#pragma once
#include "cufft.h"
