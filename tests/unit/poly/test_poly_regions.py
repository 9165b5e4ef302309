"""Boxes of accesses: their ends in terms of outer loops."""

from __future__ import annotations

import pytest

from weft.ir.parser import parse_kernel
from weft.ir.printer import print_expr
from weft.ir.stmt import Kernel
from weft.poly.infer_spans import Spans, infer_spans
from weft.poly.leaves import leaves, loop_named


def kernel(body: str) -> Kernel:
    return parse_kernel(
        f"kernel t(A: float32[99, 99], I: int32[99], N: int64, S: float32[N], out C: float32[99, 99]) {{ {body} }}"
    )


def text(spans: Spans | None) -> str | None:
    return None if spans is None else ", ".join(f"{print_expr(lo)} to {print_expr(hi)}" for lo, hi in spans)


def spans_below(program: Kernel, buffer: str, loop: str | None) -> Spans | None:
    """What is read of A, or written of C, in an iteration of ``loop``."""
    below = None if loop is None else loop_named(program, loop)
    fixed = 0 if loop is None else next(f for f in leaves(program) if loop in f.loop_names).loop_names.index(loop) + 1
    return infer_spans(program, next(b for b in program.buffers if b.name == buffer), below, fixed)


TILE = """for io in 0:7 { for jo in 0:3 { for k in 0:32 { for ii in 0:14 { for ji in 0:16 {
    C[io*14 + ii, jo*16 + ji] = C[io*14 + ii, jo*16 + ji] + A[io*14 + ii, k] } } } } }"""


@pytest.mark.parametrize(
    ("body", "loop", "expected"),
    [
        (TILE, "io", "io * 14 to io * 14 + 13, 0 to 31"),
        (TILE, "jo", "io * 14 to io * 14 + 13, 0 to 31"),
        (TILE, "k", "io * 14 to io * 14 + 13, k to k"),
        (TILE, "ii", "io * 14 + ii to io * 14 + ii, k to k"),
        (TILE, None, "0 to 97, 0 to 31"),
        ("for i in 1:9 { for j in 0:9 { C[i, j] = A[i - 1, j] + A[i + 1, j] } }", "i", "i - 1 to i + 1, 0 to 8"),
        ("for i in 0:9 { for j in i:9 { C[i, j] = A[j - i, j] } }", "i", "0 to 8 - i, i to 8"),
        ("for i in 0:9 { for f in 0:32 { C[i, f] = A[i*4 + f // 8, f % 8] } }", "i", "i * 4 to i * 4 + 3, 0 to 7"),
        ("for i in 0:9 { for j in 0:9 { C[i, j] = A[98 - j, 2*j] } }", "i", "90 to 98, 0 to 16"),
        ("for i in 0:9 { for j in 0:N { C[i, j] = A[i, j] } }", "i", "i to i, 0 to N - 1"),
        ("for i in 0:9 { for j in 0:9 { C[i, j] = A[int64(I[j]), j] } }", "i", "0 to 98, 0 to 8"),
        ("for i in 0:9 { C[i, 0] = 1.0 }", "i", None),
    ],
)
def test_what_is_read(body: str, loop: str | None, expected: str | None) -> None:
    assert text(spans_below(kernel(body), "A", loop)) == expected


def test_what_is_written() -> None:
    assert text(spans_below(kernel(TILE), "C", "jo")) == "io * 14 to io * 14 + 13, jo * 16 to jo * 16 + 15"
