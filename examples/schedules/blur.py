"""Halide's four schedules of a blur: run this to see that they agree, and how long each takes.

>>> python examples/schedules/blur.py 2048 3072
"""

from __future__ import annotations

import sys
import time

import numpy as np

import weft
from weft.schedules.schedule import Schedule

BLUR = """
def blur(float(H,W) A) -> (B) {
    T(y,x) = (A(y,x) + A(y,x+1) + A(y,x+2)) / 3
    B(y,x) = (T(y,x) + T(y+1,x) + T(y+2,x)) / 3
}"""
LANES = 16


def breadth_first(s: Schedule) -> None:
    """All of the temporary, then all of the result."""
    for block in ("T", "B"):
        y, x = s.loops(block)
        s.vectorize(x, LANES)
        s.parallel(y)


def full_recompute(s: Schedule) -> None:
    """No temporary: every element is computed for each of its three readers."""
    s.compute_inline("T")
    y, x = s.loops("B")
    s.vectorize(x, LANES)
    s.parallel(y)


def sliding_window(s: Schedule) -> None:
    """Each row of the temporary once, four rows kept; one thread."""
    y, x = s.loops("B")
    s.compute_at("T", y)
    s.store_at("T")
    s.fold_storage("T", 0, 4)
    s.vectorize(s.loops("T")[-1], LANES)
    s.vectorize(x, LANES)


def windows_in_strips(s: Schedule, rows: int = 64) -> None:
    """A window for each strip of rows; strips in parallel."""
    y, x = s.loops("B")
    strip, row = s.split(y, rows)
    s.compute_at("T", row)
    s.store_at("T", strip)
    s.fold_storage("T", 0, 4)
    s.vectorize(s.loops("T")[-1], LANES)
    s.vectorize(x, LANES)
    s.parallel(strip)


def rows_in_registers(s: Schedule, rows: int = 6) -> None:
    """Not one of the four, and the fastest: no temporary, and what a few rows share is computed once for them."""
    s.compute_inline("T")
    y, x = s.loops("B")
    s.reorder(x, y)
    column, lane = s.split(x, LANES, tail="separate")
    strip, row = s.split(y, rows)
    s.reorder(strip, column, row, lane)
    s.vectorize(lane)
    s.unroll(row)
    s.prefetch("A", at=column, ahead=4)  # rows may lie whole pages apart, too far for the hardware to see them coming
    s.parallel(strip)


SCHEDULES = (breadth_first, full_recompute, sliding_window, windows_in_strips, rows_in_registers)


def main(height: int = 2048, width: int = 3072) -> None:
    blur = weft.define(BLUR, schedule="naive")
    image = np.random.default_rng(0).random((height, width), np.float32)
    expected = blur(image)
    for schedule in SCHEDULES:
        s = weft.schedule(blur, A=image.shape)
        schedule(s)
        op = s.build()
        assert np.array_equal(op(image), expected), schedule.__name__
        took = []
        for _ in range(10):
            start = time.perf_counter()
            op(image, out=expected)
            took.append(time.perf_counter() - start)
        print(f"{schedule.__name__:<20} {min(took) * 1e3:8.2f} ms")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
