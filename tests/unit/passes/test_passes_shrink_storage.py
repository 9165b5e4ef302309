"""Temporaries inside loops get the memory that one iteration touches."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import Alloc, Kernel
from weft.ir.verify import verify
from weft.ir.visit import walk
from weft.passes.plain.shrink_storage import shrink_storage

WINDOW = """kernel window(a: float32[16], out b: float32[14]) {
  for y in 0:14 {
    alloc t: float32[16]
    for i in y:y + 3 { t[i] = a[i] * 2.0 }
    b[y] = t[y] + t[y + 2]
  }
}"""
SYMBOLIC = """kernel tiles(a: float32[n], n: int64, out b: float32[n]) {
  for o in 0:(n + 3) // 4 {
    alloc t: float32[n]
    for i in o * 4:min(o * 4 + 4, n) { t[i] = a[i] + 1.0 }
    for i in o * 4:min(o * 4 + 4, n) { b[i] = t[i] * a[i] }
  }
}"""
GATHER = """kernel gather(a: float32[16], j: int32[16], out b: float32[16]) {
  for y in 0:16 {
    alloc t: float32[16]
    for i in 0:16 { t[i] = a[i] }
    b[y] = t[int64(j[y])]
  }
}"""
OUTSIDE = """kernel outside(a: float32[16], out b: float32[16]) {
  alloc t: float32[16]
  for i in 0:8 { t[i] = a[i] }
  for i in 0:8 { b[i] = t[i] }
}"""


def shape_of(kernel: Kernel) -> list[object]:
    (alloc,) = (n for n in walk(kernel) if isinstance(n, Alloc))
    return [getattr(e, "value", e) for e in alloc.buffer.shape]


@pytest.mark.parametrize(("text", "sizes", "shape"), [(WINDOW, (), [3]), (SYMBOLIC, (18,), [4])])
def test_storage_is_cut_to_an_iteration(text: str, sizes: tuple[int, ...], shape: list[int]) -> None:
    kernel = parse_kernel(text)
    cut = shrink_storage(kernel)
    verify(cut)
    assert shape_of(cut) == shape
    size = sizes[0] if sizes else 16
    a = np.random.default_rng(1).standard_normal(size).astype(np.float32)
    results = []
    for k in (kernel, cut):
        out = np.zeros(size - 2 if not sizes else size, np.float32)
        interpret(k, [a, *sizes, out])
        results.append(out)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("text", [GATHER, OUTSIDE], ids=["gather", "outside loops"])
def test_what_is_needed_whole_stays_whole(text: str) -> None:
    kernel = parse_kernel(text)
    assert print_kernel(shrink_storage(kernel)) == print_kernel(kernel)
