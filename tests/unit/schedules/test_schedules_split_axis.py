"""``split_axis``: an axis of groups as two, for all blocks and buffers concerned."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ir.errors import ScheduleError
from weft.ir.interpret import interpret
from weft.ir.printer import print_kernel
from weft.ir.verify import verify
from weft.operators.schedule import OperatorSchedule
from weft.schedules.merge_axes import merged_arguments

GROUPED = """def f(float(H,N) X, float(G,N) V, float(H) B) -> (O) {
    S(h) +=! X(h,n) * V(h/3,n)
    O(h) = S(h) + B(h) * h
}"""
SHAPES = {"X": (6, 4), "V": (2, 4), "B": (6,)}


def start(text: str = GROUPED, **shapes: tuple[int, ...]) -> OperatorSchedule:
    return weft.schedule(weft.define(text), **(shapes or SHAPES))


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_all_blocks_and_buffers_change(size: int) -> None:
    """Groups that are not those of the program leave quotients in its subscripts, and are right all the same."""
    s = start()
    original = s.kernel
    s.split_axis("S", 0, size)
    verify(s.kernel)
    assert [len(b.shape) for b in s.kernel.buffers] == [3, 2, 2, 2]
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype(np.float32) for shape in SHAPES.values()]
    got, want = (np.zeros(6, np.float32) for _ in range(2))
    interpret(s.kernel, merged_arguments(original, s.kernel, [*args, got]))
    interpret(original, [*args, want])
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(s.build()(*args), want)


def test_what_a_group_has_in_common_is_a_subscript() -> None:
    s = start()
    s.split_axis("O", 0, 3)
    assert "V[vh_o, vn]" in print_kernel(s.kernel)


@pytest.mark.parametrize(
    ("text", "dimension", "size", "why"),
    [
        (GROUPED, 1, 2, "1 is none"),
        (GROUPED, 0, 4, "is not groups of 4"),
        (GROUPED, 0, 0, "size"),
        ("def f(float(H) X) -> (O) { O(h) = X(h+1) where h in 0:H-1 }", 0, 3, "not groups of 3"),
        ("def f(float(H) X) -> (O) { S(h) = X(h) * 2\n O(h) = S(5-h) where h in 0:6 }", 0, 3, "by one iterator"),
        ("def f(float(H,K) X) -> (O) { O(h) = X(h,h) where h in 0:6 }", 0, 3, "in several places"),
    ],
)
def test_refused(text: str, dimension: int, size: int, why: str) -> None:
    shapes = SHAPES if text is GROUPED else {"X": (6, 6) if "K" in text else (6,)}
    buffer = "S" if "S(h)" in text else "O"
    with pytest.raises(ScheduleError) as refusal:
        start(text, **shapes).split_axis(buffer, dimension, size)
    assert why in str(refusal.value)
