"""Whole models: a graph of tensor-program fragments, fused into groups and run as one table of kernels.

`graph` is the data, `builder` how a front end makes it, `partition` and `group_program` what is fused into one
operator, `memory` and `executable` how it runs. `torch_*` is the front end for PyTorch; names of framework operators
end there.
"""
