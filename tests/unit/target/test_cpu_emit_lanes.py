"""Conditions of lanes that are numbers while code is emitted: no test is left of them in the code."""

from __future__ import annotations

import numpy as np
import pytest
from run_compiled import Runner

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.target.cpu.lower import emit_kernel

TILE = """kernel k(X: float32[64], n: int64, out Y: float32[64]) {
    unroll v in 0:4 { vector i in 0:16 { if CONDITION { Y[v * 16 + i] = X[v * 16 + i] + 1.0 } } } }"""


@pytest.mark.parametrize("condition", ["v * 16 + i < 37", "i >= 3", "v * 16 + i < 64", "v * 16 + i > 70", "v + 2 < i"])
def test_known_lanes(condition: str) -> None:
    kernel = parse_kernel(TILE.replace("CONDITION", condition))
    text = emit_kernel(kernel)
    assert "icmp" not in text
    assert "reduce.or" not in text
    x, expected, found = np.arange(64, dtype=np.float32), np.zeros(64, np.float32), np.zeros(64, np.float32)
    interpret(kernel, [x, 5, expected])
    assert Runner(kernel)(x, 5, found) == 0
    np.testing.assert_array_equal(found, expected)


def test_others_are_tested() -> None:
    assert "icmp" in emit_kernel(parse_kernel(TILE.replace("CONDITION", "v * 16 + i < n")))


def test_both_sides() -> None:
    kernel = parse_kernel("""kernel k(out Y: float32[64]) { unroll v in 0:4 { vector i in 0:16 {
        if v * 16 + i < 20 { Y[v * 16 + i] = 1.0 } else { Y[v * 16 + i] = 2.0 } } } }""")
    found = np.zeros(64, np.float32)
    assert Runner(kernel)(found) == 0
    np.testing.assert_array_equal(found, [1.0] * 20 + [2.0] * 44)
