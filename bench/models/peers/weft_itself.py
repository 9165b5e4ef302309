"""Weft, through `weft.compile`."""

from __future__ import annotations

import time
from collections.abc import Mapping

import torch

import weft
from bench.field.peers import Array, Cannot, Prepared
from bench.models.networks import make_network
from bench.models.workloads import ModelWorkload
from weft.graph.compiled import Compiled
from weft.graph.from_torch.backend import CompiledModel
from weft.graph.from_torch.trace import trace


def version() -> str:
    return str(weft.__version__)


def prepare(workload: ModelWorkload, _inputs: Mapping[str, Array], threads: int) -> Prepared:
    weft.set_num_threads(threads)
    torch.set_num_threads(threads)
    model, x = make_network(workload.model, **workload.network)
    start = time.perf_counter()
    trace(model, (x,), {})  # what torch itself takes to trace and take apart: told apart from compiling
    traced = time.perf_counter() - start
    start = time.perf_counter()
    fast = weft.compile(model, (x,), options={"numerics": workload.numerics})
    fast(x)
    seconds = {"cold": time.perf_counter() - start, "tracing": traced}
    compiled = compiled_graph(fast)
    return Prepared({"fresh": lambda: fast(x)}, lambda: (fast(x).float().cpu().numpy(),), seconds, counts(compiled))


def compiled_graph(fast: CompiledModel) -> Compiled:
    """The one graph of a model that was called in one way."""
    (part,) = fast.parts.values()
    if isinstance(part, str):
        raise Cannot(part)
    (variant,) = part.model.variants.values()
    if variant.compiled is None:
        raise Cannot(variant.reason)
    return variant.compiled


def counts(compiled: Compiled) -> dict[str, float]:
    """Operators of the model, and what is left to run of them."""
    report, graph = compiled.report, compiled.executable.graph
    return {
        "operators": len(graph.nodes),
        "kernels": len(report.groups),
        "calls": len(report.calls),
        "different": len({k.program.program for _, k in report.groups}),
    }
