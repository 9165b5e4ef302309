"""Rows that begin anywhere, taken apart as memory lies."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.verify import verify
from weft.passes.vectors.shift_rows import shift_rows

TEXT = """
kernel f(X: float32[3, {n}], W: float32[{n}], out O: float32[3, {n}]) {{
  block m in 0:3 {{
    thread t in 0:{threads} {{
      alloc x: float32[{room}] in local
      unroll c in 0:2 {{
        if c * {threads} + t < {pieces} {{
          vector v in 0:4 {{
            if c * {step} + t * 4 + v < {n} {{
              x[c * 4 + v] = X[m, c * {step} + t * 4 + v]
            }}
          }}
        }}
      }}
      unroll c in 0:2 {{
        if c * {threads} + t < {pieces} {{
          vector v in 0:4 {{
            if c * {step} + t * 4 + v < {n} {{
              O[m, c * {step} + t * 4 + v] = x[c * 4 + v] * W[c * {step} + t * 4 + v]{more}
            }}
          }}
        }}
      }}
    }}
  }}
}}
"""


def shifted(n: int, threads: int, more: str = "", room: int = 8, text: str = TEXT) -> str:
    text = text.format(n=n, threads=threads, step=4 * threads, pieces=-(-n // 4), more=more, room=room)
    kernel = parse_kernel(text)
    made = shift_rows(kernel)
    verify(made)
    x, w = np.arange(3 * n, dtype=np.float32).reshape(3, n), np.arange(n, dtype=np.float32)
    out, want = np.zeros_like(x), np.zeros_like(x)
    interpret(kernel, [x, w, want])
    interpret(made, [x, w, out])
    np.testing.assert_array_equal(out, want)
    return print_kernel(made)


@pytest.mark.parametrize("n", [29, 30, 31, 27])
def test_rows_are_shifted_to_multiples_of_the_lanes(n: int) -> None:
    text = shifted(n, 5)
    assert text.count(f"m * {n} % 4") == 9


@pytest.mark.parametrize("n", [29, 30, 31, 27])
def test_tests_of_threads_alone_are_shifted(n: int) -> None:
    """With a piece a thread, the test for pieces does not name a loop."""
    text = TEXT.replace("c in 0:2", "c in 0:1").replace("c * {threads} + t", "t").replace("c * {step} + ", "")
    assert "%" in shifted(n, 9, text=text)


def test_other_tests_of_pieces_do_not_fit() -> None:
    text = TEXT.replace("if c * {threads} + t < {pieces}", "if t < 3")
    assert "%" not in shifted(29, 5, text=text)


def test_storage_gets_room_for_all_lanes() -> None:
    assert "alloc x: float32[8]" in shifted(33, 8, room=5)


@pytest.mark.parametrize(
    ("n", "threads", "more"),
    [(32, 5, ""), (30, 4, ""), (29, 5, " + float32(int32(v))")],
    ids=["rows begin at multiples", "no room", "the element is a value"],
)
def test_others_stay(n: int, threads: int, more: str) -> None:
    assert "%" not in shifted(n, threads, more)
