"""Loops that run backward at times, written out, in the order that the interpreter runs them in."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.errors import ProgramError
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel, print_stmt
from weft.ir.simplify import simplify
from weft.ir.verify import verify
from weft.passes.plain.turn_loops import turn_loops
from weft.target.c.lower import lower_kernel as lower_to_c
from weft.target.cpu.host import host_machine
from weft.target.cpu.lower import lower_kernel

#: Says in which order iterations ran, which schedules never let anyone see.
ORDER = """kernel f(out A: int64[100], lo: int64, hi: int64) {
  alloc n: int64[1] {
    n[0] = 0
    for t in 0:4 { for j in lo:hi backward if t % 2 == 1 { for k in 0:2 backward if j == 2 {
      A[n[0]] = t * 100 + j * 10 + k
      n[0] = n[0] + 1 } } } } }"""


@pytest.mark.parametrize("bounds", [(0, 3), (2, 3), (1, 6), (3, 3), (5, 2)])
def test_order(bounds: tuple[int, int]) -> None:
    kernel = parse_kernel(ORDER)
    assert parse_kernel(print_kernel(kernel)) == kernel
    wanted = [
        t * 100 + j * 10 + k
        for t in range(4)
        for j in list(range(*bounds))[:: -1 if t % 2 else 1]
        for k in ((1, 0) if j == 2 else (0, 1))
    ]
    turned = turn_loops(kernel)
    assert "backward" not in print_kernel(turned)
    for form in (kernel, turned, turn_loops(simplify(kernel))):
        verify(form)
        found = np.full(100, -1, np.int64)
        interpret(form, [found, *bounds])
        assert found[: len(wanted)].tolist() == wanted
        assert (found[len(wanted) :] == -1).all()


def test_targets_write_them_out() -> None:
    text = """kernel f(X: float32[6, 40], out Y: float32[6, 40]) {
      for t in 0:6 { for j in 0:40 backward if t % 2 == 1 { Y[t, j] = X[t, j] + 1.0 } } }"""
    for lower in (lower_kernel, lambda k: lower_to_c(k, host_machine())):
        assert "backward" not in print_kernel(lower(parse_kernel(text)))


def test_what_never_holds_is_dropped() -> None:
    kernel = parse_kernel("kernel f(out Y: float32[8]) { for j in 0:8 backward if 2 < 1 { Y[j] = 1.0 } }")
    assert print_stmt(simplify(kernel).body).splitlines()[0] == "for j in 0:8 {"


def test_what_has_no_order_does_not_turn() -> None:
    text = "kernel f(out Y: float32[8], n: int64) { vector j in 0:8 backward if n > 1 { Y[j] = 1.0 } }"
    with pytest.raises(ProgramError, match="a vector loop have no order that could be turned around"):
        verify(parse_kernel(text))
