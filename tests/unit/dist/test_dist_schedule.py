"""Schedules hold every task once, and their bubbles are what the formulas say."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from weft.dist.schedule import make_schedule
from weft.dist.simulate import StageTimes, simulate
from weft.ir.errors import ArgumentError

SIZES = [(1, 1), (1, 5), (2, 3), (4, 8), (8, 32), (12, 48), (7, 7)]


@pytest.mark.parametrize(("ranks", "count"), SIZES)
@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_bubble_of_plain_pipelines(name: Any, ranks: int, count: int) -> None:
    timeline = simulate(make_schedule(name, ranks, count), StageTimes(1.0, 2.0))
    assert timeline.bubble == pytest.approx((ranks - 1) / count)


@pytest.mark.parametrize(("ranks", "count", "chunks"), [(2, 4, 2), (4, 8, 3), (12, 48, 4), (8, 8, 2), (5, 10, 1)])
def test_bubble_of_interleaved_pipelines(ranks: int, count: int, chunks: int) -> None:
    schedule = make_schedule("interleaved", ranks, count, chunks)
    timeline = simulate(schedule, StageTimes(1.0 / chunks, 2.0 / chunks))
    assert timeline.bubble == pytest.approx((ranks - 1) / (chunks * count))


@pytest.mark.parametrize(("ranks", "count"), [(1, 3), (2, 4), (4, 8), (8, 24), (12, 48)])
def test_bubble_with_gradients_of_weights_apart(ranks: int, count: int) -> None:
    """ZB-H1: (p - 1)(F + B - W) of idle time, a third of what 1F1B has where all three take as long."""
    timeline = simulate(make_schedule("zero-bubble", ranks, count), StageTimes(1.0, 1.0, 1.0))
    assert timeline.end == pytest.approx(3 * count + (ranks - 1))


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved", "zero-bubble"])
@pytest.mark.parametrize(("ranks", "count"), [(1, 1), (3, 9), (4, 4)])
def test_every_task_is_there_once(name: Any, ranks: int, count: int) -> None:
    chunks = 2 if name == "interleaved" else 1
    schedule = make_schedule(name, ranks, count, chunks)
    kinds = 3 if name == "zero-bubble" else 2
    for tasks in schedule.tasks:
        assert set(Counter(tasks).values()) == {1}
        assert len(tasks) == kinds * count * chunks


def test_sending_delays_the_pipeline() -> None:
    schedule = make_schedule("1f1b", 2, 1)
    assert simulate(schedule, StageTimes(1.0, 2.0, send=0.5)).end == pytest.approx(7.0)


def test_interleaved_refuses_uneven_micro_batches() -> None:
    with pytest.raises(ArgumentError, match="5 micro-batches do not divide over 4 ranks"):
        make_schedule("interleaved", 4, 5, 2)
