"""Lanes within one row need no division each."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.passes.vectors.keep_within_rows import keep_within_rows

TEXT = """
kernel f(X: float32[4, {n}], W: float32[{n}], out O: float32[4, {n}]) {{
  block b in 0:{n} {{
    vector v in 0:4 {{
      O[(b * 4 + v) // {n}, (b * 4 + v) % {n}] = X[(b * 4 + v) // {n}, (b * 4 + v) % {n}]{more}
    }}
  }}
}}
"""


@pytest.mark.parametrize(
    ("n", "more", "tests"),
    [(13, " * W[(b * 4 + v) % 13]", 1), (13, "", 0), (3, " * W[(b * 4 + v) % 3]", 0)],
    ids=["scattered lanes", "one offset", "rows shorter than the lanes"],
)
def test_lanes_in_a_row(n: int, more: str, tests: int) -> None:
    kernel = parse_kernel(TEXT.format(n=n, more=more))
    made = keep_within_rows(kernel)
    x, w = np.arange(4 * n, dtype=np.float32).reshape(4, n), np.arange(n, dtype=np.float32)
    out, want = np.zeros_like(x), np.zeros_like(x)
    interpret(kernel, [x, w, want])
    interpret(made, [x, w, out])
    np.testing.assert_array_equal(out, want)
    assert print_kernel(made).count("if ") == tests
