"""Masks of tiles in registers: asked for once where a tile tells, element by element where it does not."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.passes.guards.separate_masks import separate_masks

TEXT = """kernel k(A: float32[16, 32], out B: float32[16, 32]) {
  block b in 0:2 { thread s in 0:8 { for t in 0:4 {
    alloc P: float32[8] in local
    alloc X: float32[8] in local
    call products_wait(0)
    unroll i in 0:8 { P[i] = A[b * 8 + s, t * 8 + i] }
    unroll i in 0:8 { X[i] = VALUE }
    unroll i in 0:8 { B[b * 8 + s, t * 8 + i] = X[i] }
  } } } }"""
MASKS = {
    "causal": ("b * 8 + s >= t * 8 + i ? P[i] : -1.0", "b >= t + 1"),
    "the other way round": ("b * 8 + s < t * 8 + i ? -1.0 : P[i]", "b >= t + 1"),
    "both ends": ("t * 8 + i >= 3 && t * 8 + i < 30 ? P[i] : -1.0", "t >= 1 && t <= 2"),
    "of memory, too": ("b * 8 + s >= t * 8 + i ? P[i] - A[0, i] : -1.0", "b >= t + 1"),
    "either end": ("t * 8 + i < 3 || t * 8 + i >= 30 ? -1.0 : P[i]", "t >= 1 && t <= 2"),
}


def result(kernel: Kernel) -> np.ndarray:
    out = np.zeros((16, 32), np.float32)
    interpret(kernel, [np.arange(512, dtype=np.float32).reshape(16, 32), out])
    return out


@pytest.mark.parametrize(("value", "asked"), MASKS.values(), ids=MASKS)
def test_a_tile_asks_once(value: str, asked: str) -> None:
    kernel = parse_kernel(TEXT.replace("VALUE", value))
    parted = separate_masks(kernel)
    text = print_kernel(parted)
    assert f"if {asked} {{" in text
    assert "?" not in text.split(f"if {asked} {{")[1].split("else")[0]
    np.testing.assert_array_equal(result(parted), result(kernel))


def test_a_tile_at_an_edge_asks_once() -> None:
    kernel = parse_kernel(TEXT.replace("X[i] = VALUE", "X[i] = 0.0 if t * 8 + i < 30 { X[i] = P[i] }"))
    parted = separate_masks(kernel)
    assert "if t <= 2 {" in print_kernel(parted)
    np.testing.assert_array_equal(result(parted), result(kernel))


@pytest.mark.parametrize(
    "value",
    [
        "i < 4 ? P[i] : -1.0",
        "P[i] > 2.0 ? P[i] : -1.0",
        "b * 8 + s >= t * 8 + i ? A[0, i] : -1.0",
        "t * 8 + i >= 8 && t * 8 + i < 24 ? -1.0 : P[i]",
    ],
)
def test_others_stay(value: str) -> None:
    """What no tile decides, what depends on values, what is merely loaded, and where either of two tests may fail
    (elements that both hold for had been taken as not masked)."""
    kernel = parse_kernel(TEXT.replace("VALUE", value))
    assert print_kernel(separate_masks(kernel)) == print_kernel(kernel)
