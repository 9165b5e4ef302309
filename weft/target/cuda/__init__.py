"""NVIDIA GPUs: a loop program in grid form becomes CUDA C++ text, and NVRTC makes machine code of that."""
