"""PyTorch through Inductor, weights frozen: packed and folded once."""

from __future__ import annotations

import time
from collections.abc import Mapping

import torch

from bench.field.peers import Array, Prepared
from bench.models.networks import make_network
from bench.models.workloads import ModelWorkload


def version() -> str:
    return str(torch.__version__)


def prepare(workload: ModelWorkload, _inputs: Mapping[str, Array], threads: int) -> Prepared:
    import torch._inductor.config

    torch.set_num_threads(threads)
    torch._inductor.config.freezing = True
    model, x = make_network(workload.model, **workload.network)
    start = time.perf_counter()
    compiled = torch.compile(model)
    compiled(x)
    seconds = {"cold": time.perf_counter() - start}
    return Prepared({"fresh": lambda: compiled(x)}, lambda: (compiled(x).float().cpu().numpy(),), seconds)
