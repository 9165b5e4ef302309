"""Halide with the autoscheduler of Adams and others (2019), which comes with its wheel."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.metadata import version as package_version
from pathlib import Path

import halide as hl
import numpy as np

from bench.field.halide_pipelines import PIPELINES
from bench.field.peers import Array, Cannot, Prepared
from bench.field.result_shapes import result_shapes
from bench.field.workloads import Workload

hl.load_plugin(str(next(Path(hl.__file__).parent.glob("lib*/libautoschedule_adams2019.so"))))


def version() -> str:
    return package_version("halide")


def prepare(workload: Workload, inputs: Mapping[str, Array], threads: int) -> Prepared:
    name = workload.family.name
    if name not in PIPELINES:
        raise Cannot("no pipeline is written for it")
    out = np.zeros(result_shapes(workload)[0], np.int32 if name.startswith("argmin") else np.float32)
    start = time.perf_counter()
    buffers = {n: hl.Buffer(value) for n, value in inputs.items()}
    func = PIPELINES[name](buffers, dict(workload.sizes))
    func.set_estimates([(0, n) for n in reversed(out.shape)])
    pipeline = hl.Pipeline(func)
    target = hl.get_jit_target_from_environment()
    pipeline.apply_autoscheduler(target, hl.AutoschedulerParams("Adams2019", {"parallelism": str(threads)}))
    pipeline.compile_jit(target)
    result = hl.Buffer(out)
    pipeline.realize(result)
    took = time.perf_counter() - start
    return Prepared({"filling": lambda: pipeline.realize(result)}, lambda: (out,), {"cold": took})
