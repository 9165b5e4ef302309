"""Written-out loops over pieces: only those that need a test keep it."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.passes.guards.cut_pieces import cut_pieces

TEXT = """
kernel f(X: float32[{n}], out O: float32[{n}]) {{
  block b in 0:1 {{
    thread t in 0:8 {{
      unroll c in 0:4 {{
        if c * 8 + t < {n} {{
          O[c * 8 + t] = X[c * 8 + t]
        }}
      }}
    }}
  }}
}}
"""


@pytest.mark.parametrize(("n", "tests"), [(29, 1), (32, 0), (8, 0), (3, 1)])
def test_only_the_last_pieces_are_tested(n: int, tests: int) -> None:
    kernel = parse_kernel(TEXT.format(n=n))
    cut = cut_pieces(kernel)
    assert print_kernel(cut).count("if ") == tests
    x, out = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    interpret(cut, [x, out])
    np.testing.assert_array_equal(out, x)


def test_a_cut_loop_runs_without_the_test_first() -> None:
    text = print_kernel(cut_pieces(parse_kernel(TEXT.format(n=29))))
    assert "unroll c in 0:3" in text
    assert "unroll c in 3:4" in text


def test_pieces_that_no_test_lets_through_are_dropped() -> None:
    assert "unroll c in 0:1" in print_kernel(cut_pieces(parse_kernel(TEXT.format(n=8))))


ROWS = """
kernel f(X: float32[9], out O: float32[9]) {
  block b in 0:3 {
    thread t in 0:1 {
      unroll c in 0:2 {
        vector v in 0:2 {
          if b * 4 + c * 2 + v < 9 {
            O[b * 4 + c * 2 + v] = X[b * 4 + c * 2 + v]
          }
        }
      }
    }
  }
}
"""


def test_one_test_decides_for_all_pieces_and_lanes() -> None:
    cut = cut_pieces(parse_kernel(ROWS))
    assert "if b <= 1 {" in print_kernel(cut)
    x, out = np.arange(9, dtype=np.float32), np.zeros(9, np.float32)
    interpret(cut, [x, out])
    np.testing.assert_array_equal(out, x)


def test_what_is_done_else_is_done_in_the_pieces_at_the_end() -> None:
    """They were dropped as if a test that fails there were all that stands around them."""
    text = """kernel f(X: float32[12], out O: float32[12]) { block b in 0:1 { thread t in 0:4 { unroll c in 0:3 {
        if c * 4 + t < 8 { O[c * 4 + t] = X[c * 4 + t] } else { O[c * 4 + t] = 1.0 } } } } }"""
    cut = cut_pieces(parse_kernel(text))
    x, out = np.arange(12, dtype=np.float32), np.zeros(12, np.float32)
    interpret(cut, [x, out])
    np.testing.assert_array_equal(out, [*range(8), 1, 1, 1, 1])
    assert "unroll c in 0:2" in print_kernel(cut)  # without a test, and the last with its else


def test_an_else_that_is_never_taken_goes() -> None:
    """`keep_within_rows` asks whether lanes are in one row; of pieces of which that is known one copy stays."""
    text = """kernel f(X: float32[6], out O: float32[6]) { block b in 0:1 { thread t in 0:4 { unroll c in 0:3 {
        if t + c < 6 { O[t + c] = X[t + c] } else { O[t + c] = 0.0 } } } } }"""
    assert "else" not in print_kernel(cut_pieces(parse_kernel(text)))
