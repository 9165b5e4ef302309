"""Rodinia's CUDA programs, unmodified, on this CPU, against its OpenMP versions."""
