"""numba: loops by hand where one would write them."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numba
import numpy as np

from bench.field.numba_kernels import KERNELS
from bench.field.peers import Array, Cannot, Prepared
from bench.field.result_shapes import result_shapes
from bench.field.workloads import Workload


def version() -> str:
    return str(numba.__version__)


def prepare(workload: Workload, inputs: Mapping[str, Array], threads: int) -> Prepared:
    name = workload.family.name
    if name not in KERNELS:
        raise Cannot("no loops are written for it")
    numba.set_num_threads(threads)
    given = [*inputs.values(), *workload.numbers().values()]
    out = [np.zeros(shape, np.int32 if name.startswith("argmin") else np.float32) for shape in result_shapes(workload)]
    start = time.perf_counter()
    kernel = KERNELS[name]
    kernel(*given, *out)
    took = time.perf_counter() - start
    return Prepared({"filling": lambda: kernel(*given, *out)}, lambda: tuple(out), {"cold": took})
