"""``merge_axes``: dimensions that a program walks together become one, for all blocks and buffers concerned."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ir.errors import ScheduleError, ShapeError
from weft.ir.interpret import interpret
from weft.ir.verify import verify
from weft.operators.schedule import OperatorSchedule
from weft.schedules.merge_axes import merged_arguments

POINTWISE = """def f(float(N,C,H,W) X, float(F,C) V, float(F) B) -> (O) {
    S(n,f,h,w) +=! X(n,c,h,w) * V(f,c)
    O(n,f,h,w) = max(S(n,f,h,w) + B(f), 0)
}"""
SHAPES = {"X": (2, 3, 4, 5), "V": (6, 3), "B": (6,)}


def start(text: str = POINTWISE, **shapes: tuple[int, ...]) -> OperatorSchedule:
    return weft.schedule(weft.define(text), **(shapes or SHAPES))


def test_all_blocks_and_buffers_change() -> None:
    s = start()
    original = s.kernel
    assert [str(x) for x in s.merge_axes("O", 2)] == ["h_w", "h_1_w_1"]
    verify(s.kernel)
    assert [len(b.shape) for b in s.kernel.buffers] == [3, 2, 1, 3]
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype(np.float32) for shape in SHAPES.values()]
    got, want = (np.zeros((2, 6, 4, 5), np.float32) for _ in range(2))
    interpret(s.kernel, merged_arguments(original, s.kernel, [*args, got]))
    interpret(original, [*args, want])
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(s.build()(*args), want)


GATES = """def f(float(B,K) X, float(G,J,K) V) -> (O) {
    S(b,g,j) +=! X(b,k) * V(g,j,k)
    O(b,j) = S(b,1,j) * S(b,READ)
}"""


def test_who_reads_one_place_of_a_dimension_goes_on_to_do_so() -> None:
    sizes = {"X": (2, 3), "V": (2, 5, 3)}
    s = start(GATES.replace("READ", "0,4-j"), **sizes)
    original = s.kernel
    s.merge_axes("S", 1)
    verify(s.kernel)
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype(np.float32) for shape in sizes.values()]
    got, want = (np.zeros((2, 5), np.float32) for _ in range(2))
    interpret(s.kernel, merged_arguments(original, s.kernel, [*args, got]))
    interpret(original, [*args, want])
    np.testing.assert_array_equal(got, want)
    other = start(GATES.replace("READ", "j,0").replace("G,J,K", "J,J,K"), X=(2, 3), V=(5, 5, 3))
    with pytest.raises(ScheduleError, match="does not run through all of"):
        other.merge_axes("S", 1)


def test_three_axes_one_after_another() -> None:
    s = start("def f(float(N,H,W,C) X, float(F,C) V) -> (O) { O(n,h,w,f) +=! X(n,h,w,c) * V(f,c) }",
              X=(2, 4, 5, 3), V=(6, 3))  # fmt: skip
    s.merge_axes("O", 0)
    s.merge_axes("O", 0)
    assert [[int(e.value) for e in b.shape] for b in s.kernel.buffers] == [[40, 3], [6, 3], [40, 6]]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "buffer", "dimension", "why"),
    [
        (POINTWISE, "O", 3, "none follows dimension 3"),
        (POINTWISE, "O", 0, "does not run through all of"),
        ("def f(float(H,W) X) -> (O) { O(h,w) = X(h,w) + h }", "O", 0, "does not run through all of"),
        ("def f(float(H,W) X) -> (O) { O(h,w) = X(h,w+1) where w in 0:W-1 }", "O", 0, "does not run through all of"),
        ("def f(float(H,W) X) -> (O) { O(h,w) = X(w,h) where h in 0:4, w in 0:4 }", "O", 0, "does not run"),
    ],
)
def test_refused(text: str, buffer: str, dimension: int, why: str) -> None:
    s = start(text, **(SHAPES if text is POINTWISE else {"X": (4, 4)}))
    with pytest.raises(ScheduleError, match="cannot merge axes") as refusal:
        s.merge_axes(buffer, dimension)
    assert why in str(refusal.value)


def test_rows_that_are_apart_in_memory() -> None:
    x = np.zeros((4, 8), np.float32)[:, :5]
    s = weft.schedule(weft.define("def f(float(H,W) X) -> (O) { O(h,w) = X(h,w) }"), x)
    with pytest.raises(ScheduleError, match="do not lie in memory as one"):
        s.merge_axes("O", 0)


def test_only_merged_axes_are_taken_as_callers_have_them() -> None:
    s = start()
    s.merge_axes("O", 2)
    x, v, b, o = (np.zeros(shape, np.float32) for shape in (*SHAPES.values(), (2, 6, 4, 5)))
    with pytest.raises(ShapeError, match="argument `X` must have 3 dimensions, got 4"):
        interpret(s.kernel, [x, v, b, o])
    with pytest.raises(ShapeError, match="argument `V` must have 2 dimensions, got 3"):
        interpret(s.kernel, merged_arguments(s.start, s.kernel, [x, v.reshape(2, 3, 3), b, o]))
    with pytest.raises(ShapeError, match="argument `X` must have 3 dimensions, got 4"):
        interpret(s.kernel, merged_arguments(s.start, s.kernel, [x.reshape(2, 3, 5, 4), v, b, o]))


def test_the_sanitizer_gives_axes_as_callers_have_them() -> None:
    rng = np.random.default_rng(0)
    args = [rng.integers(-2, 3, shape).astype(np.float32) for shape in SHAPES.values()]
    op = weft.define(POINTWISE, numerics="fast")
    assert any(step.name == "merge_axes" for step in op.schedule(*args, target="cuda").trace)
    report = weft.sanitize(op, *args)
    assert report.ok, report
    np.testing.assert_array_equal(report.outputs["O"], op(*args))
