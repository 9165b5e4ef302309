"""Medians, intervals, means and errors of the bench."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.field.statistics import geometric_mean, ratio_of_medians, relative_error


def test_ratio_and_its_interval() -> None:
    rng = np.random.default_rng(1)
    ours = rng.normal(1.0, 0.05, 15)
    ratio = ratio_of_medians((2 * rng.normal(1.0, 0.05, 15)).tolist(), ours.tolist())
    assert ratio.low < 2.0 < ratio.high
    assert ratio.low <= ratio.value <= ratio.high
    assert ratio.high - ratio.low < 0.4


def test_a_slow_moment_of_the_machine_cancels() -> None:
    """Turns are resampled in pairs: what slows both down does not widen the interval."""
    moments = np.array([1.0, 1.0, 9.0, 1.0, 5.0, 1.0, 7.0])
    ratio = ratio_of_medians((3 * moments).tolist(), moments.tolist())
    assert ratio == pytest.approx((3.0, 3.0, 3.0))


def test_peers_timed_once() -> None:
    ratio = ratio_of_medians([4.0], [1.0, 2.0, 3.0])
    assert ratio.value == 2.0
    assert 4 / 3 <= ratio.low <= ratio.high <= 4.0


def test_geometric_mean() -> None:
    assert geometric_mean([0.5, 2.0, 1.0]) == pytest.approx(1.0)
    assert math.isnan(geometric_mean([]))


def test_relative_error() -> None:
    right = np.array([0.0, 10.0])
    assert relative_error(np.array([0.1, 10.0], np.float32), right) == pytest.approx(0.01)
    assert relative_error(np.array([0.0, np.nan]), right) == math.inf
    assert relative_error(np.zeros(3), right) == math.inf
