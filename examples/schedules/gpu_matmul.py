"""A matrix product for a GPU, scheduled with public primitives alone.

Blocks have tiles of 128 x 128 sums, threads 8 x 8 of them in registers; rows and columns of the operands come through
shared memory, two pieces ahead. Without a GPU the same program runs on the CPU: block loops become parallel ones.
Run it to see the CUDA text: ``python examples/schedules/gpu_matmul.py 1024 1024 1024``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

import weft
from weft.operators.schedule import OperatorSchedule


@dataclass(frozen=True)
class Tiles:
    """Sums of a block, steps that are loaded at a time, threads of a block down and across, elements of a vector."""

    rows: int = 128
    columns: int = 128
    depth: int = 16
    down: int = 16
    across: int = 16
    vector: int = 4
    stages: int = 3


def schedule_matmul(m: int, n: int, k: int, tiles: Tiles | None = None) -> OperatorSchedule:
    """A (m, k) times B (k, n); none of them smaller than a tile."""
    t = tiles or Tiles()
    s = weft.schedule(weft.ops.matmul, A=(m, k), B=(k, n), numerics="fast", target="cuda")
    i, j, r = s.loops("C")
    # A thread has rows `down` apart, so that neighbours read neighbouring rows, and `vector` columns at a time.
    row_blocks, i = s.split(i, t.rows)
    own_rows, row = s.split(i, t.down)
    column_blocks, j = s.split(j, t.columns)
    groups, j = s.split(j, t.across * t.vector)
    column, own_columns = s.split(j, t.vector)
    pieces, r = s.split(r, t.depth)
    quads, step = s.split(r, t.vector)
    s.reorder(row_blocks, column_blocks, pieces, row, column, quads, step, own_rows, groups, own_columns)
    # The sums of a tile live with the block; each thread has its own in registers in the end.
    store, _ = s.cache_write("C", at=column_blocks, scope="global")
    # What a piece reads is copied to shared memory, what each thread reads of that to registers.
    load_a, a = s.pack("A", f"i/{t.down} i%{t.down} j", at=pieces, scope="shared", pad=True)
    width = t.across * t.vector
    load_b, b = s.pack("B", f"i j/{width} j%{width}", at=pieces, scope="shared", pad=True)
    if m % t.rows or n % t.columns:
        s.pad("C_init")
    if m % t.rows or n % t.columns or k % t.depth:
        s.pad("C")
    copies = [s.cache_read(a, at=quads, scope="register")[0], s.cache_read(b, at=step, scope="register")[0]]
    for copy in copies:
        s.vectorize(s.loops(copy)[-1])
    # The grid.
    for loop in (row_blocks, column_blocks):
        s.bind(loop, "block")
    for block, outer in (("C_init", 2), ("C", 3), (store, 2)):
        for loop in s.loops(block)[outer : outer + 2]:
            s.bind(loop, "thread")
    for load in (load_a, load_b):
        assert load is not None
        share_copy(s, load, 3, t.down * t.across, t.vector)
    for block in ("C_init", store):
        s.vectorize(s.loops(block)[-1])
    for loop in (quads, step, own_rows, groups, own_columns):
        s.unroll(loop)
    s.pipeline(a, b, stages=t.stages)
    s.pad_rows(a, t.vector)
    return s


def share_copy(s: OperatorSchedule, load: object, outer: int, threads: int, vector: int) -> None:
    """The loops of a copy inside the ``outer`` ones, on ``threads`` threads that take ``vector`` elements at a time."""
    *loops, last = s.loops(str(load))[outer:]
    vectors, lanes = s.split(last, vector)
    turns, thread = s.split(s.fuse(*loops, vectors), threads)
    s.reorder(thread, turns, lanes)
    s.bind(thread, "thread")
    s.vectorize(lanes)
    s.unroll(turns)


def main(m: int = 1024, n: int = 1024, k: int = 1024) -> None:
    matmul = schedule_matmul(m, n, k).build()
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    print(matmul.show("cuda", a, b))
    np.testing.assert_allclose(matmul(a, b), a @ b, rtol=1e-4, atol=1e-3)
    print("on the CPU it gives the same as numpy")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
