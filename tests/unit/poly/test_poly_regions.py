"""Bounding boxes of accesses."""

from __future__ import annotations

import pytest

from weft.ir.interval import Interval
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_expr
from weft.ir.stmt import Kernel
from weft.poly.infer_region import Box, covers, region_read, region_written, writes_between
from weft.poly.leaves import loop_named


def kernel(body: str) -> Kernel:
    return parse_kernel(
        f"kernel t(A: float32[99, 99], I: int32[99], N: int64, S: float32[N], out C: float32[99, 99]) {{ {body} }}"
    )


def text(box: Box | None) -> str | None:
    if box is None:
        return None
    return ", ".join(f"{print_expr(a)} +: {print_expr(n)}" for a, n in zip(box.starts, box.extents))


TILE = """for io in 0:7 { for jo in 0:3 { for k in 0:32 { for ii in 0:14 { for ji in 0:16 {
    C[io*14 + ii, jo*16 + ji] = C[io*14 + ii, jo*16 + ji] + A[io*14 + ii, k] } } } } }"""


@pytest.mark.parametrize(
    ("body", "loop", "expected"),
    [
        (TILE, "io", "io * 14 +: 14, 0 +: 32"),
        (TILE, "jo", "io * 14 +: 14, 0 +: 32"),
        (TILE, "k", "io * 14 +: 14, k +: 1"),
        (TILE, "ii", "io * 14 + ii +: 1, k +: 1"),
        ("for i in 1:9 { for j in 0:9 { C[i, j] = A[i - 1, j] + A[i + 1, j] } }", "i", "i - 1 +: 3, 0 +: 9"),
        ("for i in 0:9 { for j in i:9 { C[i, j] = A[j - i, j] } }", "i", "0 +: 9 - i, i +: 9 - i"),
        ("for i in 0:9 { for f in 0:32 { C[i, f] = A[i*4 + f // 8, f % 8] } }", "i", "i * 4 +: 4, 0 +: 8"),
        ("for i in 0:9 { for j in 0:9 { C[i, j] = A[98 - j, 2*j] } }", "i", "90 +: 9, 0 +: 17"),
        ("for i in 0:9 { for j in 0:N { C[i, j] = A[i, j] } }", "i", "i +: 1, 0 +: N"),
        ("for i in 0:9 { for j in 0:9 { C[i, j] = A[int64(I[j]), j] } }", "i", None),
        ("for i in 0:9 { C[i, 0] = 1.0 }", "i", None),
    ],
)
def test_region_read(body: str, loop: str, expected: str | None) -> None:
    program = kernel(body)
    found = loop_named(program, loop)
    assert found is not None
    assert text(region_read(program, "A", found.body)) == expected


def test_region_of_a_whole_kernel_and_of_writes() -> None:
    program = kernel(TILE)
    assert text(region_read(program, "A")) == "0 +: 98, 0 +: 32"
    inner = loop_named(program, "jo")
    assert inner is not None
    assert text(region_written(program, "C", inner.body)) == "io * 14 +: 14, jo * 16 +: 16"
    assert len(writes_between(program, "C", inner)) == 1
    assert not writes_between(program, "A")


def test_covers() -> None:
    program = kernel(TILE)
    whole = region_read(program, "A")
    loop = loop_named(program, "io")
    assert whole is not None
    assert loop is not None
    tile = region_read(program, "A", loop.body)
    assert tile is not None
    assert covers(whole, tile, {"io": Interval(0, 6)})
    assert not covers(whole, tile, {"io": Interval(0, 7)})
    assert not covers(tile, whole, {"io": Interval(0, 6)})
