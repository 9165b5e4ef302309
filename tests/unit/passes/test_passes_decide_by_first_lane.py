"""Tests of a vector loop that are the same for all lanes, and those that are not."""

from __future__ import annotations

import pytest

from weft.ir.parser import parse_kernel
from weft.ir.printer import print_expr
from weft.ir.stmt import If
from weft.ir.visit import walk
from weft.passes.guards.decide_by_first_lane import decide_by_first_lane

TEXT = """kernel f(out Y: float32[4104], n: int64) {{
  for t in 0:600 {{ vector v in 0:{lanes} {{ if {test} {{ Y[t * 8 + v] = 1.0 }} }} }}
}}"""


def decided(test: str, lanes: int = 8) -> str:
    made = decide_by_first_lane(parse_kernel(TEXT.format(test=test, lanes=lanes)))
    return print_expr(next(n.condition for n in walk(made) if isinstance(n, If)))


@pytest.mark.parametrize(
    "test",
    [
        "t * 8 + v < 4104",
        "t * 8 + v >= 8",
        "4104 > t * 8 + v",
        "16 <= t * 8 + v",
        "t * 16 + v + 8 < n * 8",
        "t * 8 + v < min(t * 8 + 32, 4104)",
    ],
)
def test_same_for_all_lanes(test: str) -> None:
    assert "v" not in decided(test)


@pytest.mark.parametrize(
    "test",
    [
        "t * 8 + v < 4102",
        "t * 4 + v < 4104",
        "t * 8 + v <= 4104",
        "t * 8 + v > 8",
        "t * 8 + v == 8",
        "t * 8 + 2 * v < 4104",
        "t * 8 + v < n",
        "t * 8 + v < min(t * 8 + 30, 4104)",
        "t * 8 + v + v // 2 * 8 < 4104",
    ],
)
def test_not_the_same_for_all_lanes(test: str) -> None:
    assert "v" in decided(test)


def test_the_decision_is_right_for_every_lane() -> None:
    for test in ("t * 8 + v < 4104", "t * 8 + v >= 8", "4104 > t * 8 + v", "16 <= t * 8 + v"):
        plain = decided(test)
        for t in range(600):
            for v in range(8):
                assert eval(test, {"t": t, "v": v}) == eval(plain, {"t": t}), (test, plain, t, v)
