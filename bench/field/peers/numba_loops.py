"""numba: loops by hand where one would write them."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numba
import numpy as np

from bench.field.numba_kernels import KERNELS
from bench.field.peers import Array, Cannot, Prepared
from bench.field.workloads import Workload, extent


def version() -> str:
    return str(numba.__version__)


def prepare(workload: Workload, inputs: Mapping[str, Array], threads: int) -> Prepared:
    name = workload.family.name
    if name not in KERNELS:
        raise Cannot("nobody would write this by hand in numba")
    numba.set_num_threads(threads)
    given = [*inputs.values(), *workload.numbers().values()]
    out = [np.zeros(shape, np.int32 if name in _INDICES else np.float32) for shape in result_shapes(workload)]
    start = time.perf_counter()
    kernel = KERNELS[name]
    kernel(*given, *out)
    took = time.perf_counter() - start
    return Prepared({"filling": lambda: kernel(*given, *out)}, lambda: tuple(out), {"cold": took})


_INDICES = ("argmin distance",)
_SHAPES = {
    "L1 distance": ("M,N",),
    "max-plus": ("M,N",),
    "min distance": ("M",),
    "argmin distance": ("M",),
    "bilateral": ("H-KH+1,W-KW+1",),
    "blur 3x3": ("H-2,W-2",),
    "1LUT": ("B,D",),
    "2LUT": ("B,D", "B,D"),
    "sums of rows": ("M",),
    "sums of columns": ("N",),
    "sum of all": ("",),
    "transpose": ("N,M",),
    "depthwise conv": ("N,C,H+P+P-KH+1,W+P+P-KW+1",),
}


def result_shapes(workload: Workload) -> list[tuple[int, ...]]:
    """The shapes of the results: those above, a pooled image, or that of the first input."""
    sizes = workload.sizes
    if workload.family.name in _SHAPES:
        texts = _SHAPES[workload.family.name]
        return [tuple(extent(d, sizes) for d in text.split(",") if d) for text in texts]
    if "pool" in workload.family.name:
        image = ((sizes[d] - sizes["K"]) // sizes["S"] + 1 for d in "HW")
        return [(sizes["N"], sizes["C"], *image)]
    return [(sizes["M"], sizes["N"])]
