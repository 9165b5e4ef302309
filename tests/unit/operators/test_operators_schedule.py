"""Operators that replay a schedule: warm starts, copies, and what the cache tells apart."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
from operator_process import run

import weft

TEXT = "def f(float(N) X) -> (Y) { Y(i) = X(i) * 2 + 1 }"
TRACE = 'i_o, i_i = split("i", 4)\nunroll("i_i")\nparallel("i_o")'
CALL = f"""
import sys
import numpy as np
import weft
f = weft.define({TEXT!r}).with_schedule({TRACE!r})
assert (f(np.full(5, 3, np.float32)) == 7).all()
print(*(m for m in ("lark", "llvmlite", "weft.tensor.lower", "weft.schedules.schedule") if m in sys.modules))
"""


def test_a_warm_start_of_a_scheduled_operator_replays_nothing(tmp_path: Path) -> None:
    first, _ = run(CALL, WEFT_CACHE_DIR=str(tmp_path))
    assert first == "lark llvmlite weft.tensor.lower weft.schedules.schedule\n"
    assert run(CALL, WEFT_CACHE_DIR=str(tmp_path)) == ("\n", "")


def test_schedules_of_one_definition_are_kept_apart() -> None:
    plain = weft.define(TEXT)
    x = np.arange(9, dtype=np.float32)
    before = plain.show("loops", x)
    scheduled = plain.with_schedule(TRACE)
    other = plain.with_schedule('unroll("i", 2)')
    for op in (plain, scheduled, other):
        np.testing.assert_array_equal(op(x), x * 2 + 1)
    assert "parallel i_o" in scheduled.show("loops", x)
    assert "unroll i_i" in other.show("loops", x)
    assert plain.show("loops", x) == before
    assert "unroll" not in before
    assert "parallel" not in before


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda op: pickle.loads(pickle.dumps(op))])
def test_copies_keep_the_schedule(copied) -> None:  # type: ignore[no-untyped-def]
    op = copied(weft.define(TEXT).with_schedule(TRACE))
    assert op.trace == TRACE
    assert "parallel i_o" in op.show("loops", np.zeros(8, np.float32))


def test_a_schedule_that_does_not_fit_is_told_at_the_call() -> None:
    op = weft.define(TEXT).with_schedule('split("m", 4)')
    with pytest.raises(weft.ScheduleError, match="step 1 of the trace does not fit kernel `f`"):
        op(np.zeros(8, np.float32))


def test_scheduling_starts_from_given_arrays_or_shapes() -> None:
    op = weft.define(TEXT)
    x = np.zeros((8, 2), np.float32)[:, 0]
    for s in (weft.schedule(op, x), weft.schedule(op, X=(8,)), weft.schedule(op, X=x)):
        assert "for i in 0:8" in str(s)
    assert "for i in 0:N" in str(weft.schedule(op))


def test_conditions_on_sizes_hold_for_each_signature() -> None:
    s = weft.schedule(weft.define(TEXT))
    (i,) = s.specialize("i", "N % 4 == 0")
    s.vectorize(i, 4)
    op = s.build()
    for n in (8, 7, 0):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(op(x), x * 2 + 1)
    assert "vector" in op.show("lowered", np.zeros(8, np.float32))


#: In a process that has compiled nothing yet.
FIRST_STEP = """
import weft
dot = weft.define("def dot(uint8(4) A, int8(16,4) B) -> (int32(16) C) { C(n) +=! int32(A(k)) * int32(B(n,k)) }")
s = weft.schedule(dot, (4,), (16, 4))
s.decompose_reduction("C", at="n")
s.tensorize("n", "vpdpbusd")
"""


def test_a_first_step_may_name_an_instruction() -> None:
    run(FIRST_STEP)
