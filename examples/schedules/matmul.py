"""A matrix product scheduled with public primitives alone.

Run it to compare with numpy: ``python examples/schedules/matmul.py 1024 1024 1024``.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import weft

#: Rows and columns of the tile of sums that is kept in registers.
ROWS, COLUMNS = 8, 32


def schedule_matmul(m: int, n: int, k: int, *, threads: bool = True) -> weft.Operator:
    """``weft.ops.matmul`` for these sizes; other sizes replay the same steps."""
    s = weft.schedule(weft.ops.matmul, A=(m, k), B=(k, n), numerics="fast")
    i, j, r = s.loops("C")
    io, ii = s.split(i, ROWS)
    jo, ji = s.split(j, COLUMNS)
    s.reorder(jo, io, r, ii, ji)
    s.vectorize(ji)
    s.unroll(ii)
    s.cache_write("C", scope="register", at=io)
    # A panel of B is packed right before the rows of A come by, and stays in the cache while they do.
    s.pack("B", f"j/{COLUMNS} i j%{COLUMNS}", at=jo)
    if threads:
        s.parallel(jo)
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
