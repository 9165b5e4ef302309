"""PyTorch through torch.compile, weights frozen where a workload has some, so that they may be packed once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch

from bench.field.peers import Array, Prepared
from bench.field.torch_math import FUNCTIONS, arrays
from bench.field.workloads import Workload


def version() -> str:
    return str(torch.__version__)


class Layer(torch.nn.Module):
    """A family as a module whose constants are parameters."""

    def __init__(self, workload: Workload, inputs: Mapping[str, Array]) -> None:
        super().__init__()
        self.function = FUNCTIONS[workload.family.name]
        self.numbers = workload.numbers()
        self.order = list(inputs)
        self.constants = torch.nn.ParameterDict(
            {f"c_{n}": torch.nn.Parameter(torch.from_numpy(inputs[n]), False) for n in workload.family.constants}
        )

    def forward(self, *given: torch.Tensor) -> Any:
        rest = iter(given)
        values = [self.constants[f"c_{n}"] if f"c_{n}" in self.constants else next(rest) for n in self.order]
        return self.function(*values, **self.numbers)


def prepare(workload: Workload, inputs: Mapping[str, Array], threads: int) -> Prepared:
    import torch._dynamo
    import torch._inductor.config

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    torch._dynamo.reset()
    torch._inductor.config.freezing = bool(workload.family.constants)
    variables = [torch.from_numpy(v) for n, v in inputs.items() if n not in workload.family.constants]
    start = time.perf_counter()
    compiled = torch.compile(Layer(workload, inputs).eval())
    compiled(*variables)
    took = time.perf_counter() - start
    return Prepared({"fresh": lambda: compiled(*variables)}, lambda: arrays(compiled(*variables)), {"cold": took})
