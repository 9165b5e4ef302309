"""Threads get the same work, also where a last tile is not full."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import weft
from weft.auto.parallel_loops import idle_part
from weft.auto.plan import rank_plans
from weft.auto.scheduler import auto_schedule
from weft.target.cpu.host import NAMED, host_machine


@pytest.mark.parametrize(
    ("iterations", "threads", "expected"), [(2, 2, 0.0), (3, 2, 0.25), (1.5, 2, 0.25), (100.5, 2, 0.0147), (8, 4, 0.0)]
)
def test_time_that_threads_wait(iterations: float, threads: int, expected: float) -> None:
    assert idle_part(iterations, threads) == pytest.approx(expected, abs=1e-3)


def test_tiles_inside_the_pieces_of_a_sum_run_on_threads(two_threads: None) -> None:
    """The gradient of weights: few lanes, and a sum over images that is cut into pieces."""
    rng = np.random.default_rng(0)
    grown, image = rng.standard_normal((4, 20, 52, 52), np.float32), rng.standard_normal((4, 24, 54, 54), np.float32)

    def blocked_first(subject: str, plans: Any, seconds: Any) -> list[Any]:
        return sorted(rank_plans(subject, plans, seconds), key=lambda plan: "blocks vn" not in str(plan))

    s = weft.schedule(weft.ops.conv2d_grad_weight, grown, image, numerics="fast")
    usual = replace(host_machine(), facts=NAMED["x86-64-avx512"].facts)  # its caches decide whether there are pieces
    decisions = auto_schedule(s, usual, 2, rank=blocked_first).decisions
    assert any("steps of `vn`" in d.what for d in decisions)
    assert any(d.topic == "parallel" and d.why == "tiles do not share sums" for d in decisions)
    windows = np.lib.stride_tricks.sliding_window_view(image, (52, 52), (2, 3))
    expected = np.einsum("nfhw,ncxyhw->fcxy", grown, windows, optimize=True)
    np.testing.assert_allclose(s.build()(grown, image), expected, rtol=1e-3, atol=2e-2)


def test_rows_whose_results_start_apart_run_on_threads(two_threads: None) -> None:
    assert "`b` on 2 threads" in weft.ops.sum_planes.explain(A=(64, 64, 64))
