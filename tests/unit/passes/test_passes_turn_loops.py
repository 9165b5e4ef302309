"""Loops that run backward at times, written out, in the order that the interpreter runs them in."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "target"))
from run_compiled import Runner

from weft.ir.errors import ProgramError
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel, print_stmt
from weft.ir.simplify import simplify
from weft.ir.verify import verify
from weft.passes.plain.turn_loops import turn_loops
from weft.passes.plain.turn_ordered_loops import turn_ordered_loops
from weft.target.c.lower import lower_kernel as lower_to_c
from weft.target.cpu.host import host_machine
from weft.target.cpu.lower import lower_kernel
from weft.target.cuda.lower import lower_kernel as lower_to_cuda
from weft.target.cuda.machine import gpu_for_arch

GPU = gpu_for_arch("sm_90")
LOWERINGS = {
    "cpu": lower_kernel,
    "c": lambda kernel: lower_to_c(kernel, host_machine()),
    "cuda": lambda kernel: lower_to_cuda(kernel, GPU),
}
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


#: Loops of kinds that run in order, each turned by a number, by memory that it changes, or for as long as memory says.
ORDERED = {
    "a number": "{kind} k in 0:3 backward if j == 2 {{",
    "memory": "{kind} k in 0:3 backward if A[0] == 2 {{",
    "a range in memory": "{kind} k in A[0] - 2:A[0] + 1 backward if j == 2 {{",
}


@pytest.mark.parametrize("lower", LOWERINGS)
@pytest.mark.parametrize("kind", ["for", "unroll"])
@pytest.mark.parametrize("loop", ORDERED)
def test_order_that_results_show_is_kept_by_all_targets(lower: str, kind: str, loop: str) -> None:
    text = f"""kernel f(out A: int64[20], B: int64[1]) {{
      alloc m: int64[1] {{
        m[0] = 1
        A[0] = 2
        for j in 2:4 {{ {ORDERED[loop].format(kind=kind)}
          A[m[0]] = j * 10 + k
          m[0] = m[0] + 1
          A[0] = 2 - B[0] * k }} }} }} }}"""
    kernel = parse_kernel(text)
    lowered = LOWERINGS[lower](kernel)
    assert "backward if" not in print_kernel(lowered)
    forms = [lambda *arguments: interpret(kernel, arguments), lambda *arguments: interpret(lowered, arguments)]
    if lower == "cpu":
        forms.append(Runner(kernel, host_machine()))
    for changes in (0, 1):
        found = [np.full(20, -1, np.int64) for _ in forms]
        for run, result in zip(forms, found):
            run(result, np.full(1, changes, np.int64))
        assert len({tuple(result) for result in found}) == 1, found


@pytest.mark.parametrize("lower", LOWERINGS)
def test_loops_in_any_order_keep_the_mark(lower: str) -> None:
    """Other passes take them as they are; a reduction's order is its own under strict numerics alone."""
    sums = "kernel f(X: float32[6, 40], out Y: float32[6]) { for t in 0:6 { for j in 0:40 backward if t % 2 == 1 "
    kernel = parse_kernel(sums + "{ Y[t] = Y[t] + X[t, j] } } }")
    assert turn_ordered_loops(kernel, fast=True) == kernel
    assert "backward" not in print_kernel(turn_ordered_loops(kernel, fast=False))
    assert "_turn" in print_kernel(LOWERINGS[lower](kernel))


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
