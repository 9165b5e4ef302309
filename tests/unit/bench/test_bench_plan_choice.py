"""What `bench.plan_choice` makes of measured lists, and how it has another plan applied."""

from __future__ import annotations

import pytest

from bench.plan_choice import Choice, Lists, summary


def _choice(workload: str, *measured: float) -> Choice:
    names = tuple(f"plan {n}" for n in range(len(measured)))
    return Choice(workload, "C", names, tuple(float(n) for n in range(len(measured))), measured)


def test_the_worst_list_of_a_workload_counts() -> None:
    lines = summary([_choice("a", 1.0, 1.0), _choice("b", 1.0, 2.0), _choice("b", 3.0, 2.0)])
    assert lines[0] == "within 5% of the fastest of its list: 1 of 2 workloads, 50%"
    assert lines[2] == "worst: 1.50 times the fastest, b"
    assert _choice("b", 3.0, 2.0).loss == pytest.approx(1.5)


def test_a_plan_is_put_first_and_lists_are_remembered() -> None:
    times = {"slow": 2.0, "fast": 1.0}
    lists = Lists(("C", "slow"))
    assert lists("C", ["slow", "fast"], times.__getitem__) == ["slow", "fast"]
    assert lists.found["C"] == [("fast", 1.0), ("slow", 2.0)]
    assert lists("D", ["slow", "fast"], times.__getitem__) == ["fast", "slow"]
