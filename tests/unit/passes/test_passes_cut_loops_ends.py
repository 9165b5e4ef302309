"""Loops that run no further than what they store is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.expr import idx
from weft.ir.interpret import interpret
from weft.ir.nesting import statements_in
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import For
from weft.passes.guards.cut_loops import cut_loops

TILES = """kernel k(A: float32[16, 16], out B: float32[16, 16]) {
    for j in 0:4 { for i in 0:16 {
        alloc R: float32[4] in register
        vector l in 0:4 { R[l] = A[i, j * 4 + l] * 2.0 }
        vector l in 0:4 { if TEST { B[i, j * 4 + l] = R[l] } }
    } } }"""


@pytest.mark.parametrize(
    ("test", "loop"),
    [
        ("i <= j * 4 + l", ":min(j * 4 + 4, 16)"),
        ("j * 4 + l <= i", "for i in max(j * 4, 0):16"),
        ("i >= 2 && i * 3 < 20 + l", "for i in 2:8"),
        ("A[i, 0] > 0.5", "for i in 0:16"),
    ],
)
def test_tiles_beside_a_triangle_are_not_computed(test: str, loop: str) -> None:
    kernel = parse_kernel(TILES.replace("TEST", test))
    narrowed = cut_loops(kernel)
    assert loop in print_kernel(narrowed)
    a = np.random.default_rng(0).random((16, 16), np.float32)
    out, expected = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    interpret(narrowed, [a, out])
    interpret(kernel, [a, expected])
    np.testing.assert_array_equal(out, expected)


def test_a_loop_that_stores_more_runs_on() -> None:
    more = TILES.replace("TEST", "i <= j * 4 + l").replace("vector l in 0:4 { if", "B[i, j] = 1.0 vector l in 0:4 { if")
    kernel = parse_kernel(more)
    last = [n for n in statements_in(cut_loops(kernel), For) if n.kind == "serial"][-1]
    assert last.hi == idx(16)
