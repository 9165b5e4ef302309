"""Matrix products scheduled with public primitives alone: plain, with either side transposed, in batches.

Run it to compare with numpy: ``python examples/schedules/matmul.py 1024 1024 1024``.
"""

from __future__ import annotations

import functools
import sys
import time

import numpy as np

import weft
from weft.operators.schedule import OperatorSchedule

#: Rows and columns of the tile of sums that is kept in registers.
ROWS, COLUMNS = 8, 32
#: Large matrices go by blocks of B: rows of a block, and panels of ``COLUMNS`` in it. It stays in the second cache.
DEPTH, PANELS = 512, 8
#: Elements of a vector.
LANES = 16

_LEFT_TRANSPOSED = """
def left_transposed_matmul(float(K,M) A, float(K,N) B) -> (C) {
    C(m,n) +=! A(k,m) * B(k,n)
}"""


@functools.cache
def left_transposed_matmul() -> weft.Operator:
    return weft.define(_LEFT_TRANSPOSED)


def schedule_matmul(m: int, n: int, k: int, *, transposed: str = "") -> weft.Operator:
    """A (m, k) times B (k, n); the matrix named by ``transposed``, "A" or "B", comes transposed.

    Other sizes replay the same steps.
    """
    if m < ROWS:
        return _schedule_few_rows(m, n, k, transposed=transposed)
    s = _start(m, n, k, transposed)
    i, j, r = s.loops("C")
    io, ii = s.split(i, ROWS)
    jo, ji = s.split(j, COLUMNS)
    s.vectorize(ji)
    s.unroll(ii)
    # What is packed of B stays in the cache while the rows of A come by: a panel, or a block of some panels.
    if k > 2 * DEPTH and n >= 8 * PANELS * COLUMNS:
        block, jo = s.split(jo, PANELS)
        ro, ri = s.split(r, DEPTH)
        s.reorder(block, ro, io, jo, ri, ii, ji)
        tile, packed, outer = jo, ro, block
    else:
        s.reorder(jo, io, r, ii, ji)
        tile, packed, outer = io, jo, jo
    s.cache_write("C", scope="register", at=tile)
    s.pack("B", f"i/{COLUMNS} j i%{COLUMNS}" if transposed == "B" else f"j/{COLUMNS} i j%{COLUMNS}", at=packed)
    if n >= 8 * COLUMNS:  # enough columns to pay for packing A: the rows of a tile side by side
        load, _ = s.pack("A", f"j/{ROWS} i j%{ROWS}" if transposed == "A" else f"i/{ROWS} j i%{ROWS}")
        assert load is not None  # an argument cannot be stored in another order without a copy
        s.parallel(s.loops(load)[0])
    s.parallel(outer)
    return s.build()


def _start(m: int, n: int, k: int, transposed: str) -> OperatorSchedule:
    if transposed == "A":
        return weft.schedule(left_transposed_matmul(), A=(k, m), B=(k, n), numerics="fast")
    if transposed == "B":
        return weft.schedule(weft.ops.transposed_matmul, A=(m, k), B=(n, k), numerics="fast")
    return weft.schedule(weft.ops.matmul, A=(m, k), B=(k, n), numerics="fast")


def _schedule_few_rows(m: int, n: int, k: int, *, transposed: str = "") -> weft.Operator:
    """B is read once, some rows at a time, each thread its own columns; sums wait in the nearest cache."""
    s = _start(m, n, k, transposed)
    i, j, r = s.loops("C")
    jo, jr = s.split(j, 64 * LANES)
    jm, ji = s.split(jr, LANES)
    ro, ri = s.split(r, LANES)
    s.reorder(jo, ro, i, jm, ri, ji)
    s.cache_write("C", scope="register", at=jm)
    s.vectorize(ji)
    s.unroll(ri)
    s.parallel(jo)
    return s.build()


def schedule_batched_matmul(batch: int, m: int, n: int, k: int) -> weft.Operator:
    """A product for each of a batch; the batch runs in parallel."""
    s = weft.schedule(weft.ops.batched_matmul, X=(batch, m, k), Y=(batch, k, n), numerics="fast")
    b, i, j, r = s.loops("Z")
    io, ii = s.split(i, ROWS)
    jo, ji = s.split(j, COLUMNS)
    s.reorder(b, jo, io, r, ii, ji)
    s.vectorize(ji)
    s.unroll(ii)
    s.cache_write("Z", scope="register", at=io)
    s.pack("Y", f"i k/{COLUMNS} j k%{COLUMNS}", at=jo)
    s.parallel(b)
    return s.build()


def seconds(run: object, *args: object, repeat: int = 7) -> float:
    """The best of a few runs."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        run(*args)  # type: ignore[operator]
        best = min(best, time.perf_counter() - start)
    return best


def main(m: int = 1024, n: int = 1024, k: int = 1024) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    matmul = schedule_matmul(m, n, k)
    np.testing.assert_allclose(matmul(a, b), a @ b, rtol=1e-4, atol=1e-3)
    work = 2e-9 * m * n * k
    print(f"weft  {work / seconds(matmul, a, b):7.1f} GFLOP/s")
    print(f"numpy {work / seconds(np.matmul, a, b):7.1f} GFLOP/s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
