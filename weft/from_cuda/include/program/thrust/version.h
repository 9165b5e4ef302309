// Some code asks which Thrust there is.
#pragma once
#define THRUST_VERSION 200300
#define THRUST_MAJOR_VERSION 2
