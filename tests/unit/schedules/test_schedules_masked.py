"""Temporaries computed again for some of their readers, and iterations left out that add nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from schedule_kernels import assert_unchanged, floats, kernel_of, schedule_of

from weft.ir.errors import ScheduleError
from weft.ir.interpret import interpret
from weft.ir.printer import print_expr, print_kernel
from weft.schedules.find import find_loop
from weft.schedules.schedule import Schedule, replay

SHARED = """
def shared(float(M,K) A, float(K,N) B) -> (Rows, Columns) {
    X(m,n) +=! A(m,k) * B(k,n)
    Rows(m) +=! exp(X(m,n))
    Columns(n) +=! X(m,n)
}"""
MASKED = """
def masked(float(S,T) X, float(T,E) V) -> (float(S,E) Y) {
    W(s,t) = {mask} ? exp(X(s,t)) : 0
    Y(s,e) +=! W(s,t) * V(t,e)
}"""
SIZES = {"S": 12, "T": 12, "E": 3}


def test_readers_have_copies_of_their_own() -> None:
    sizes = {"M": 5, "N": 7, "K": 3}
    s = schedule_of(SHARED, **sizes)
    block, buffer = s.recompute("X", "Columns")
    assert (block.name, buffer.name) == ("X_again", "X_again")
    assert f"+ {buffer.name}[" in print_kernel(s.kernel)
    assert_unchanged(s, kernel_of(SHARED, **sizes), floats(5, 3), floats(3, 7))
    s.compute_at("X", s.loops("Rows")[0])
    assert_unchanged(s, kernel_of(SHARED, **sizes), floats(5, 3), floats(3, 7))
    assert replay(kernel_of(SHARED, **sizes), s.trace) == s.kernel


@pytest.mark.parametrize(
    ("readers", "why"), [((), "are missing"), (("X",), "does not read"), (("Rows", "nope"), "nope")]
)
def test_readers_must_be_readers(readers: tuple[str, ...], why: str) -> None:
    with pytest.raises(ScheduleError, match=why):
        schedule_of(SHARED, M=5, N=7, K=3).recompute("X", *readers)


def test_what_is_inside_a_loop_is_not_computed_again() -> None:
    s = schedule_of(SHARED, M=5, N=7, K=3)
    s.recompute("X", "Columns")
    s.compute_at("X", s.loops("Rows")[0])
    with pytest.raises(ScheduleError, match="outside all loops"):
        s.recompute("X", "Rows")


def tiled(text: str, numerics: Any = "fast", each: int = 4) -> tuple[Schedule, str]:
    """Sums over tiles of 4 steps for tiles of ``each`` rows."""
    s = Schedule(kernel_of(text, **SIZES), numerics=numerics)
    heads = []
    for name in ("W", "Y"):
        loops = {x.name.partition("_")[0]: x for x in s.loops(name)}
        rows, row = s.split(loops["s"], each)
        steps, step = s.split(loops["t"], 4)
        s.reorder(rows, steps, row, step)
        heads.append((rows, steps))
    (rows, steps), (others, also) = heads
    s.fuse_loops(rows, others)
    s.fuse_loops(steps, also)
    s.decompose_reduction("Y", at=steps)
    s.store_at("W", steps)
    return s, str(steps)


@pytest.mark.parametrize(
    ("mask", "lo", "hi"),
    [
        ("s >= t", "0", "s_o + 1"),
        ("t >= s", "s_o", "3"),
        ("s >= t && s - t < 4", "max(s_o - 1, 0)", "max(s_o + 1, max(s_o - 1, 0) + 1)"),
        ("t < 6", "0", "2"),
    ],
)
def test_tiles_of_zeros_are_left_out(mask: str, lo: str, hi: str) -> None:
    s, steps = tiled(MASKED.replace("{mask}", mask))
    given = [floats(12, 12), floats(12, 3)]
    s.skip_masked(steps)
    loop = find_loop(s.kernel, steps)
    assert (print_expr(loop.lo), print_expr(loop.hi)) == (lo, hi)
    expected, got = np.zeros((12, 3), "float32"), np.full((12, 3), 7, "float32")
    interpret(kernel_of(MASKED.replace("{mask}", mask), **SIZES), [*given, expected])
    interpret(s.kernel, [*given, got])
    np.testing.assert_array_equal(got, expected)


LOOKED_UP = MASKED.replace("float(T,E) V)", "float(T,E) V, int32(S) A, int32(S) I)")
REVERSED = np.arange(12, dtype=np.int32)[::-1].copy()


@pytest.mark.parametrize(
    ("mask", "bounds"),
    [("t >= A(s)", ["A_least[s_o]"]), ("t < A(I(s)) && t <= s", ["A_greatest[s_o]"])],
)
def test_what_is_looked_up_bounds_tiles(mask: str, bounds: list[str]) -> None:
    """Least and greatest are found before the nest; rows beyond the last one count as that one."""
    text = LOOKED_UP.replace("{mask}", mask)
    s, steps = tiled(text, each=5)
    given = [floats(12, 12), floats(12, 3), np.array([0, 3, 1, 2, 9, 9, 7, 8, 11, 4, 4, 4], np.int32), REVERSED]
    s.skip_masked(steps)
    loop = find_loop(s.kernel, steps)
    assert all(b in f"{print_expr(loop.lo)} {print_expr(loop.hi)}" for b in bounds)
    expected, got = np.zeros((12, 3), "float32"), np.full((12, 3), 7, "float32")
    interpret(kernel_of(text, **SIZES), [*given, expected])
    interpret(s.kernel, [*given, got])
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("mask", "numerics", "why"),
    [
        ("X(s,t) > 0", "fast", "no mask makes"),
        ("s >= t || t > 3", "fast", "no mask makes"),
        ("s >= t", "strict", "signs"),
    ],
)
def test_other_iterations_are_not(mask: str, numerics: str, why: str) -> None:
    s, steps = tiled(MASKED.replace("{mask}", mask), numerics)
    with pytest.raises(ScheduleError, match=why):
        s.skip_masked(steps)
