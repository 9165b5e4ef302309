"""Tests of lanes at the loads instead of around the sums."""

from __future__ import annotations

import numpy as np

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.passes.guards.guard_loads import guard_loads

SUMS = """kernel k(X: float32[9, 7], W: float32[9], out Y: float32[7]) {
    alloc S: float32[8] in register {
        vector a in 0:8 { S[a] = 0.0 }
        for t in 0:9 { vector i in 0:8 { if i < 7 { S[i] = S[i] + X[t, i] * W[t] } } }
        vector b in 0:8 { if b < 7 { Y[b] = S[b] } } } }"""


def test_sums_that_only_the_same_test_reads() -> None:
    kernel = parse_kernel(SUMS)
    moved = guard_loads(kernel)
    assert "S[i] = S[i] + (i < 7 ? X[t, i] : 0.0) * W[t]" in print_kernel(moved)
    rng = np.random.default_rng(0)
    x, w, y = rng.random((9, 7), np.float32), rng.random(9, np.float32), np.zeros(7, np.float32)
    interpret(moved, [x, w, y])
    np.testing.assert_allclose(y, w @ x, rtol=1e-5)


def test_registers_get_room_for_what_lanes_beyond_the_test_compute() -> None:
    """Also where a vector of the program is longer than the machine's: rows were written over by those before."""
    text = """kernel k(X: float32[9, 7], W: float32[9], out Y: float32[2, 7]) {
        alloc S: float32[2, 7] in register {
            for p in 0:2 { vector a in 0:48 { if a < 7 { S[p, a] = 0.0 } } }
            for t in 0:9 { for r in 0:2 { vector i in 0:48 { if i < 7 { S[r, i] = S[r, i] + X[t, i] * W[t] } } } }
            for q in 0:2 { vector b in 0:48 { if b < 7 { Y[q, b] = S[q, b] } } } } }"""
    kernel = parse_kernel(text)
    moved = guard_loads(kernel)
    assert "S: float32[2, 48]" in print_kernel(moved)
    rng = np.random.default_rng(0)
    x, w, y = rng.random((9, 7), np.float32), rng.random(9, np.float32), np.zeros((2, 7), np.float32)
    interpret(moved, [x, w, y])
    np.testing.assert_allclose(y, [w @ x] * 2, rtol=1e-5)


def test_sums_that_others_read_too_stay_as_they_are() -> None:
    for text in (
        SUMS.replace("if b < 7", "if b < 6"),
        SUMS.replace("in register", ""),
        SUMS.replace("vector i", "unroll i"),
    ):
        kernel = parse_kernel(text)
        assert guard_loads(kernel) == kernel
