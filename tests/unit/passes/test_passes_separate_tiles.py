"""Full tiles are run without tests; the last ones keep them."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.expr import idx
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.stmt import For, If, Kernel
from weft.ir.visit import walk
from weft.passes.guards.separate_tiles import separate_tiles

TILES = """kernel k(X: float32[100], out Y: float32[100]) {
    for o in 0:13 { unroll i in 0:8 { if o * 8 + i < 100 { Y[o * 8 + i] = X[o * 8 + i] * 2.0 } } } }"""
SQUARES = """kernel k(X: float32[10, 10], out Y: float32[10, 10]) {
    parallel a in 0:3 { for b in 0:3 { unroll i in 0:4 { if a * 4 + i < 10 { vector j in 0:4 { if b * 4 + j < 10 {
        Y[a * 4 + i, b * 4 + j] = X[b * 4 + j, a * 4 + i] } } } } } } }"""
SUMS = """kernel k(X: float32[10, 6], out Y: float32[10]) {
    for o in 0:3 {
        alloc sums: float32[4] in register
        unroll i in 0:4 { sums[i] = 0.0 }
        for k in 0:6 { unroll i in 0:4 { if o * 4 + i < 10 { sums[i] = sums[i] + X[o * 4 + i, k] } } }
        unroll j in 0:4 { if o * 4 + j < 10 { Y[o * 4 + j] = sums[j] } }
    } }"""


def points_tested(kernel: Kernel) -> list[bool]:
    """For each branch asked of a whole tile, whether points are tested in it too: where it holds, where not."""
    asked = next(n for n in walk(kernel) if isinstance(n, If) and n.otherwise is not None)
    assert asked.otherwise is not None
    return [any(isinstance(n, If) for n in walk(side)) for side in (asked.then, asked.otherwise)]


def agree(text: str, x: np.ndarray, shape: tuple[int, ...]) -> Kernel:
    kernel = parse_kernel(text)
    separated = separate_tiles(kernel)
    before, after = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    interpret(kernel, [x, before])
    interpret(separated, [x, after])
    np.testing.assert_array_equal(after, before)
    return separated


def test_one_loop() -> None:
    """The number of the last tile is known, and so is how much there is of it."""
    made = agree(TILES, np.arange(100, dtype=np.float32), (100,))
    assert points_tested(made) == [False, False]
    assert [n.hi for n in walk(made) if isinstance(n, For) and n.kind == "unroll"] == [idx(8), idx(4)]


@pytest.mark.parametrize(
    ("count", "lanes", "is_masked"),
    [(97, [12], False), (98, [12, 2], False), (99, [12, 4], True), (103, [12, 8], True), (108, [12], False)],
)
def test_what_is_left_of_a_vector_is_a_shorter_one(count: int, lanes: list[int], is_masked: bool) -> None:
    """Of twelve lanes: a power of two that holds what is left, under a mask where that is less."""
    text = TILES.replace("100", str(count)).replace("0:13", f"0:{-(-count // 12)}").replace("* 8", "* 12")
    made = agree(text.replace("unroll i in 0:8", "vector i in 0:12"), np.arange(count, dtype=np.float32), (count,))
    vectors = [n for n in walk(made) if isinstance(n, For) and n.kind == "vector"]
    assert [n.hi for n in vectors] == [idx(n) for n in lanes]
    assert isinstance(vectors[-1].body, If) == is_masked


def test_tests_of_a_tile_whose_number_is_not_known_stay() -> None:
    text = TILES.replace("k(X", "k(n: int64, X").replace("0:13", "0:n")
    kernel = parse_kernel(text)
    assert points_tested(separate_tiles(kernel)) == [False, True]


def test_each_side_of_a_corner_is_written_out() -> None:
    x = np.random.default_rng(0).random((10, 10), np.float32)
    made = agree(SQUARES, x, (10, 10))
    assert sum(isinstance(n, If) and n.otherwise is not None for n in walk(made)) == 3


def test_registers_stay_in_one_branch() -> None:
    """The test is asked around the sums, not in the loop that adds to them."""
    x = np.random.default_rng(0).random((10, 6), np.float32)
    assert points_tested(agree(SUMS, x, (10,))) == [False, False]


def test_a_tile_that_is_never_full_does_not_keep_others_from_it() -> None:
    text = """kernel k(X: float32[100], out Y: float32[100]) {
        for o in 0:13 {
            unroll i in 0:8 { if o * 8 + i < 100 { Y[o * 8 + i] = X[o * 8 + i] * 2.0 } }
            unroll j in 0:8 { if j < 5 { Y[j] = 0.0 } }
        } }"""
    made = agree(text, np.arange(100, dtype=np.float32), (100,))
    assert any(isinstance(n, If) and n.otherwise is not None for n in walk(made))


def test_what_data_decide_stays() -> None:
    kernel = parse_kernel(TILES.replace("o * 8 + i < 100", "X[i] < 3.0").replace("0:13", "0:12"))
    assert separate_tiles(kernel) == kernel
    alone = parse_kernel(TILES.replace("o * 8 + i < 100", "i < 5").replace("0:13", "0:12"))
    assert separate_tiles(alone) == alone


def test_what_is_not_tested_is_written_out_once() -> None:
    text = SUMS.replace(
        "{ if o * 4 + i < 10 { sums[i] = sums[i] + X[o * 4 + i, k] } }", "{ sums[i] = sums[i] + X[i, k] }"
    )
    made = agree(text, np.random.default_rng(0).random((10, 6), np.float32), (10,))
    assert points_tested(made) == [False, False]
    assert [n.var.name for n in walk(made) if isinstance(n, For)] == ["o", "i", "k", "i", "j", "j"]
