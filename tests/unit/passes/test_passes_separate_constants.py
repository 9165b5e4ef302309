"""What depends on constant parameters alone moves to a kernel of its own."""

from __future__ import annotations

import numpy as np

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.verify import verify
from weft.passes.plain.separate_constants import separate_constants

KERNEL = parse_kernel("""
kernel f(X: float32[4], W: float32[4], s: float32, out Y: float32[4]) {
  alloc A: float32[4]
  alloc B: float32[4]
  alloc D: float32[4]
  for i in 0:4 {
    A[i] = W[i] * 2.0
  }
  for i in 0:4 {
    B[i] = A[3 - i] + 1.0
  }
  for i in 0:4 {
    D[i] = W[i] * s
  }
  for i in 0:4 {
    Y[i] = X[i] * B[i] + D[i]
  }
}
""")


def test_nests_of_constants_run_once() -> None:
    made = separate_constants(KERNEL, frozenset({"W"}))
    assert made.prepare is not None
    verify(made.prepare)
    verify(made.main)
    assert [p.name for p in made.prepare.params] == ["W", "B"]  # A is needed in between alone
    assert [p.name for p in made.main.params] == ["X", "s", "Y", "W", "B"]  # D needs s, so W is still read
    x, w = np.arange(4, dtype=np.float32), np.full(4, 3, np.float32)
    whole, parts, b = (np.zeros(4, np.float32) for _ in range(3))
    interpret(KERNEL, [x, w, 0.5, whole])
    interpret(made.prepare, [w, b])
    interpret(made.main, [x, 0.5, parts, w, b])
    np.testing.assert_array_equal(parts, whole)


def test_all_of_it_where_everything_is_constant_but_outputs() -> None:
    made = separate_constants(KERNEL, frozenset({"X", "W", "s"}))
    assert made.prepare is not None
    assert made.kept == ("X",)
    assert [b.name for b in made.prepared] == ["B", "D"]


def test_nothing_moves_without_constants() -> None:
    made = separate_constants(KERNEL, frozenset())
    assert made.prepare is None
    assert made.main == KERNEL


def test_a_temporary_that_is_written_twice_stays() -> None:
    kernel = parse_kernel("""
kernel f(X: float32[4], W: float32[4], out Y: float32[4]) {
  alloc A: float32[4]
  for i in 0:4 {
    A[i] = W[i]
  }
  for i in 0:4 {
    A[i] = A[i] + X[i]
  }
  for i in 0:4 {
    Y[i] = A[i]
  }
}
""")
    assert separate_constants(kernel, frozenset({"W"})).prepare is None


def test_storage_made_inside_a_nest_moves_with_it() -> None:
    kernel = parse_kernel("""
kernel f(X: float32[4], W: float32[4], out Y: float32[4]) {
  alloc A: float32[4]
  for i in 0:4 {
    alloc t: float32[1]
    t[0] = W[i] * 2.0
    A[i] = t[0]
  }
  for i in 0:4 {
    Y[i] = A[i] + X[i]
  }
}
""")
    made = separate_constants(kernel, frozenset({"W"}))
    assert made.prepare is not None
    assert print_kernel(made.prepare).count("alloc t") == 1
