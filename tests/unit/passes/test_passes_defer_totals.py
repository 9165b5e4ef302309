"""Totals across threads: brought together after a loop instead of in every iteration."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.passes.registers.defer_totals import defer_totals

TEXT = """kernel k(A: float32[4, 8, 4], B: float32[4], out O: float32[8], out R: float32[8, 4]) {
  block b in 0:1 {
    alloc passed: float32[32] in shared
    thread y in 0:8 { thread x in 0:4 {
      alloc L: float32[1] in local
      L[0] = START
      for t in 0:4 {
        call products_wait(0)
        L[0] = L[0] * FACTOR
        alloc p: float32[1] in local {
          p[0] = 0.0
          p[0] = p[0] + A[t, y, x]
          tensorized thread_reduce {
            passed[y * 4 + x] = p[0]
            barrier(warp)
            for k in 0:4 { L[0] = L[0] + passed[y * 4 + k] }
            barrier(warp)
          }
        }
        READ
      }
      if x == 0 { O[y] = L[0] }
    } }
  } }"""


def made(start: str = "0.0", factor: str = "B[t]", read: str = "") -> Kernel:
    return parse_kernel(TEXT.replace("START", start).replace("FACTOR", factor).replace("READ", read))


def results(kernel: Kernel) -> list[np.ndarray]:
    rng, outs = np.random.default_rng(0), [np.zeros(8, np.float32), np.zeros((8, 4), np.float32)]
    interpret(kernel, [rng.normal(size=size).astype(np.float32) for size in ((4, 8, 4), (4,))] + outs)
    return outs


def test_a_total_is_taken_once() -> None:
    kernel = made()
    changed = defer_totals(kernel)
    text = print_kernel(changed)
    assert "for t" in text.split("thread_reduce")[0]
    assert "p[0] = p[0] * B[t]" in text
    assert text.index("tensorized") > text.index("A[t, y, x]")
    assert text.count("p[0] = 0.0") == 1
    assert text.index("p[0] = 0.0") < text.index("for t")
    for got, want in zip(results(changed), results(kernel), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize(
    "kernel",
    [made(start="1.0"), made(factor="float32(x)"), made(factor="B[x]"), made(read="R[y, x] = L[0]")],
    ids=["it starts with something", "a factor of each thread", "a factor looked up", "it is read"],
)  # fmt: skip
def test_others_stay(kernel: Kernel) -> None:
    assert print_kernel(defer_totals(kernel)) == print_kernel(kernel)
