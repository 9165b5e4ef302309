"""Tests around work on registers: dropped where nobody sees it, kept where somebody could."""

from __future__ import annotations

import pytest

from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import If
from weft.ir.visit import walk
from weft.passes.guards.drop_guards import drop_guards

TILE = """kernel k(N: int64, A: float32[N], B: float32[8], out C: float32[64]) {{
    for o in 0:8 {{ alloc T: float32[8] in register {{ alloc P: float32[8] {{
        for i in 0:8 {{ P[i] = B[i] }}
        unroll i in 0:8 {{ if o * 8 + i < N {{ T[i] = 0.0 }} }}
        for k in 0:4 {{ unroll i in 0:8 {{ if {guard} {{ {update} }} }} }}
        unroll i in 0:8 {{ if {test} {{ {store} }} }} }} }} }} }}"""
PLAIN = {
    "guard": "o * 8 + i < N",
    "update": "T[i] = T[i] + P[i]",
    "test": "N > o * 8 + i",
    "store": "C[o * 8 + i] = T[i]",
}


def guards_left(**changes: str) -> int:
    kernel = parse_kernel(TILE.format(**(PLAIN | changes)))
    return sum(isinstance(n, If) for n in walk(drop_guards(kernel)))


def test_only_the_final_store_keeps_its_test() -> None:
    assert guards_left() == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"test": "o * 8 + i <= N"},  # the reader looks at one element more
        {"test": "o * 8 + i < N", "store": "C[o * 8 + i] = T[7 - i]"},  # at another element
        {"test": "o * 8 < N"},
        {"update": "T[i] = T[i] + A[o * 8 + i]"},  # memory that may not be there
        {"update": "T[i] = T[i] + P[o + 1]"},
        {"update": "C[o * 8 + i] = T[i] + P[i]"},
        {"update": "T[i] = T[i] + T[7 - i]"},  # an element read by its neighbours
        {"guard": "o * 8 + i < N && k < N", "store": "C[o * 8 + i] = T[i]", "update": "T[i] = A[k]"},
    ],
)
def test_tests_that_somebody_relies_on_stay(changes: dict[str, str]) -> None:
    assert guards_left(**changes) >= 2


def test_a_test_of_something_else_stays_in_the_update() -> None:
    text = print_kernel(drop_guards(parse_kernel(TILE.format(**PLAIN | {"guard": "o * 8 + i < N && k < N"}))))
    assert "if k < N" in text
    assert text.count("o * 8 + i") == 2


def test_memory_of_other_scopes_is_left_alone() -> None:
    text = TILE.format(**PLAIN).replace("in register", "in local")
    assert drop_guards(parse_kernel(text)) == parse_kernel(text)


@pytest.mark.parametrize(("last", "left"), [(2, 1), (3, 2)])
def test_what_a_branch_around_says_counts(last: int, left: int) -> None:
    """In the last tile the operands are not all there; away from it they are."""
    text = """kernel k(A: float32[30], out C: float32[30]) {
        for o in 0:4 { if o <= LAST { alloc T: float32[8] in register {
            for k in 0:4 { unroll i in 0:8 { if o * 8 + i < 20 { T[i] = T[i] + A[o * 8 + i] } } }
            unroll i in 0:8 { if o * 8 + i < 20 { C[o * 8 + i] = T[i] } } } } else { C[0] = 1.0 } } }"""
    kernel = parse_kernel(text.replace("LAST", str(last)))
    assert print_kernel(drop_guards(kernel)).count("< 20") == left


def test_of_two_tests_the_stronger_stays() -> None:
    text = """kernel k(n: int64, out C: float32[64]) {
        for i in 0:64 { if i < n + 8 { if i < n + 3 && i < n + 5 { C[i] = 1.0 } } } }"""
    kernel = drop_guards(parse_kernel(text))
    assert "if i < n + 3 {" in print_kernel(kernel)
    assert sum(isinstance(n, If) for n in walk(kernel)) == 1


def test_of_equal_tests_one_stays() -> None:
    text = "kernel k(n: int64, out C: float32[64]) { for i in 0:64 { if i < n { if n > i { C[i] = 1.0 } } } }"
    assert sum(isinstance(n, If) for n in walk(drop_guards(parse_kernel(text)))) == 1


TWO_TESTS = """kernel k(A: float32[10], B: float32[24], out C: float32[8, 24]) {{
    for o in 0:2 {{ alloc T: float32[4, 24] in register {{
        for k in 0:{steps} {{ unroll i in 0:4 {{ vector j in 0:24 {{
            if o * 4 + i < 7 && j < 20 {{ T[i, j] = T[i, j] + A[o * 4 + i + k] * B[j] }} }} }} }}
        unroll i in 0:4 {{ vector j in 0:24 {{
            if o * 4 + i < 7 && j < 20 {{ C[o * 4 + i, j] = T[i, j] }} }} }} }} }} }}"""


@pytest.mark.parametrize(("steps", "stays"), [(4, 2), (5, 3)])
def test_what_exists_because_of_a_test_that_stays(steps: int, stays: int) -> None:
    """Rows are there, since they are tested; so lanes need no test. One step more, and that is not so."""
    text = print_kernel(drop_guards(parse_kernel(TWO_TESTS.format(steps=steps))))
    assert text.count("j < 20") + text.count("o * 4 + i < 7") == stays + 1
