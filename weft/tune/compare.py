"""When one program is faster than another, and when its results are right.

Both are run in turns, so that what else the machine does hits both. Of the ratios of the turns the median counts, with
the interval that the sign test gives: of n ratios in order, the k-th from below and from above enclose the median with
known probability, whatever the distribution of times is. A candidate wins once the interval lies below 1 by `MARGIN`,
loses once it lies above that; in between, more turns are taken. No win within the interval: what is undecided is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Verdict = Literal["won", "lost"]
#: Certainty of an interval; a candidate is looked at after so many turns and at no others, since each look may err.
CERTAINTY = 0.995
LOOKS = (9, 18, 36)
#: What a win is at least: less is within what code gains by lying elsewhere in memory.
MARGIN = 0.995
#: After so few turns a candidate is out that was slower by so much in all of them.
_SOON, _FAR = 3, 1.1


def interval(ratios: Sequence[float], certainty: float = CERTAINTY) -> tuple[float, float]:
    """Where the median is; everywhere where there are too few ratios to say."""
    n, below, k = len(ratios), 0.0, 0
    while k < n and 2 * (below + comb(n, k) / 2**n) <= 1 - certainty:
        below += comb(n, k) / 2**n
        k += 1
    if k == 0:
        return 0.0, float("inf")
    ordered = sorted(ratios)
    return ordered[k - 1], ordered[n - k]


def decide(ratios: Sequence[float]) -> Verdict | None:
    """What times of a candidate over those of the best so far say; None: go on."""
    if len(ratios) == _SOON and min(ratios) > _FAR:
        return "lost"
    if len(ratios) not in LOOKS:
        return None
    low, high = interval(ratios)
    return "won" if high < MARGIN else "lost" if low > MARGIN else None


def differs(found: npt.NDArray[Any], right: npt.NDArray[Any]) -> str | None:
    """How results are not those of the plain loops, in words; sums may round otherwise, as other orders do."""
    if found.dtype.kind in "iub":
        wrong = found != right
        return _told(wrong, found, right) if wrong.any() else None
    eps = _rounding(found.dtype)
    kind = np.complex128 if found.dtype.kind == "c" else np.float64
    a, b = found.astype(kind), right.astype(kind)
    finite = np.isfinite(b)
    scale = float(np.abs(b[finite]).max()) if finite.any() else 0.0
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= eps * (scale + np.abs(b))
    right_too = np.where(finite, near, (a == b) | (np.isnan(a) & np.isnan(b)))
    return None if right_too.all() else _told(~right_too, a, b)


def _rounding(dtype: np.dtype[Any]) -> float:
    """What sums in another order differ by, of the largest result; of narrow types less: what is summed is wider."""
    import ml_dtypes

    eps = float(ml_dtypes.finfo(dtype).eps)
    return min(256 * eps, max(1e-3, 4 * eps))


def _told(wrong: npt.NDArray[Any], found: npt.NDArray[Any], right: npt.NDArray[Any]) -> str:
    at = tuple(int(x[0]) for x in np.nonzero(wrong))
    return f"{int(wrong.sum())} of {wrong.size} elements differ, the first at {at}: {found[at]}, not {right[at]}"
