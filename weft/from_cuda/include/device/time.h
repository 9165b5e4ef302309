#pragma once
typedef long clock_t, time_t;
