"""Floats of indices in loops that are written out: sums of floats, where these are exact."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.passes.plain.split_casts import split_casts

TEXT = """kernel k(out B: float32[8, 32]) {
  for s in 0:8 { for t in 0:4 { unroll i in 0:8 { B[s, t * 8 + i] = float32(VALUE) * 0.5 } } } }"""


def test_what_changes_is_a_number_of_its_own() -> None:
    kernel = parse_kernel(TEXT.replace("VALUE", "t * 8 + i - s * 2 + 5"))
    split = split_casts(kernel)
    assert "float32(t * 8 - s * 2) + float32(i + 5)" in print_kernel(split)
    got, want = np.zeros((8, 32), np.float32), np.zeros((8, 32), np.float32)
    interpret(split, [got])
    interpret(kernel, [want])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("value", ["t * 8 - s", "i + 3", "t * 100000000 + i", "(t * 8 + i) // 3 + s"])
def test_others_stay(value: str) -> None:
    """Nothing that changes, nothing else, numbers that are no floats, and what is no sum."""
    kernel = parse_kernel(TEXT.replace("VALUE", value))
    assert split_casts(kernel) == kernel
