"""Tiles turned in registers give what gathers and scatters give."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.expr import Load, Ramp, Shuffle
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.stmt import Kernel
from weft.ir.visit import walk
from weft.passes.vectors.transpose_tiles import transpose_tiles


def shuffles(kernel: Kernel) -> int:
    return sum(isinstance(n, Shuffle) for n in walk(kernel))


def turned(text: str, vector_bits: int) -> Kernel:
    """The kernel after the pass, which computes what it computed before."""
    kernel = parse_kernel(text)
    after = transpose_tiles(kernel, vector_bits)
    arrays = [np.arange(n).reshape(s).astype(np.float32) for s in ((32, 32), (32, 32)) for n in (1024,)]
    want, got = [a.copy() for a in arrays], [a.copy() for a in arrays]
    interpret(kernel, want)
    interpret(after, got)
    np.testing.assert_array_equal(got[1], want[1])
    return after


TILE = """kernel k(A: float32[32, 32], out B: float32[32, 32]) {{
    for y in 0:{down} {{ for x in 0:{right} {{
        unroll j in 0:{rows} {{ vector i in 0:{lanes} {{ {store} }} }} }} }} }}"""


@pytest.mark.parametrize(("rows", "lanes", "vector_bits"), [(16, 16, 512), (8, 8, 256), (8, 16, 512), (16, 8, 128)])
@pytest.mark.parametrize("across", ["load", "store"])
def test_every_shape_of_tile(rows: int, lanes: int, vector_bits: int, across: str) -> None:
    far, near = f"[x * {lanes} + i, y * {rows} + j]", f"[y * {rows} + j, x * {lanes} + i]"
    store = f"B{near} = A{far} * 2.0" if across == "load" else f"B{far} = A{near} * 2.0"
    after = turned(TILE.format(down=32 // rows, right=32 // lanes, rows=rows, lanes=lanes, store=store), vector_bits)
    side = min(rows, lanes, vector_bits // 32)
    squares = rows * lanes // side**2
    assert shuffles(after) == squares * side * (side.bit_length() - 1)
    loads = [n for n in walk(after) if isinstance(n, Load) and n.buffer.name == "A" and isinstance(n.indices[-1], Ramp)]
    assert len(loads) == (squares * side if across == "load" else 0)


@pytest.mark.parametrize(
    "store",
    [
        "B[j, i] = A[j, i]",  # along the rows
        "B[j, i] = A[i, 2 * j]",  # columns apart
        "B[j, i] = A[i, (i + j) % 16]",
        "B[j, i] = i < 3 ? A[i, j] : 0.0",  # a lane that reads nothing
        "B[i, j] = B[i, j] + A[j, i]",  # reads what it writes
        "B[i % 4, j] = A[0, i]",  # lanes that meet
    ],
)
def test_other_accesses_stay(store: str) -> None:
    text = TILE.format(down=1, right=1, rows=16, lanes=16, store=store)
    assert transpose_tiles(parse_kernel(text), 512) == parse_kernel(text)


def test_tiles_that_are_not_squares_stay() -> None:
    text = TILE.format(down=1, right=1, rows=14, lanes=16, store="B[j, i] = A[i, j]")
    assert transpose_tiles(parse_kernel(text), 512) == parse_kernel(text)
