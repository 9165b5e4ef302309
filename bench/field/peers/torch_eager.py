"""PyTorch as it comes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch

from bench.field.peers import Array, Prepared
from bench.field.torch_math import FUNCTIONS, arrays, tensors
from bench.field.workloads import Workload


def version() -> str:
    return str(torch.__version__)


def prepare(workload: Workload, inputs: Mapping[str, Array], threads: int) -> Prepared:
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    call = partial(FUNCTIONS[workload.family.name], *tensors(inputs), **workload.numbers())
    return Prepared({"fresh": call}, lambda: arrays(call()))
