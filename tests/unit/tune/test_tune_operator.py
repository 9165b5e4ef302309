"""`op.tune` from end to end: what is found is used by later calls, here and in other processes, and told."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.cli.main import main
from weft.operators.tuned import task_of
from weft.runtime.executor import HOST
from weft.runtime.records import Measurement, default_records
from weft.tune.knob_space import KnobSpace
from weft.tune.plan_space import PlanSpace
from weft.tune.point import Point, distance, read_point
from weft.tune.replay import compare_strategies, recorded_times, replay
from weft.tune.sketch_space import SketchSpace
from weft.tune.strategies import STRATEGIES, find_strategy
from weft.tune.subject import Subject
from weft.tune.trace_space import TraceSpace
from weft.tune.tune import _checked_call, _fresh_signature, full_space

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
SOFTMAX = (
    "def f(float(N,D) X) -> (O) { M(n) max=! X(n,d)\n S(n) +=! exp(X(n,d)-M(n))\n O(n,d) = exp(X(n,d)-M(n)) / S(n) }"
)


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.fixture
def own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    yield tmp_path
    default_records().close()


def subject_of(text: str, *given: Any) -> Subject:
    op = weft.define(text)
    return Subject(op, _fresh_signature(op, _checked_call(op, given, None, 1.0)))


def kept(op: Any, args: list[Any], trace: str, ended: str = "best") -> None:
    """A record of ``trace``, as tuning would leave it."""
    subject = Subject(op, _fresh_signature(op, _checked_call(op, args, None, 1.0)))
    task = task_of(op._definition, op._definition.complete(subject.signature), HOST.machine("cpu"))
    default_records().add(Measurement(task, trace, ended, (1.0,) * 9, (1.25,) * 9, name=op.name))


@pytest.mark.parametrize("strategy", ["evolution", "grid"])
def test_tuning_keeps_results_right_and_time(own_records: Path, strategy: str) -> None:
    mm, (a, b) = weft.define(MM), arrays((33, 40), (40, 47))
    begun = time.monotonic()
    found = mm.tune(a, b, seconds=30, strategy=strategy, seed=1)
    assert time.monotonic() - begun < 30 * 1.05
    assert found.trials > 0
    assert not {"wrong", "crashed", "outside"} & set(found.ended)
    np.testing.assert_allclose(mm(a, b), a @ b, rtol=1e-4, atol=1e-4)
    assert default_records().all()[-1].ended in ("best", "automatic")


def test_a_record_is_used_and_told(own_records: Path) -> None:
    mm, (a, b) = weft.define(MM), arrays((33, 40), (40, 47))
    assert "tuned:" not in mm.explain(a, b)
    trace = 'numerics = "fast"\nn_o, n_i = split("n", 16, tail="guard")\nparallel("m")\n'
    kept(mm, [a, b], trace)
    other = weft.define(
        "def mm(float(M,K) A, float(K,N) B) -> (C) {\n  C(m,n) +=! A(m,k) * B(k,n)   # laid out otherwise\n}"
    )
    for op in (weft.define(MM), other):
        assert str(op.schedule(a, b).trace) == trace
        assert "tuned:    by record 1, 1.25 times as fast" in op.explain(a, b)
        assert "n_o" in op.show("loops", a, b)
        np.testing.assert_allclose(op(a, b), a @ b, rtol=1e-4, atol=1e-4)
    assert "n_o" not in str(mm.schedule(a[:-1], b).trace)  # other sizes
    assert "tuned:" not in weft.define(MM, numerics="strict").explain(a, b)
    kept(mm, [a, b], trace, "automatic")
    assert str(mm.schedule(a, b).trace) != trace


def test_a_record_that_does_not_apply_is_followed_no_more(own_records: Path) -> None:
    mm, (a, b) = weft.define(MM), arrays((5, 6), (6, 7))
    kept(mm, [a, b], 'numerics = "fast"\nparallel("there_is_none")\n')
    np.testing.assert_allclose(mm(a, b), a @ b, rtol=1e-4, atol=1e-4)
    last = default_records().all()[-1]
    assert last.ended == "automatic"
    assert "does not apply" in last.why


@pytest.mark.parametrize("kind", [PlanSpace, SketchSpace, TraceSpace])
@pytest.mark.parametrize("text", [MM, SOFTMAX])
def test_every_candidate_is_right(own_records: Path, kind: Any, text: str) -> None:
    given = arrays((13, 17), (17, 19)) if text == MM else arrays((7, 37))
    subject = subject_of(text, *given)
    space = TraceSpace(subject, str(subject.automatic().trace)) if kind is TraceSpace else kind(subject)
    rng, right = random.Random(4), weft.define(text, schedule="naive")(*given)
    drawn = [p for p in (space.draw(rng) for _ in range(4)) if p is not None]
    assert drawn
    drawn += [p for p in (space.near(drawn[0], rng), space.cross(drawn[0], drawn[-1], rng)) if p is not None]
    for point in {p.trace: p for p in drawn}.values():
        got = subject.op.with_schedule(point.trace)(*given)
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-4, err_msg=point.trace)
        assert read_point(str(point)) == point._replace(trace="")
        assert distance(point, point) == 0


def test_tiles_wider_than_what_is_left_of_a_row() -> None:
    """What a sketch found: wrong results, which the tuner sees and does not take."""
    a, b = arrays((13, 17), (17, 19))
    trace = """numerics = "fast"
m_o, m_i = split("m", 4, tail="guard")
n_o, n_i = split("n", 48, tail="guard")
reorder("m_o", "n_o", "k", "m_i", "n_i")
vectorize("n_i")
C_store, C_cache = cache_write("C", scope="register", at="n_o")
"""
    np.testing.assert_allclose(weft.define(MM).with_schedule(trace)(a, b), a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_same_seed_draws_the_same(own_records: Path, name: str) -> None:
    def asked(seed: int) -> list[str]:
        subject = subject_of(MM, *arrays((13, 17), (17, 19)))
        space = KnobSpace(subject, knobbed)
        strategy, found = find_strategy(name, space, seed, subject.price), []
        while len(found) < 5 and (point := strategy.ask()) is not None:
            found.append(point.trace)
            strategy.tell(point, 1.0 + len(point.trace) % 7)
        return found

    first = asked(5)
    assert len(set(first)) == len(first) > 1
    assert asked(5) == first


def knobbed(s: Any) -> None:
    m, n, _ = s.loops("C")
    s.split(m, s.knob("tile_m", [2, 4, 8]))
    s.split(n, s.knob("tile_n", [4, 8, 16]))


def test_knobs_of_a_users_schedule(own_records: Path) -> None:
    mm, (a, b) = weft.define(MM), arrays((13, 17), (17, 19))
    s = weft.schedule(mm, a, b)
    assert s.knob("tile", [8, 4]) == 8
    with pytest.raises(weft.ArgumentError, match="other values"):
        s.knob("tile", [1])
    space = KnobSpace(subject_of(MM, a, b), knobbed)
    assert len({p.trace for p in space.points()}) == 9
    with pytest.raises(weft.ArgumentError, match="no knobs"):
        KnobSpace(subject_of(MM, a, b), lambda s: None)


def test_bad_requests_say_what_is_wrong(own_records: Path) -> None:
    mm, (a, b) = weft.define(MM), arrays((3, 4), (4, 5))
    with pytest.raises(weft.ArgumentError, match="there is no strategy `evolutoin`"):
        mm.tune(a, b, strategy="evolutoin")
    with pytest.raises(weft.ArgumentError, match="no time"):
        mm.tune(a, b, seconds=0)
    with pytest.raises(weft.ArgumentError, match="a schedule that was given"):
        mm.with_schedule("naive").tune(a, b)


def test_strategies_are_compared_on_records() -> None:
    task = task_of(weft.define(MM)._definition, subject_of(MM, *arrays((3, 4), (4, 5))).signature, HOST.machine("cpu"))
    times = {f'numerics = "fast"\nsplit("m", {n})\n': 1.0 + abs(n - 24) / 8 for n in range(1, 65)}
    measured = [Measurement(task, t, "lost", (s,) * 9, (1.0,) * 9) for t, s in times.items()]
    assert recorded_times(measured) == {task: times}
    table = compare_strategies(measured, 16, 2)
    assert all(name in table for name in STRATEGIES)
    assert replay(times, "grid", 100, 0) == 1.0
    hill = np.mean([replay(times, "hill", 24, seed) for seed in range(20)])
    drawn = np.mean([replay(times, "random", 24, seed) for seed in range(20)])
    assert hill < drawn
    assert "tune something first" in compare_strategies([], 8)


def test_the_command_line(own_records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mm.weft").write_text(MM)
    sizes = [f"--size={n}" for n in ("M=8", "N=9", "K=10")]
    assert main(["tune", str(tmp_path / "mm.weft"), *sizes, "--seconds=20", "--strategy=random", "--seed=7"]) == 0
    assert "by random, seed 7" in capsys.readouterr().out
    assert main(["records", "list"]) == 0
    assert "mm" in capsys.readouterr().out
    assert main(["records", "show", "1"]) == 0
    assert "numerics" in capsys.readouterr().out
    assert main(["records", "export"]) == 0
    (tmp_path / "out.jsonl").write_text(capsys.readouterr().out)
    count = len(default_records().all())
    assert main(["records", "import", str(tmp_path / "out.jsonl")]) == 0
    assert f"0 records taken, {count} were there, 0 are damaged" in capsys.readouterr().out
    assert main(["records", "prune"]) == 0
    assert len(default_records().all()) == 1
    assert main(["records", "show", "999"]) == 1
    assert main(["records", "import"]) == 1
    assert main(["records", "replay"]) == 0


def test_points_read_back() -> None:
    point = Point("plans", (("C", 3), ("D fused", -1)))
    assert distance(point, point._replace(vector=(("C", 7), ("D fused", -1)))) == 1.0
    assert full_space(subject_of(MM, *arrays((3, 4), (4, 5))), 'numerics = "fast"\n').draw(random.Random(0)) is not None
