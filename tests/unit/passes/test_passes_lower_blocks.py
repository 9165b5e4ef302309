"""Blocks become statements; where the initialization goes."""

from __future__ import annotations

from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.passes.plain.lower_blocks import lower_blocks

BLOCK = """block C(vm spatial 0:4 = m, vk reduce 0:N = k) reads A[vm, vk] writes C[vm] {
    init { C[vm] = 0.0 }
    C[vm] = C[vm] + A[vm, vk] }"""


def lowered(text: str) -> str:
    return " ".join(print_kernel(lower_blocks(parse_kernel(text))).split())


def test_init_goes_before_the_reduction() -> None:
    nest = "for m in 0:4 { for k in 0:3 { " + BLOCK.replace("N", "3") + " } }"
    assert lowered(f"kernel f(A: float32[4, 3], out C: float32[4]) {{ {nest} }}") == (
        "kernel f(A: float32[4, 3], out C: float32[4]) { for m in 0:4 { C[m] = 0.0 "
        "for k in 0:3 { C[m] = C[m] + A[m, k] } } }"
    )


def test_init_stays_under_a_test_where_the_reduction_may_be_empty() -> None:
    nest = "for m in 0:4 { for k in 0:N { " + BLOCK + " } }"
    text = lowered(f"kernel f(A: float32[4, 3], N: int64, out C: float32[4]) {{ {nest} }}")
    assert "for k in 0:N { if k == 0 { C[m] = 0.0 } C[m] = C[m] + A[m, k] }" in text


def test_init_stays_where_a_spatial_loop_is_inside_the_reduction() -> None:
    nest = "for k in 0:3 { for m in 0:4 { " + BLOCK.replace("N", "3") + " } }"
    text = lowered(f"kernel f(A: float32[4, 3], out C: float32[4]) {{ {nest} }}")
    assert "for m in 0:4 { if k == 0 { C[m] = 0.0 } C[m] = C[m] + A[m, k] }" in text
