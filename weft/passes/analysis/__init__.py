"""What passes ask of a program: ranges, conditions, which subscripts are apart, threads, lanes, uniform values."""
