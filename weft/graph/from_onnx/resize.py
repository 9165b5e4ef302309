"""Entries of the table of ONNX's operators: images in other sizes.

Where each element of the result looks in the image, and with which weights, is computed while loading, an axis at a
time; the formula is a lookup or a short sum of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.graph.formulas import joints, pointwise, updates, windows
from weft.graph.formulas.common import axis
from weft.graph.formulas.resample import SUPPORT, reach, taps
from weft.graph.from_onnx.pointwise import float_only
from weft.graph.from_onnx.table import Site, Term, facts_of, known_term, lowers
from weft.ir.errors import UnsupportedError


@dataclass(frozen=True)
class _Axis:
    """One axis: how many elements before and after, by which factor, and the part of it that a crop is of."""

    dim: int
    size: int
    result: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    @property
    def width(self) -> float:
        """The size of the result before it is made whole, which is what corners are aligned by."""
        return self.size * self.scale


@lowers("Upsample")
def _upsample(t: Site, x: Term, scales: Term | None = None) -> Term:
    factors = t.get("scales") if scales is None else _factors(t, scales)
    along = [_Axis(d, n, math.floor(n * s), s) for d, (n, s) in enumerate(zip(x.shape, factors))]
    return _resized(t, x, along, t.get("mode", "nearest"), "asymmetric", "floor")


def _factors(t: Site, scales: Term | None) -> list[float]:
    factors = [] if scales is None else [float(v) for v in t.known(scales).reshape(-1)]
    if not all(math.isfinite(f) and f > 0 for f in factors):
        raise UnsupportedError(f"scales of {factors}")
    return factors


@lowers("Resize")
def _resize(t: Site, x: Term, *given: Term | None) -> Term:
    if t.opset < 11:
        factors = _factors(t, given[0])
        along = [_Axis(d, n, math.floor(n * s), s) for d, (n, s) in enumerate(zip(x.shape, factors))]
        return _resized(t, x, along, t.get("mode", "nearest"), "asymmetric", "floor")
    where = t.get("coordinate_transformation_mode", "half_pixel")
    along = _axes_to_resize(t, x, where, *given)
    made = _resized(t, x, along, t.get("mode", "nearest"), where, t.get("nearest_mode", "round_prefer_floor"))
    return _extrapolated(t, made, along) if where == "tf_crop_and_resize" else made


def _axes_to_resize(
    t: Site, x: Term, where: str, roi: Term | None = None, scales: Term | None = None, sizes: Term | None = None
) -> list[_Axis]:
    dims = [axis(d, x.rank) for d in t.get("axes", range(x.rank))]
    ends = [(0.0, 1.0)] * len(dims)
    if where == "tf_crop_and_resize" and roi is not None:
        numbers = [float(v) for v in t.known(roi)]
        ends = list(zip(numbers[: len(dims)], numbers[len(dims) :]))
    if scales is not None and scales.shape != (0,):
        factors = _factors(t, scales)
        results = [math.floor(x.shape[d] * s) for d, s in zip(dims, factors)]
    elif sizes is not None:
        results = list(t.ints(sizes))
        factors, results = _kept_aspect(t, [x.shape[d] for d in dims], results)
    else:
        raise UnsupportedError("neither scales nor sizes")
    return [_Axis(d, x.shape[d], m, s, *e) for d, m, s, e in zip(dims, results, factors, ends)]


def _kept_aspect(t: Site, old: list[int], new: list[int]) -> tuple[list[float], list[int]]:
    policy = t.get("keep_aspect_ratio_policy", "stretch")
    factors = [m / n for n, m in zip(old, new)]
    if policy == "stretch":
        return factors, new
    one = min(factors) if policy == "not_larger" else max(factors)
    return [one] * len(old), [math.floor(one * n + 0.5) for n in old]


def _coordinates(a: _Axis, where: str) -> Any:
    """Where in the image each element of the result is."""
    o = np.arange(a.result, dtype=np.float64)
    if where == "asymmetric":
        return o / a.scale
    if where == "half_pixel" or (where == "pytorch_half_pixel" and a.result > 1):
        return (o + 0.5) / a.scale - 0.5
    if where == "pytorch_half_pixel":
        return np.zeros(1)
    if where == "half_pixel_symmetric":
        adjusted = a.result / (a.scale * a.size)
        return a.size / 2 * (1 - adjusted) + (o + 0.5) / a.scale - 0.5
    if where == "align_corners":
        return np.zeros(1) if a.result == 1 else o * (a.size - 1) / (a.width - 1)
    if where == "tf_crop_and_resize":
        if a.result == 1:
            return np.array([0.5 * (a.start + a.end) * (a.size - 1)])
        return a.start * (a.size - 1) + o * (a.end - a.start) * (a.size - 1) / (a.width - 1)
    raise UnsupportedError(f"coordinates by {where}")


_NEAREST: dict[str, Any] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5), "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor, "ceil": np.ceil,
}  # fmt: skip


def _resized(t: Site, x: Term, along: list[_Axis], mode: str, where: str, nearest: str) -> Term:
    if mode != "nearest":
        float_only(x)
    sizes = dict(enumerate(x.shape)) | {a.dim: a.result for a in along}
    t.budget.check(tuple(sizes.values()), x.dtype)
    for a in along:
        t.reserve(a.result, 8)
        at = _coordinates(a, where)
        if a.result == a.size and np.array_equal(at, np.arange(a.size)):
            continue
        if mode == "nearest":
            x = _nearest(t, x, a, np.clip(_NEAREST[nearest](at), 0, a.size - 1).astype(np.int64))
        else:
            places, weights = _taps(t, a, at, mode)
            given = [x, known_term(places), known_term(weights.astype(np.float32))]
            x = t.make(given, windows.resampled, a.dim)
    return x


def _nearest(t: Site, x: Term, a: _Axis, places: Any) -> Term:
    times = a.result // a.size if a.result % a.size == 0 else 0
    if times and np.array_equal(places, np.arange(a.result) // times):
        sizes = tuple(a.result if d == a.dim else n for d, n in enumerate(x.shape))
        return t.make([x], windows.nearest, sizes, tuple(n / m for n, m in zip(x.shape, sizes)))
    return t.make([x, known_term(places)], joints.take, a.dim, False)


def _taps(t: Site, a: _Axis, at: Any, mode: str) -> tuple[Any, Any]:
    """Places in the image and weights, each (taps, elements of the result)."""
    if mode not in SUPPORT:
        raise UnsupportedError(f"mode is {mode!r}")
    shrink = min(a.scale, 1.0) if t.get("antialias", 0) else 1.0
    t.reserve(a.result * 2 * reach(mode, shrink), 8)
    cubic, inside = t.get("cubic_coeff_a", -0.75), bool(t.get("exclude_outside", 0))
    return taps(at, a.size, mode, shrink=shrink, cubic=cubic, inside_only=inside)


def _extrapolated(t: Site, x: Term, along: list[_Axis]) -> Term:
    """Elements that look outside the image have a value of their own."""
    for a in along:
        t.reserve(a.result, 4)
        at = _coordinates(a, "tf_crop_and_resize")
        outside = (at < 0) | (at > a.size - 1)
        if outside.any():
            mask = outside.reshape(tuple(-1 if d == a.dim else 1 for d in range(x.rank)))
            value = float(t.get("extrapolation_value", 0.0))
            x = t.make([x, known_term(mask)], pointwise.masked_fill, value)
    return x


#: Modes by the names that versions of the operator have for them.
_SAMPLED = {
    "linear": "linear", "bilinear": "linear", "nearest": "nearest", "cubic": "cubic", "bicubic": "cubic",
}  # fmt: skip
_OUTSIDE = {"zeros": "zeros", "border": "border", "reflection": "reflection"}


@lowers("GridSample")
def _grid_sample(t: Site, x: Term, grid: Term) -> Term:
    float_only(x, grid)
    rank = x.rank - 2
    mode, outside = facts_of(_SAMPLED, t, "mode", "linear"), facts_of(_OUTSIDE, t, "padding_mode", "zeros")
    if rank < 1 or grid.rank != x.rank or grid.shape[-1] != rank or grid.shape[0] != x.shape[0]:
        raise UnsupportedError(f"an image of shape {x.shape} at places of shape {grid.shape}")
    if 0 in x.shape or (mode == "cubic" and rank != 2):
        raise UnsupportedError(f"{mode} samples of an image of shape {x.shape}")
    return t.make([x, grid], updates.sampled, mode, outside, bool(t.get("align_corners", 0)))
