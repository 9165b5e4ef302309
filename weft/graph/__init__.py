"""Whole models: a graph of tensor-program fragments, fused into groups and run as one table of kernels.

`graph` is the data, `builder` how a front end makes it, `formulas` what operators mean. Folders in the order of data
flow: `from_torch` and `from_onnx` are the front ends, where names of operators end; `rewrites` go from graph to graph;
`groups` says what is fused into one kernel and compiles it; `run` is memory and the executable, on a CPU or a GPU.
"""
