"""Candidates that crash, hang, eat memory, write beside their arrays or give wrong results cost a process at most."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faulty_candidates
import numpy as np
import pytest

import weft
from weft.runtime.argument import ArgumentInfo
from weft.runtime.arrays import describe
from weft.runtime.records import Records, Task
from weft.tune.candidate_process import CandidateProcess, LostError
from weft.tune.compare import decide, differs, interval
from weft.tune.guarded import Guarded, plain, take
from weft.tune.job import PLAIN_LOOPS, Job
from weft.tune.point import Point
from weft.tune.run_candidates import Turns, check_and_time, compile_candidate, compute_reference
from weft.tune.tune import _checked_call, _fresh_signature
from weft.tune.tuner import Tuner

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
AUTOMATIC = 'numerics = "fast"\nvectorize("n", 8)\n'


def a_job(make: Any = faulty_candidates.make) -> Job:
    rng = np.random.default_rng(0)
    op = weft.define(MM)
    args = [rng.standard_normal(shape).astype(np.float32) for shape in ((13, 17), (17, 19))]
    call = _checked_call(op, args, None, 1.0)
    given = tuple(take(v) for v in call.values if isinstance(v, ArgumentInfo))
    out = (take(describe(np.zeros((13, 19), np.float32))),)
    return Job(op, _fresh_signature(op, call), given, out, 1, make=make, load=faulty_candidates.load)


def soon(seconds: float = 60.0) -> float:
    return time.monotonic() + seconds


@pytest.fixture(scope="module")
def code() -> Iterator[Any]:
    """Compiles traces."""
    process = CandidateProcess(a_job())

    def compiled(trace: str) -> Any:
        process.ask(compile_candidate, trace, soon())
        made, outcome = process.answer(soon())
        assert outcome.ended == "won", outcome
        return made

    yield compiled
    process.close()


@pytest.fixture(scope="module")
def runner(code: Any) -> Iterator[CandidateProcess]:
    process = CandidateProcess(a_job())
    outcome = process.also(compute_reference, code(PLAIN_LOOPS), soon())
    assert outcome.ended == "won", outcome
    yield process
    process.close()


def ended(runner: CandidateProcess, code: Any, fault: str, seconds: float = 60.0) -> tuple[str, str]:
    turns = Turns(code(f"{AUTOMATIC}# {fault}\n" if fault else AUTOMATIC), code(AUTOMATIC), 5.0)
    try:
        runner.ask(check_and_time, turns, soon())
        outcome = runner.answer(soon(seconds))
    except LostError as error:
        return error.ended, error.why
    return outcome.ended, outcome.why


@pytest.mark.parametrize(
    ("fault", "how", "why"),
    [
        ("crash", "crashed", "SIGSEGV"),
        ("quits", "crashed", "ended with 3"),
        ("memory", "memory", "more memory"),
        ("before", "outside", "before the begin"),
        ("behind", "crashed", "SIGSEGV"),
        ("argument", "outside", "to an argument"),
        ("wrong", "wrong", "1 of 247 elements differ"),
        ("slow", "lost", ""),
    ],
)
def test_what_goes_wrong_is_told_and_the_next_is_measured(
    runner: CandidateProcess, code: Any, fault: str, how: str, why: str
) -> None:
    found = ended(runner, code, fault)
    assert found[0] == how, found
    assert why in found[1]
    assert ended(runner, code, "")[0] in ("undecided", "lost", "won")


def test_what_hangs_is_ended_in_time(runner: CandidateProcess, code: Any) -> None:
    assert ended(runner, code, "")[0] in ("undecided", "lost", "won")  # there is a process that is ready
    begun = time.monotonic()
    assert ended(runner, code, "hang", 1.0)[0] == "hung"
    assert time.monotonic() - begun < 10
    assert ended(runner, code, "")[0] in ("undecided", "lost", "won")


class Listed:
    """A strategy that asks for given traces."""

    def __init__(self, traces: list[str]) -> None:
        self.left, self.told = [Point("listed", (), t) for t in traces], dict[str, float]()

    def ask(self) -> Point | None:
        return self.left.pop(0) if self.left else None

    def tell(self, point: Point, ratio: float) -> None:
        self.told[point.trace] = ratio


def test_a_search_through_all_faults_ends_well(tmp_path: Path) -> None:
    ways = ["crash", "memory", "before", "behind", "argument", "wrong", "quits", "compile crash", "refused"]
    records = Records(tmp_path / "r.sqlite")
    listed = Listed([f"{AUTOMATIC}# {way}\n" for way in ways])
    task = Task("p", "s", "m", 1, "v")
    tuner = Tuner(a_job(), task, "mm", AUTOMATIC, lambda: listed, records)  # type: ignore[arg-type,return-value]
    found = tuner.run(time.monotonic(), 90.0)
    assert not found.is_faster
    assert found.trials == len(ways)
    assert found.ended == {"crashed": 4, "memory": 1, "outside": 2, "wrong": 1, "refused": 1}
    assert records.best(task) is None
    assert [m.ended for m in records.all()][-1] == "automatic"


def test_what_is_faster_is_kept_and_the_budget_holds(tmp_path: Path) -> None:
    records, task = Records(tmp_path / "r.sqlite"), Task("p", "s", "m", 1, "v")
    slow = f"{AUTOMATIC}# slow\n"
    faster = Listed([AUTOMATIC.replace("8", "16")])
    tuner = Tuner(a_job(), task, "mm", slow, lambda: faster, records)  # type: ignore[arg-type,return-value]
    begun = time.monotonic()
    found = tuner.run(begun, 40.0)
    assert time.monotonic() - begun < 42
    assert found.is_faster
    assert found.speedup > 2
    best = records.best(task)
    assert best is not None
    assert best.trace == found.trace


def test_intervals_are_those_of_the_sign_test() -> None:
    assert interval([1.0] * 3) == (0.0, float("inf"))
    assert interval([float(n) for n in range(9)]) == (0.0, 8.0)  # 1 - 2 / 2^9
    low, high = interval([float(n) for n in range(36)])
    assert (low, high) == (9.0, 26.0)


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [([0.9] * 8, None), ([0.9] * 9, "won"), ([1.2] * 3, "lost"), ([1.0] * 9, "lost"), ([0.8, 1.2] * 9, None)],
)
def test_no_win_within_the_interval(ratios: list[float], verdict: str | None) -> None:
    assert decide(ratios) == verdict


def test_equal_programs_seldom_win() -> None:
    """On a machine that gets busy half way, too: times of both get longer by the same."""
    rng, wins = np.random.default_rng(0), 0
    for _ in range(1000):
        ratios: list[float] = []
        while len(ratios) < 36 and (verdict := decide(ratios)) is None:
            busy = 1.0 if len(ratios) < 12 else 2.0
            one, two = busy * (1 + rng.exponential(0.2, 2))
            ratios.append(one / two)
        wins += verdict == "won"
    assert wins < 20


def test_results_that_differ() -> None:
    right = np.linspace(-1, 1, 100, dtype=np.float32).reshape(10, 10)
    assert differs(right + np.float32(1e-6), right) is None
    assert "(3, 4)" in str(differs(np.where(np.arange(100).reshape(10, 10) == 34, 5, right), right))
    with_nan = right.copy()
    with_nan[2, 2] = np.nan
    assert differs(with_nan, with_nan) is None
    assert differs(with_nan, right) is not None
    assert differs(right, with_nan) is not None
    whole = np.arange(5)
    assert differs(whole + (whole == 3), whole) is not None
    assert differs(np.empty((0, 3), np.float32), np.empty((0, 3), np.float32)) is None


@pytest.mark.parametrize("shape", [(1,), (7, 5), (0, 3), (1024, 5)])
def test_guarded_arrays_hold_what_they_are_given(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).standard_normal(shape)
    for view in (array, array[::-1], array.T):
        given = take(describe(view))
        guarded = Guarded(given)
        np.testing.assert_array_equal(guarded.array, view)
        np.testing.assert_array_equal(plain(given), view)
        assert guarded.is_intact
