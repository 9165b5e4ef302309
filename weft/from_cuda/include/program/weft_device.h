// What device code may use without including anything: built-in variables, barriers, atomics, warp functions, math.
#pragma once
#include "weft_qualifiers.h"
#include "vector_functions.h"
#include "weft_threads.h"
#include "weft_atomics.h"
#include "weft_math.h"
