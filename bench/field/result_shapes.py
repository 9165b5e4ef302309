"""The shapes of results, for peers that are handed the arrays to fill."""

from __future__ import annotations

from bench.field.workloads import Sizes, Workload, extent

_MATRIX = ("M,N",)
_SHAPES = {
    "batched matmul": ("B,M,N",),
    "tbmm": ("B,M,N",),
    "depthwise conv": ("N,C,H+P+P-KH+1,W+P+P-KW+1",),
    "conv1d": ("N,F,L-K+1",),
    "attention": ("B,H,S,D",),
    "sums of rows": ("M",),
    "sums of columns": ("N",),
    "sum of all": ("",),
    "transpose": ("N,M",),
    "blur 3x3": ("H-2,W-2",),
    "C3": ("B,WY",),
    "MLP3": ("B,P",),
    "1LUT": ("B,D",),
    "2LUT": ("B,D", "B,D"),
    "min distance": ("M",),
    "argmin distance": ("M",),
    "bilateral": ("H-KH+1,W-KW+1",),
}


def result_shapes(workload: Workload) -> list[tuple[int, ...]]:
    """A shape for each result; matrices of M by N where nothing else is said."""
    sizes, name = workload.sizes, workload.family.name
    if name == "conv":
        return [(sizes["N"], sizes["F"], *(_steps(sizes, d, sizes["P"], sizes[f"K{d}"], sizes["D"]) for d in "HW"))]
    if name in ("max pool", "avg pool"):
        return [(sizes["N"], sizes["C"], *(_steps(sizes, d, 0, sizes["K"], 1) for d in "HW"))]
    return [tuple(extent(d, sizes) for d in text.split(",") if d) for text in _SHAPES.get(name, _MATRIX)]


def _steps(sizes: Sizes, dimension: str, pad: int, taps: int, apart: int) -> int:
    """How many windows fit along a dimension."""
    return (sizes[dimension] + 2 * pad - apart * (taps - 1) - 1) // sizes["S"] + 1
