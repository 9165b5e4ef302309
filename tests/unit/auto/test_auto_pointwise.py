"""Nests without reuse: lanes along memory, short dimensions walked through as one, threads and streaming."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.auto.driver import AutoSchedule
from weft.auto.scheduler import auto_schedule
from weft.ir.stmt import For
from weft.ir.visit import walk
from weft.target.cpu.host import NAMED

SCALE = "def f(float(N,C,H,W) X, float(C) b) -> (O) { O(n,c,h,w) = X(n,c,h,w) * b(c) }"
PLAIN = "def f(float(N,C,H,W) X) -> (O) { O(n,c,h,w) = X(n,c,h,w) * 2 }"
POSITION = "def f(float(H,W) X) -> (O) { O(h,w) = X(h,w) * (h + w) }"
TURNED = "def f(float(M,N) A, float(M,N) B) -> (O) { O(m,n) = A(m,n) + B(m,n) }"


def scheduled(text: str, *args: object, threads: int = 2) -> AutoSchedule:
    schedule = weft.schedule(weft.define(text), *args, numerics="fast")
    return auto_schedule(schedule, NAMED["x86-64-avx512"], threads)


def told(found: AutoSchedule, topic: str) -> list[str]:
    return [d.what for d in found.decisions if d.topic == topic]


def test_short_dimensions_are_one() -> None:
    assert "`vh` and `vw`" in told(scheduled(SCALE, (8, 16, 7, 7), (16,)), "vector")[0]
    assert "`vn` and `vc` and `vh` and `vw`" in told(scheduled(PLAIN, (2, 3, 7, 7)), "vector")[0]


def test_positions_as_values_keep_their_loops() -> None:
    assert told(scheduled(POSITION, (7, 40)), "vector") == ["`vw` in 2 vectors of 16 at a time"]


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 5, 7), (1, 4, 7, 7), (3, 1, 16, 2), (2, 2, 1, 50)])
def test_results(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, b = rng.random(shape, np.float32), rng.random(shape[1], np.float32)
    np.testing.assert_array_equal(weft.define(SCALE)(x, b), x * b[:, None, None])
    np.testing.assert_array_equal(weft.define(PLAIN)(x), x * 2)


def test_strided_and_turned_operands() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((40, 66), np.float32)[:, ::2], rng.random((33, 40), np.float32).T
    np.testing.assert_array_equal(weft.define(TURNED)(a, b), a + b)


def test_a_nest_of_one_loop_runs_in_chunks() -> None:
    found = scheduled("def f(float(N) X) -> (O) { O(i) = X(i) * 2 }", (1 << 20,))
    loops = [n for n in walk(found.schedule.kernel) if isinstance(n, For)]
    assert [loop.kind for loop in loops] == ["parallel", "serial", "vector"]
    assert not told(scheduled("def f(float(N) X) -> (O) { O(i) = X(i) * 2 }", (100,)), "parallel")


def test_large_results_go_past_the_caches() -> None:
    large = scheduled("def f(float(N) X) -> (O) { O(i) = X(i) * 2 }", (1 << 26,))
    assert any(step.name == "stream" for step in large.schedule.trace.steps)


def test_rows_that_end_within_a_line_are_stored_as_usual() -> None:
    """Also in a loop that is shared with other stages; of more than any last cache holds."""
    assert "past the caches" in weft.ops.log_softmax.explain(X=(1_000_000, 1024))
    assert "past the caches" not in weft.ops.log_softmax.explain(X=(1_000_000, 1023))
