"""PyTorch's models in: aten operators by a table of formulas; `torch.compile(backend="weft")` and `weft.compile`."""
