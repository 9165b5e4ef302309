"""Images in other sizes: where each element of the result looks along an axis, and with which weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

#: How far from its place an element is read, by the way of reading between elements.
SUPPORT = {"linear": 1, "cubic": 2}


def reach(mode: str, shrink: float = 1.0) -> int:
    """How many elements to either side are read."""
    return math.ceil(SUPPORT[mode] / shrink)


def taps(
    at: Any, size: int, mode: str, *, shrink: float = 1.0, cubic: float = -0.75, inside_only: bool = False
) -> tuple[Any, Any]:
    """Places and weights, each (taps, elements of the result), for coordinates ``at`` along an axis of ``size``.

    ``shrink`` below one widens the reach, so that a smaller image is smooth; what is outside counts as the edge, or
    with ``inside_only`` not at all.
    """
    far = reach(mode, shrink)
    places = np.floor(at).astype(np.int64) + np.arange(1 - far, far + 1)[:, None]
    off = np.abs(places - at) * shrink
    weights = np.maximum(1 - off, 0) if mode == "linear" else _cubic(off, cubic)
    if inside_only:
        weights = weights * ((places >= 0) & (places < size))
    return np.clip(places, 0, size - 1), weights / weights.sum(0)


def _cubic(off: Any, a: float) -> Any:
    near = ((a + 2) * off - (a + 3)) * off * off + 1
    far = ((a * off - 5 * a) * off + 8 * a) * off - 4 * a
    return np.where(off <= 1, near, np.where(off < 2, far, 0))
