"""Entries of the table: images in other sizes, an axis at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.graph.formulas import joints, windows
from weft.graph.formulas.resample import taps
from weft.graph.from_torch.table import Site, lowers
from weft.graph.graph import Edge
from weft.ir.errors import UnsupportedError


def _scales(t: Site, x: Edge, given: Any) -> list[float]:
    """Elements of the image for one of the result, along each axis: from factors where the model gives them."""
    image, sizes = x.shape[2:], t.shape[2:]
    factors = list(given) + [None] * (len(image) - len(given))
    return [n / m if f is None or f <= 0 else 1.0 / f for n, m, f in zip(image, sizes, factors)]


def _factors(args: tuple[Any, ...]) -> list[Any]:
    """Factors among the arguments behind the sizes: a list of them, or one for each axis."""
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        return list(args[0])
    return list(args)


_NEAREST = [f"{name}{n}d{kind}" for name in ("upsample_nearest", "_upsample_nearest_exact") for n in (1, 2, 3)
            for kind in ("", ".vec")]  # fmt: skip


@lowers(*_NEAREST)
def _nearest(t: Site, x: Edge, _sizes: Any, *factors: Any, **named: Any) -> str:
    scales = _scales(t, x, _factors(factors) or list(named.values()))
    half = np.float32(0.5 if "exact" in t.call.target else 0)
    image, sizes = x.shape[2:], t.shape[2:]
    if all(m % n == 0 and s == n / m for n, m, s in zip(image, sizes, scales)):
        return t.make([x], windows.nearest, sizes, tuple(scales))
    for d, (n, m, s) in enumerate(zip(image, sizes, scales), 2):
        places = np.minimum(np.floor((np.arange(m, dtype=np.float32) + half) * np.float32(s)), n - 1).astype(np.int64)
        if m != n or not np.array_equal(places, np.arange(n)):
            x = t.edge(t.make([x, t.constant(places)], joints.take, d, False, is_library=False))
    return t.copied(x)


_SMOOTH = {"upsample_linear1d": "linear", "upsample_bilinear2d": "linear", "upsample_trilinear3d": "linear",
           "upsample_bicubic2d": "cubic"}  # fmt: skip


@lowers(*_SMOOTH, *(f"{name}.vec" for name in _SMOOTH))
def _smooth(t: Site, x: Edge, _sizes: Any, corners: bool, *factors: Any, **named: Any) -> str:
    if not x.dtype.is_float:
        raise UnsupportedError("images of integers")
    mode = _SMOOTH[t.call.target.split(".")[1]]
    wide = np.float64 if x.dtype.name == "float64" else np.float32
    scales = _scales(t, x, _factors(factors) or list(named.values()))
    for d, (n, m, s) in enumerate(zip(x.shape[2:], t.shape[2:], scales), 2):
        o = np.arange(m, dtype=np.float64)
        at = (o * ((n - 1) / (m - 1)) if m > 1 else o * 0) if corners else (o + 0.5) * s - 0.5
        if m == n and np.array_equal(at, o):
            continue
        places, weights = taps(np.maximum(at, 0) if mode == "linear" else at, n, mode)
        given = [x, t.constant(places), t.constant(weights.astype(wide))]
        x = t.edge(t.make(given, windows.resampled, d, is_library=False))
    return t.copied(x)
