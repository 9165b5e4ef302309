"""Subscripts and values that depend on the lane near borders alone: inside, vectors ask nothing."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import If, Kernel
from weft.ir.visit import walk
from weft.passes.guards.separate_borders import separate_borders

TEXT = """kernel k(A: float32[64], out B: float32[64]) {
    for o in 0:8 { vector i in 0:8 { B[o * 8 + i] = VALUE } } }"""
SUBSCRIPTS = {
    "edge": "A[max(min(o * 8 + i + 1, 63), 0)]",
    "wrap": "A[(o * 8 + i - 1) % 64]",
    "wrap by more": "A[(o * 8 + i + 63) % 64]",
    "reflect": "A[min((o * 8 + i + 3) % 126, 126 - (o * 8 + i + 3) % 126)]",
    "chosen": "o * 8 + i >= 32 ? A[o * 8 + i - 32] : A[o * 8 + i + 32]",
    "masked": "o * 8 + i >= 2 && o * 8 + i < 62 ? A[o * 8 + i - 2] : 0.0",
}


def result(kernel: Kernel) -> np.ndarray:
    out = np.zeros(64, np.float32)
    interpret(kernel, [np.arange(64, dtype=np.float32), out])
    return out


def first_branch(kernel: Kernel) -> str:
    return print_kernel(kernel).split("if ", 1)[1].split("else")[0]


@pytest.mark.parametrize("value", SUBSCRIPTS.values(), ids=SUBSCRIPTS)
def test_inside_nothing_is_asked(value: str) -> None:
    kernel = parse_kernel(TEXT.replace("VALUE", value))
    parted = separate_borders(kernel)
    inside = first_branch(parted)
    assert not any(word in inside for word in ("max(", "min(", "%", "?"))
    np.testing.assert_array_equal(result(parted), result(kernel))


def test_what_the_lane_does_not_decide_is_left_alone() -> None:
    rows = parse_kernel("""kernel k(A: float32[8, 8], out B: float32[8, 8]) {
        for o in 0:8 { vector i in 0:8 { B[o, i] = A[max(o - 1, 0), i] } } }""")
    assert separate_borders(rows) is rows
    data = parse_kernel(TEXT.replace("VALUE", "A[o * 8 + i] > 2.0 ? 1.0 : 0.0"))
    assert separate_borders(data) is data


def test_what_holds_nowhere_at_once_is_not_asked() -> None:
    small = parse_kernel("""kernel k(A: float32[16], out B: float32[16]) {
        for o in 0:2 { vector i in 0:8 { B[o * 8 + i] = A[max(min(o * 8 + i, 14), 1)] } } }""")
    conditions = [n.condition for n in walk(separate_borders(small)) if isinstance(n, If)]
    assert len(conditions) == 1


def test_the_loop_outside_a_window_asks_once() -> None:
    kernel = parse_kernel("""kernel k(A: float32[64], W: float32[3], out B: float32[64]) {
        for o in 0:8 { for k in 0:3 { vector i in 0:8 {
            B[o * 8 + i] = B[o * 8 + i] + A[(o * 8 + i + k - 1) % 64] * W[k] } } } }""")
    text = print_kernel(separate_borders(kernel))
    assert text.index("if o >= 1 && o <= 6") < text.index("for k")


def test_sizes_may_be_unknown() -> None:
    kernel = parse_kernel("""kernel k(n: int64, A: float32[n * 8], out B: float32[n * 8]) {
        for o in 0:n { vector i in 0:8 { B[o * 8 + i] = A[min(o * 8 + i + 1, n * 8 - 1)] } } }""")
    parted = separate_borders(kernel)
    out, again = np.zeros(24, np.float32), np.zeros(24, np.float32)
    a = np.arange(24, dtype=np.float32)
    interpret(parted, [3, a, out])
    interpret(kernel, [3, a, again])
    assert "min(" not in first_branch(parted)
    np.testing.assert_array_equal(out, again)
