"""Values are not handed on past a change of what they are made of."""

from __future__ import annotations

import numpy as np
from forward_everywhere import forward_phases

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel

OWN = """kernel p(A: int32[8], out B: int32[8]) { block b in 0:1 {
  alloc s: int32[8] in shared
  thread t in 0:8 { s[t] = A[t] * A[t] * A[t] }
  thread t in 0:8 { s[t] = s[t] + A[t] }
  thread t in 0:8 { B[t] = s[7 - t] }
} }"""
VARIABLE = """kernel p(A: int32[8], out B: int32[8]) { block b in 0:1 {
  alloc s: int32[8] in shared
  let n: int32 = 1_i32
  thread t in 0:8 { s[t] = A[t] + n }
  n = n + A[0]
  thread t in 0:8 { B[t] = s[7 - t] + n }
} }"""


def check(text: str) -> None:
    a = np.arange(3, 11, dtype=np.int32)
    kernel = parse_kernel(text)
    before, after = np.zeros(8, np.int32), np.zeros(8, np.int32)
    interpret(kernel, [a, before])
    interpret(forward_phases(kernel), [a, after])
    np.testing.assert_array_equal(after, before)


def test_an_array_changed_by_what_fills_it() -> None:
    check(OWN)


def test_a_variable_changed_between() -> None:
    check(VARIABLE)
