"""Swizzled shared memory: which buffers, where elements are, and that nothing but addresses changes."""

from __future__ import annotations

import pytest

from weft.ir.parser import parse_kernel
from weft.target.cuda.machine import gpu_for_arch
from weft.target.cuda.swizzle import ROW, SWIZZLE_ALIGN, find_swizzled, has_rows


@pytest.mark.parametrize(
    ("buffer", "whole"),
    [
        ("bfloat16[4, 128, 64]", True),
        ("float16[64, 64]", True),
        ("float32[8, 32]", True),
        ("bfloat16[128, 32]", False),
        ("bfloat16[128, 128]", False),
        ("bfloat16[128, 64] strides [72, 1]", False),
        ("bfloat16[64, 64] strides [1, 64]", False),
    ],
)
def test_whole_rows(buffer: str, whole: bool) -> None:
    kernel = parse_kernel(f"kernel f(X: {buffer}, out Y: float32[1]) {{ Y[0] = 0.0 }}")
    assert has_rows(kernel.buffers[0]) == whole


def test_eight_rows_of_a_column_of_pieces_are_in_all_banks() -> None:
    """As `SWIZZLE` computes them: pieces of 16 bytes that are one below the other, and those side by side."""
    places = [bytes ^ (bytes >> 3 & 0x70) for bytes in range(0, SWIZZLE_ALIGN, 16)]
    assert sorted(places) == list(range(0, SWIZZLE_ALIGN, 16))
    for piece in range(8):
        assert len({places[8 * row + piece] % ROW for row in range(8)}) == 8


def test_only_what_groups_of_warps_read_is_swizzled() -> None:
    kernel = parse_kernel("kernel f(out Y: float32[1]) { Y[0] = 0.0 }")
    assert find_swizzled(kernel.body, gpu_for_arch("sm_90")) == frozenset()


def test_only_one_architecture_has_groups_of_warps() -> None:
    assert {arch for arch in ("sm_80", "sm_90", "sm_100", "sm_120") if gpu_for_arch(arch).has("wgmma")} == {"sm_90"}
    assert gpu_for_arch("sm_90").code_arch == "sm_90a"
    assert gpu_for_arch("sm_80").code_arch == "sm_80"
