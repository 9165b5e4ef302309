"""Decisions of the automatic schedulers, forced on small programs: whatever they are, results stay what they are.

`bulk_forced` does the same with fresh seeds, for as long as one likes, and tells which decisions none reached; `make
soak` runs it.
"""

from __future__ import annotations

import re
from dataclasses import replace

import forced_case
import pytest
from forced_case import LISTED, Forcing, Mode, run_case
from forced_formulas import formulas
from forced_thresholds import forced, thresholds, value_of

import weft
from weft.auto import draft
from weft.ir.expr import Binary
from weft.ir.stmt import Kernel
from weft.ir.visit import rewrite
from weft.schedules.schedule import Schedule

#: Programs a part, of about so many iterations.
CASES, POINTS = 14, 8_000
PARTS = [*(("cpu", part) for part in range(6)), *(("gpu", part) for part in range(5)), ("polyhedral", 0)]


@pytest.mark.parametrize(("mode", "part"), PARTS)
def test_forced_decisions_keep_the_meaning(mode: Mode, part: int, first_seed: int) -> None:
    for seed in range(first_seed + 1000 * part, first_seed + 1000 * part + CASES):
        found = run_case(seed, mode, POINTS)
        assert found.kind in ("right", "dropped"), f"{mode}, seed {seed}: {found.why}"


@pytest.mark.parametrize("name", sorted(formulas()))
def test_each_program_means_something(name: str) -> None:
    text = formulas()[name][0].replace("S2", "2")
    assert weft.define(re.sub(r"\bH(?=\()", "float16", re.sub(r"\bT(?=\()", "float", text))).program.statements


@pytest.mark.parametrize("mode", sorted(LISTED))
def test_thresholds_are_there(mode: Mode) -> None:
    assert all(value_of(name) is not None for name in thresholds(LISTED[mode]))


def test_thresholds_are_changed_wherever_they_are_imported_and_told() -> None:
    usual = draft.THREAD_WORK
    with forced({"draft.THREAD_WORK": 7}, ["draft.THREAD_WORK"]) as asked:
        assert not asked
        assert draft.THREAD_WORK + 1 == 8
        assert asked == {"draft.THREAD_WORK"}
    assert draft.THREAD_WORK is usual


def test_a_schedule_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What should be added is taken off."""
    usual = forced_case.schedule

    def wrongly(s: Schedule, forcing: Forcing) -> Kernel:
        kernel = usual(s, forcing)
        return replace(kernel, body=rewrite(kernel.body, taken_off))

    def taken_off(n: object) -> Binary | None:
        is_sum = isinstance(n, Binary) and n.op == "+" and n.dtype.is_float
        return Binary("-", n.left, n.right) if is_sum else None  # type: ignore[union-attr]

    monkeypatch.setattr(forced_case, "schedule", wrongly)
    found = [run_case(seed, "cpu", POINTS, "matmul") for seed in range(8)]
    assert any(report.kind == "wrong" and "tolerances" in report.why for report in found)
