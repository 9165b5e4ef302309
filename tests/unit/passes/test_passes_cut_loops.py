"""Loops cut at tests of unrolled loops inside, and loops through tiles that count from zero."""

from __future__ import annotations

import numpy as np

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import For, If, Kernel
from weft.ir.visit import walk
from weft.passes.guards.cut_loops import cut_loops
from weft.passes.plain.rebase_loops import rebase_loops

TRIANGLE = """kernel k(X: float32[16, 16], out Y: float32[16]) {
    for s in 0:4 { for t in 0:16 { unroll i in 0:4 { if t < s * 4 + i + 1 {
        Y[s * 4 + i] = Y[s * 4 + i] + X[s * 4 + i, t] } } } } }"""
TILES = """kernel k(X: float32[16], out Y: float32[16]) {
    for s in 0:4 { for t in s * 4:s * 4 + 4 { Y[t] = X[t] } } }"""


def results(kernel: Kernel, *inputs: np.ndarray) -> np.ndarray:
    out = np.zeros(16, np.float32)
    interpret(kernel, [*inputs, out])
    return out


def test_most_iterations_test_nothing() -> None:
    kernel = parse_kernel(TRIANGLE)
    cut = cut_loops(kernel)
    loops = [n for n in walk(cut) if isinstance(n, For) and n.kind == "serial" and n.var.name != "s"]
    assert [any(isinstance(n, If) for n in walk(loop)) for loop in loops] == [False, True]
    x = np.random.default_rng(0).random((16, 16), np.float32)
    np.testing.assert_array_equal(results(cut, x), results(kernel, x))


def test_tests_of_other_loops_are_left_alone() -> None:
    kernel = parse_kernel(TRIANGLE.replace("t < s * 4 + i + 1", "t < s * 4 + 1"))
    assert print_kernel(cut_loops(kernel)).count("for t in") == 1  # cut off, not in two
    by_data = parse_kernel(TRIANGLE.replace("t < s * 4 + i + 1", "X[i, t] < 0.5"))
    assert cut_loops(by_data) == by_data


def test_loops_through_tiles_count_from_zero() -> None:
    kernel = parse_kernel(TILES)
    based = rebase_loops(kernel)
    assert "for t in 0:4" in print_kernel(based)
    x = np.arange(16, dtype=np.float32)
    np.testing.assert_array_equal(results(based, x), x)
    assert rebase_loops(based) is based


def test_vectors_beyond_the_end_are_cut_off() -> None:
    kernel = parse_kernel("""kernel k(X: float32[16], out Y: float32[16]) {
        for o in 0:4 { vector i in 0:5 { if o * 5 + i < 16 { Y[o * 5 + i] = X[o * 5 + i] } } } }""")
    cut = cut_loops(kernel)
    assert "for o in 0:3" in print_kernel(cut)
    assert "Y[15] = X[15]" in print_kernel(cut)  # the last one is written in, so its lanes are known: one is left
    x = np.arange(16, dtype=np.float32)
    np.testing.assert_array_equal(results(cut, x), x)
