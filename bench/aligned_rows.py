"""What an array that does not begin at a cache line costs, and what beginning its rows with a part vector would gain.

    python bench/aligned_rows.py [--repeat 9]

Rows of a sum and of bias + GELU are computed into memory at chosen places: at a cache line, 16 bytes behind one, and
there with the first elements of each row computed apart (``peeled``), so that all vectors are stored within lines.
"""

from __future__ import annotations

import argparse
import timeit
from typing import Any

import numpy as np

import weft

FORMULAS = {"add": "x + y", "GELU": "0.5 * (x + y) * (1.0 + erf((x + y) * 0.70710678))"}
SIZES = {"add": ((1, 8192), (64, 128), (512, 1024)), "GELU": ((1, 8192), (64, 128), (512, 1024))}
FIRST = 12  # floats from 16 bytes behind a line to the next line


def make(formula: str, rows: int, columns: int, first: int) -> Any:
    """Rows whose ``first`` elements are computed apart."""
    ends = [(lo, hi) for lo, hi in ((0, first), (first, columns)) if hi > lo]
    loops = (
        f"vector j{n} in {lo}:{hi} {{ C[i, j{n}] = {at_column(formula, f'j{n}')} }}" for n, (lo, hi) in enumerate(ends)
    )
    body = " ".join(loops)
    shape = f"float32[{rows}, {columns}]"
    text = (
        f"kernel k(A: {shape}, b: float32[{columns}], out C: {shape}) {{\n"
        f"  for again in 0:{times(rows, columns)} {{ for i in 0:{rows} {{ {body} }} }} }}"
    )
    return weft.kernel(text, numerics="fast")


def at_column(formula: str, j: str) -> str:
    return formula.replace("x", f"A[i, {j}]").replace("y", f"b[{j}]")


def at(shape: tuple[int, ...], offset: int) -> Any:
    """An array that begins ``offset`` bytes behind a page."""
    count = int(np.prod(shape)) * 4
    memory = np.ones(count + 8192, np.uint8)
    start = -memory.ctypes.data % 4096 + offset
    array = memory[start : start + count].view(np.float32).reshape(shape)
    array[...] = 0.5
    return array


def seconds(kernel: Any, shape: tuple[int, int], place: int, repeat: int) -> float:
    a, b, c = at(shape, place), at(shape[1:], 0), at(shape, place)
    kernel(a, b, c)
    return min(timeit.repeat(lambda: kernel(a, b, c), number=1, repeat=repeat)) / times(*shape)


def times(rows: int, columns: int) -> int:
    """How often a call does its work, so that what a call costs does not matter."""
    return max(8, 20_000_000 // (rows * columns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=9)
    repeat = parser.parse_args().repeat
    weft.set_num_threads(1)
    print(f"{'':6}{'rows':>6}{'columns':>9}{'at a line':>12}{'behind':>12}{'peeled':>12}   us")
    for name, sizes in SIZES.items():
        for rows, columns in sizes:
            plain, peeled = (make(FORMULAS[name], rows, columns, first) for first in (0, FIRST))
            times = [seconds(k, (rows, columns), p, repeat) for k, p in ((plain, 0), (plain, 16), (peeled, 16))]
            print(f"{name:6}{rows:6}{columns:9}" + "".join(f"{t * 1e6:12.2f}" for t in times))


if __name__ == "__main__":
    main()
