#include "thrust/weft_thrust.h"
