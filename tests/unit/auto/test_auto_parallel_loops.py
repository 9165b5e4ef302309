"""Threads get the same work, also where a last tile is not full."""

from __future__ import annotations

import pytest

from weft.auto.parallel_loops import idle_part


@pytest.mark.parametrize(
    ("iterations", "threads", "expected"), [(2, 2, 0.0), (3, 2, 0.25), (1.5, 2, 0.25), (100.5, 2, 0.0147), (8, 4, 0.0)]
)
def test_time_that_threads_wait(iterations: float, threads: int, expected: float) -> None:
    assert idle_part(iterations, threads) == pytest.approx(expected, abs=1e-3)
