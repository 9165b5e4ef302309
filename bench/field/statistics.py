"""Medians, ratios with their confidence, and means of ratios."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Ratio(NamedTuple):
    """How many times faster; the true ratio is between ``low`` and ``high`` with 95 % confidence."""

    value: float
    low: float
    high: float


def median(values: Sequence[float]) -> float:
    return float(np.median(values))


def ratio_of_medians(theirs: Sequence[float], ours: Sequence[float], resamples: int = 1000, seed: int = 0) -> Ratio:
    """Median time of theirs over median time of ours; resampling turns, in pairs where both took the same ones.

    Times of one turn go together because they share what else the machine was doing.
    """
    rng = np.random.default_rng(seed)
    first, second = np.asarray(theirs), np.asarray(ours)
    picked = rng.integers(0, len(first), (resamples, len(first)))
    other = picked if len(first) == len(second) else rng.integers(0, len(second), (resamples, len(second)))
    ratios: Array = np.median(first[picked], axis=1) / np.median(second[other], axis=1)
    low, high = np.percentile(ratios, (2.5, 97.5))
    return Ratio(median(theirs) / median(ours), float(low), float(high))


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def relative_error(got: Array, right: Array) -> float:
    """The largest difference, in units of the largest element that is right (at least 1); infinite for wrong shapes."""
    if got.shape != right.shape:
        return math.inf
    if not got.size:
        return 0.0
    difference = np.abs(got.astype(np.float64) - right)
    error = float(difference.max()) / max(1.0, float(np.abs(right).max()))
    return error if math.isfinite(error) else math.inf
