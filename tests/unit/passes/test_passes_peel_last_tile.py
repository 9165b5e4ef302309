"""A last tile that is not full is written out by itself; full tiles then have loops of constant length."""

from __future__ import annotations

import numpy as np

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.passes.guards.peel_last_tile import peel_last_tile

SUMS = """kernel k(X: float32[70], out Y: float32[70]) {
    parallel o in 0:5 {
        alloc T: float32[70]
        for s in o * 16:min(o * 16 + 16, 70) { T[s] = X[s] * 2.0 }
        for r in o * 16:min(o * 16 + 16, 70) { Y[r] = T[r] + 1.0 }
    } }"""


def run(kernel: object, x: np.ndarray) -> np.ndarray:
    y = np.zeros_like(x)
    interpret(kernel, [x, y])  # type: ignore[arg-type]
    return y


def test_the_last_tile_stands_alone() -> None:
    kernel = parse_kernel(SUMS)
    peeled = peel_last_tile(kernel)
    x = np.arange(70, dtype=np.float32)
    np.testing.assert_array_equal(run(peeled, x), run(kernel, x))
    text = print_kernel(peeled)
    assert "if o <= 3" in text
    assert "for s in 64:70" in text
    assert "min(" not in text


def test_tiles_that_come_out_even_stay_as_they_are() -> None:
    kernel = parse_kernel(SUMS.replace("0:5", "0:4"))
    assert peel_last_tile(kernel) == kernel


def test_ends_that_depend_on_other_loops_stay() -> None:
    kernel = parse_kernel("""kernel k(out Y: float32[64]) {
        for o in 0:8 { for i in 0:8 { for s in 0:min(o * 8 + i + 1, 50) { Y[s] = 1.0 } } } }""")
    assert peel_last_tile(kernel) == kernel


def test_the_second_of_two_tiles() -> None:
    kernel = parse_kernel(SUMS.replace("70", "20").replace("0:5", "0:2"))
    peeled = peel_last_tile(kernel)
    x = np.arange(20, dtype=np.float32)
    np.testing.assert_array_equal(run(peeled, x), run(kernel, x))
    assert "for s in 16:20" in print_kernel(peeled)


def test_much_is_not_written_out_twice() -> None:
    """Chains of many stages are long enough already; their loops may ask where a tile ends."""
    more = "".join(f"for r{n} in o * 16:min(o * 16 + 16, 70) {{ Y[r{n}] = T[r{n}] + {n}.0 }}" for n in range(40))
    kernel = parse_kernel(SUMS.replace("for r in", more + " for r in"))
    assert peel_last_tile(kernel) == kernel
