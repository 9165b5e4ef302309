"""Edges of tiles in registers: tested where the tile is made, and not at all where nobody sees the difference."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.passes.guards.fill_edges import fill_edges

TEXT = """kernel k(A: float32[10, 12], out O: float32[10], out R: float32[16]) {
  block b in 0:2 { thread s in 0:8 {
    alloc M: float32[1] in local
    alloc L: float32[1] in local
    M[0] = -inf
    L[0] = 0.0
    for t in 0:2 {
      call products_wait(0)
      alloc P: float32[8] in local
      unroll i in 0:4 { unroll j in 0:2 {
        P[i * 2 + j] = b * 8 + s < 10 && t * 8 + i * 2 + j < 12 ? A[b * 8 + s, t * 8 + i * 2 + j] : 0.5
      } }
      MADE
      unroll i in 0:4 { unroll j in 0:2 { if t * 8 + i * 2 + j < 12 { M[0] = max(M[0], P[i * 2 + j]) } } }
      alloc W: float32[8] in local
      unroll i in 0:4 { unroll j in 0:2 { W[i * 2 + j] = WEIGHT } }
      unroll i in 0:4 { unroll j in 0:2 { if t * 8 + i * 2 + j < 12 { L[0] = L[0] + W[i * 2 + j] } } }
      if b * 8 + s < 10 { L[0] = L[0] * 0.5 }
    }
    SEEN
    if b * 8 + s < 10 { O[b * 8 + s] = L[0] + M[0] }
  } } }"""
EXPONENT = "exp(P[i * 2 + j] * 0.25 - M[0])"
#: The tile is made by updates too, as by a product; by one nest alone, which then tests itself.
UPDATED = "unroll i in 0:8 { P[i] = P[i] + 1.0 }"
ASKED = "t * 8 + i * 2 + j < 12"


def made(weight: str = EXPONENT, filled: str = UPDATED, seen: str = "") -> Kernel:
    return parse_kernel(TEXT.replace("WEIGHT", weight).replace("MADE", filled).replace("SEEN", seen))


def results(kernel: Kernel) -> list[np.ndarray]:
    outs = [np.zeros(10, np.float32), np.zeros(16, np.float32)]
    interpret(kernel, [np.random.default_rng(0).normal(size=(10, 12)).astype(np.float32), *outs])
    return outs


def check_same(kernel: Kernel, changed: Kernel) -> None:
    for got, want in zip(results(changed), results(kernel), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("filled", [UPDATED, ""])
def test_a_tile_is_tested_once(filled: str) -> None:
    kernel = made(filled=filled)
    changed = fill_edges(kernel)
    text = print_kernel(changed)
    assert text.count("-inf") == 2
    assert f"if {ASKED}" not in text
    check_same(kernel, changed)


def test_rows_beyond_an_edge_are_computed_where_nobody_sees_them() -> None:
    kernel = made()
    text = print_kernel(fill_edges(kernel))
    assert text.count("b * 8 + s < 10") == 2, "of what is read, and of what is stored"


def test_rows_that_are_seen_stay_as_they_were() -> None:
    kernel = made(seen="R[b * 8 + s] = L[0]")
    changed = fill_edges(kernel)
    assert "if b * 8 + s < 10 {\n          L[0] = L[0] * 0.5" in print_kernel(changed)
    check_same(kernel, changed)


@pytest.mark.parametrize(
    ("weight", "filled"),
    [
        ("P[i * 2 + j] * 2.0", UPDATED),
        ("exp(M[0] - P[i * 2 + j])", UPDATED),
        ("exp(P[i * 2 + j] * M[0])", UPDATED),
        (EXPONENT, f"{UPDATED} R[b * 8 + s] = P[7]"),
        (EXPONENT, f"{UPDATED} unroll i in 0:8 {{ if t * 8 + i < 11 {{ M[0] = max(M[0], P[i]) }} }}"),
    ],
    ids=["no zeros", "infinite", "a factor that is not known", "all elements are seen", "another test"],
)
def test_tests_that_matter_stay(weight: str, filled: str) -> None:
    kernel = made(weight, filled)
    changed = fill_edges(kernel)
    assert print_kernel(changed).count(f"if {ASKED}") == 2
    check_same(kernel, changed)


def test_results_are_stored_under_a_test_that_keeps_threads_together() -> None:
    text = TEXT.replace(
        "O[b * 8 + s] = L[0] + M[0]",
        "let x: float32 = L[0] + M[0] unroll i in 0:1 { unroll j in 0:1 { O[b * 8 + s] = x } }",
    )
    kernel = parse_kernel(text.replace("WEIGHT", EXPONENT).replace("MADE", UPDATED).replace("SEEN", ""))
    changed = fill_edges(kernel)
    assert print_kernel(changed).index("let x") < print_kernel(changed).rindex("if b * 8 + s < 10")
    check_same(kernel, changed)
