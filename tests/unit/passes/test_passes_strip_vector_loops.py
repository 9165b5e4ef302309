"""Vector loops cut to lanes: every extent, with and without masks."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.expr import Const
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.stmt import For
from weft.ir.verify import verify
from weft.ir.visit import walk
from weft.passes.vectors.strip_vector_loops import strip_vector_loops


@pytest.mark.parametrize("has_masks", [True, False])
@pytest.mark.parametrize("extent", [0, 1, 7, 8, 9, 16, 23])
@pytest.mark.parametrize("symbolic", [True, False])
def test_any_extent(extent: int, has_masks: bool, symbolic: bool) -> None:
    hi = "N" if symbolic else str(extent + 2)
    kernel = parse_kernel(
        f"kernel f(A: int32[30], N: int64, out C: int32[30]) {{ vector i in 2:{hi} {{ C[i] = A[i] + int32(i) }} }}"
    )
    after = strip_vector_loops(kernel, choose_lanes=lambda loop, scheduled: 8, has_masks=has_masks)
    verify(after)
    for n in walk(after):
        if isinstance(n, For) and n.kind == "vector":
            assert isinstance(n.hi, Const)
            assert n.lo == Const(0, n.var.dtype)
            assert n.hi.value in (2, 4, 8)
    a = np.arange(30, dtype=np.int32)
    want, got = np.zeros(30, np.int32), np.zeros(30, np.int32)
    interpret(kernel, [a, extent + 2, want])
    interpret(after, [a, extent + 2, got])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "body",
    ["if A[i] > 3_i32 { break } C[i] = A[i]", "C[0] = A[i]", "C[ramp(i, 1, 2)] = 0_i32x2"],
)
def test_what_cannot_be_lanes_runs_in_order(body: str) -> None:
    kernel = parse_kernel(f"kernel f(A: int32[30], out C: int32[31]) {{ vector i in 0:30 {{ {body} }} }}")
    after = strip_vector_loops(kernel, choose_lanes=lambda loop, scheduled: 8, has_masks=True)
    assert [n.kind for n in walk(after) if isinstance(n, For)] == ["serial"]
