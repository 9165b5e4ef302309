"""What `bench.before_after` makes of measured times."""

from __future__ import annotations

from bench.before_after import Row, Sides, describe, summary


def _row(name: str, before: float, after: float) -> Row:
    return Row(name, 1, Sides(before, after), Sides(0.1, 0.2), Sides(0.02, 0.01))


def test_a_ratio_above_one_is_faster() -> None:
    row = _row("matmul", 0.003, 0.002)
    assert row.call.ratio == 1.5
    assert "1.50" in describe(row)


def test_summary_names_the_slowest_ratio_first() -> None:
    lines = summary([_row("kept", 0.001, 0.001), _row("slower", 0.001, 0.004)])
    assert lines[0].startswith("calls: 0.500 of before")
    assert lines[1].strip() == "0.250 slower, 1 threads"
    assert lines[-2].startswith("cold: median 100.0 ms before, 200.0 after")
