"""PyTorch as it comes."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from bench.field.peers import Array, Prepared
from bench.models.networks import make_network
from bench.models.workloads import ModelWorkload


def version() -> str:
    return str(torch.__version__)


def prepare(workload: ModelWorkload, _inputs: Mapping[str, Array], threads: int) -> Prepared:
    torch.set_num_threads(threads)
    model, x = make_network(workload.model, **workload.network)
    return Prepared({"fresh": lambda: model(x)}, lambda: (model(x).float().cpu().numpy(),))
