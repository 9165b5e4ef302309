"""How alike two orders are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The correlation of ranks; ties share theirs."""
    a, b = ranks(xs), ranks(ys)
    a, b = a - a.mean(), b - b.mean()
    return float((a * b).sum() / math.sqrt((a * a).sum() * (b * b).sum()))


def ranks(xs: Sequence[float]) -> np.ndarray:
    order = np.argsort(xs, kind="stable")
    found = np.empty(len(xs))
    found[order] = np.arange(len(xs))
    values = np.asarray(xs)
    for value in np.unique(values):
        same = values == value
        found[same] = found[same].mean()
    return found
