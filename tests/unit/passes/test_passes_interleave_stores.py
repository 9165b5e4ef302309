"""Vectors stored in turn are mixed and stored as one, and the result is the same."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.verify import verify
from weft.passes.vectors.interleave_stores import interleave_stores

TEXT = """
kernel mix(A: {t}[{n}, {g}, {w}], out B: {t}[{n}, {w}, {g}]) {{
  for k in 0:{n} {{
    unroll j in 0:{g} {{ vector i in 0:{w} {{ B[k, i, j] = A[k, j, i] }} }}
  }}
}}"""


@pytest.mark.parametrize(("dtype", "rows", "width"), [("int8", 4, 32), ("float32", 2, 16), ("int16", 8, 8)])
def test_rows_are_mixed_in_registers(dtype: str, rows: int, width: int) -> None:
    kernel = parse_kernel(TEXT.format(t=dtype, n=3, g=rows, w=width))
    mixed = interleave_stores(kernel)
    verify(mixed)
    assert f"vector i_mixed in 0:{rows * width}" in print_kernel(mixed)
    a = np.arange(3 * rows * width).reshape(3, rows, width).astype(dtype)
    b = np.zeros((3, width, rows), dtype)
    interpret(mixed, [a, b])
    np.testing.assert_array_equal(b, a.transpose(0, 2, 1))


@pytest.mark.parametrize(
    "body",
    [
        "unroll j in 0:3 { vector i in 0:8 { B[i, j] = 1 } }",  # three do not interleave in pairs
        "unroll j in 0:4 { vector i in 0:8 { B[i, 3 - j] = 1 } }",
        "unroll j in 0:2 { vector i in 0:8 { B[i, j] = 1 } }",  # two of four places
        "unroll j in 0:4 { vector i in 0:8 { B[i, j] = B[7 - i, j] } }",  # reads what it writes
        "for j in 0:4 { vector i in 0:8 { B[i, j] = 1 } }",
    ],
)
def test_other_stores_stay(body: str) -> None:
    last = 3 if "0:3" in body else 4
    kernel = parse_kernel(f"kernel k(out B: int32[8, {last}]) {{ {body.replace('= 1', '= 1_i32')} }}")
    assert interleave_stores(kernel) == kernel
