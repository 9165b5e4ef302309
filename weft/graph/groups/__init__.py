"""Which fragments become one kernel, its program, where its tensors lie, and its machine code."""
