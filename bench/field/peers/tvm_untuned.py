"""TVM from the same ONNX graphs, as its default pipeline compiles them: nothing tuned."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from bench.field.onnx_graphs import make_model
from bench.field.peers import Array, Prepared
from bench.field.workloads import Workload


def version() -> str:
    return str(tvm.__version__)


def prepare(workload: Workload, inputs: Mapping[str, Array], threads: int) -> Prepared:
    start = time.perf_counter()
    model = make_model(workload, inputs)
    module = from_onnx(model, keep_params_in_input=False)
    machine = relax.VirtualMachine(tvm.compile(module, tvm.target.Target.from_device(tvm.cpu())), tvm.cpu())
    given = [tvm.runtime.tensor(inputs[i.name]) for i in model.graph.input]
    entry = machine["main"]
    entry(*given)
    took = time.perf_counter() - start
    return Prepared({"fresh": lambda: entry(*given)}, lambda: _arrays(entry(*given)), {"cold": took})


def _arrays(results: Any) -> tuple[Array, ...]:
    several = results if not hasattr(results, "numpy") else (results,)
    return tuple(r.numpy() for r in several)
