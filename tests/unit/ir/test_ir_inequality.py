"""Conditions taken apart."""

from __future__ import annotations

import pytest

from weft.ir.inequality import conjuncts
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_expr
from weft.ir.stmt import If
from weft.ir.visit import walk


@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        ("i < min(j, 7) && j >= 2", ["i < j", "i < 7", "j >= 2"]),
        ("max(i, j) <= 5", ["i <= 5", "j <= 5"]),
        ("i > max(j, min(i, 3))", ["i > j", "i > min(i, 3)"]),
        ("min(i, j) >= 1", ["i >= 1", "j >= 1"]),
        ("i < max(j, 7)", ["i < max(j, 7)"]),
        ("min(i, j) < 7", ["min(i, j) < 7"]),
        ("min(i, j) == 7", ["min(i, j) == 7"]),
    ],
)
def test_below_the_lesser_is_below_both(condition: str, parts: list[str]) -> None:
    text = (
        f"kernel k(out Y: float32[9, 9]) {{ for i in 0:9 {{ for j in 0:9 {{ if {condition} {{ Y[i, j] = 1.0 }} }} }} }}"
    )
    tested = next(n for n in walk(parse_kernel(text)) if isinstance(n, If))
    assert [print_expr(part) for part in conjuncts(tested.condition)] == parts
