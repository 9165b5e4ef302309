"""What a compiled graph runs on and with: arrays of frameworks, memory, the table of kernels, CUDA graphs."""
