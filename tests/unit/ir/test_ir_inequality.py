"""Conditions taken apart."""

from __future__ import annotations

import pytest

from weft.ir import dtype as dt
from weft.ir.affine import Linear
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Compare, Expr, Load, Var, idx
from weft.ir.inequality import cases, conjuncts, slack, tight
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_expr
from weft.ir.stmt import If
from weft.ir.visit import walk


def condition_of(text: str) -> Expr:
    program = (
        f"kernel k(out Y: float32[9, 9]) {{ for i in 0:9 {{ for j in 0:9 {{ if {text} {{ Y[i, j] = 1.0 }} }} }} }}"
    )
    return next(n for n in walk(parse_kernel(program)) if isinstance(n, If)).condition


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
    assert [print_expr(part) for part in conjuncts(condition_of(condition))] == parts


@pytest.mark.parametrize(
    ("condition", "holds", "parts"),
    [
        ("!(i < 3 || j >= 2)", True, ["i >= 3", "j < 2"]),
        ("i < 3 || !(j >= 2)", False, ["i >= 3", "j >= 2"]),
        ("i < 3 && j >= 2", False, ["i >= 3 || j < 2"]),
        ("i >= min(j, 7)", False, ["i < j", "i < 7"]),
        ("!(i == 3)", True, ["i != 3"]),
    ],
)
def test_what_does_not_hold_is_taken_apart_as_well(condition: str, holds: bool, parts: list[str]) -> None:
    assert [print_expr(part) for part in conjuncts(condition_of(condition), holds)] == parts


def told(e: Expr, holds: bool) -> list[list[str]]:
    return [[("" if holds else "not ") + print_expr(e)]] if isinstance(e, Compare) else [[]]


@pytest.mark.parametrize(
    ("condition", "holds", "expected"),
    [
        ("i < 3 && (j < 2 || i == j)", True, [["i < 3", "j < 2"], ["i < 3", "i == j"]]),
        ("i < 3 && j < 2", False, [["not i < 3"], ["not j < 2"]]),
        ("!(i < 3 || j < 2)", True, [["not i < 3", "not j < 2"]]),
        ("true && i < 3", True, [["i < 3"]]),
        ("true && i < 3", False, [["not i < 3"]]),
        ("false", True, []),
    ],
)
def test_cases_are_lists_of_what_holds_together(condition: str, holds: bool, expected: list[list[str]]) -> None:
    assert cases(condition_of(condition), holds, told) == expected


def test_a_case_that_says_nothing_is_all_that_is_said() -> None:
    either = Binary("||", condition_of("i < 3"), Load(Buffer("F", dt.bool_, (idx(9),)), (Var("i"),)))
    assert cases(either, True, told) == [[]]
    assert cases(either, False, told) == [["not i < 3"]]


def test_too_many_cases_are_read_as_one() -> None:
    several = " && ".join(f"(i < {n} || j < {n})" for n in range(6))
    asked = []

    def read(e: Expr, holds: bool) -> list[list[str]]:
        asked.append(e)
        return told(e, holds)

    assert all(case == [] or len(case) <= 6 for case in cases(condition_of(several), True, read))
    assert any(isinstance(e, Binary) for e in asked)


@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "==", "!="])
def test_the_slack_of_a_comparison_is_at_least_0_where_it_holds(op: str) -> None:
    gap = slack(condition_of(f"2*i {op} j + 3"))
    if op in ("==", "!="):
        assert gap is None
        return
    assert gap is not None
    holds = {"<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__}[op]
    for i in range(-4, 5):
        for j in range(-4, 5):
            assert holds(2 * i, j + 3) == (gap.terms[Var("i")] * i + gap.terms[Var("j")] * j + gap.constant >= 0)


def test_tight_sums_say_the_same_of_integers() -> None:
    gap = Linear({Var("i"): 4, Var("j"): -6}, 5)
    assert tight(gap) == Linear({Var("i"): 2, Var("j"): -3}, 2)
    assert tight(Linear({}, 5)) == Linear({}, 5)
    assert all((4 * i - 6 * j + 5 >= 0) == (2 * i - 3 * j + 2 >= 0) for i in range(-9, 9) for j in range(-9, 9))
