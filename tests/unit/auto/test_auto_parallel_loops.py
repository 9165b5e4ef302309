"""Threads get the same work, also where a last tile is not full."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.auto.parallel_loops import idle_part


@pytest.mark.parametrize(
    ("iterations", "threads", "expected"), [(2, 2, 0.0), (3, 2, 0.25), (1.5, 2, 0.25), (100.5, 2, 0.0147), (8, 4, 0.0)]
)
def test_time_that_threads_wait(iterations: float, threads: int, expected: float) -> None:
    assert idle_part(iterations, threads) == pytest.approx(expected, abs=1e-3)


def test_tiles_inside_the_pieces_of_a_sum_run_on_threads(two_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of weights: few lanes, and a sum over images too long to be kept near as a whole."""
    rng = np.random.default_rng(0)
    grown, image = rng.standard_normal((4, 20, 52, 52), np.float32), rng.standard_normal((4, 24, 54, 54), np.float32)
    with monkeypatch.context() as patched:
        patched.setenv("WEFT_TARGET", "x86-64-avx2")
        told = weft.ops.conv2d_grad_weight.explain(grown, image)
    assert "steps of `vn`" in told
    assert "on 2 threads; tiles do not share sums" in told
    windows = np.lib.stride_tricks.sliding_window_view(image, (52, 52), (2, 3))
    expected = np.einsum("nfhw,ncxyhw->fcxy", grown, windows, optimize=True)
    np.testing.assert_allclose(weft.ops.conv2d_grad_weight(grown, image), expected, rtol=1e-3, atol=2e-2)


def test_rows_whose_results_start_apart_run_on_threads(two_threads: None) -> None:
    assert "`b` on 2 threads" in weft.ops.sum_planes.explain(A=(64, 64, 64))
