"""Index forms: what splitting, fusing and packing leave behind counts as what it touches."""

from __future__ import annotations

import itertools

import pytest

from weft.ir.expr import Const, Expr, Var
from weft.ir.parser import parse_kernel
from weft.ir.stmt import For, Store
from weft.schedules.footprint import infer_touches
from weft.schedules.index_forms import Form, Term, index_form, joined_digits
from weft.schedules.nests import read_nests

X, Y = Var("i"), Var("j")
FORMS = {"i": Form({Term("i"): 1}, 0), "j": Form({Term("j"): 1}, 0)}
TRIPS = {"i": 6, "j": 8}


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (X * 8 + Y + 3, Form({Term("i"): 8, Term("j"): 1}, 3)),
        ((X * 8 + Y) // 8, Form({Term("i"): 1}, 0)),
        ((X * 8 + Y) % 8, Form({Term("j"): 1}, 0)),
        (Y // 4, Form({Term("j", 4): 1}, 0)),
        (Y % 4, Form({Term("j", 1, 4): 1}, 0)),
        (Y - Y, Form({}, 0)),
        (-Y, Form({Term("j"): -1}, 0)),
    ],
)
def test_forms(e: Expr, expected: Form) -> None:
    assert index_form(e, FORMS, TRIPS) == expected


def test_digits_that_count_on_are_one_term() -> None:
    """As in a fused loop over dimensions that follow one another in memory."""
    i = Term("i")
    assert joined_digits({Term("i", 256): 256, Term("i", 16, 16): 16, Term("i", 1, 16): 1}) == {i: 1}
    assert joined_digits({Term("i", 16, 16): 16, Term("i", 1, 16): 1}) == {Term("i", 1, 256): 1}
    apart = {Term("i", 16): 224, Term("i", 1, 16): 1}  # rows of a larger image
    assert joined_digits(apart) == apart


def test_values_of_divided_and_wrapped_variables() -> None:
    for divisor, modulus, trips in itertools.product((1, 2, 3), (0, 2, 4), (1, 4, 7, 12)):
        found = {i // divisor % modulus if modulus else i // divisor for i in range(trips)}
        assert Term("i", divisor, modulus).values(trips) == len(found)


PROGRAMS = {
    "rows": "for i in 0:6 { for j in 0:8 { B[i, j] = A[i, j] } }",
    "fused": "for f in 0:48 { B[f // 8, f % 8] = A[f // 8, f % 8] }",
    "shifted": "for i in 0:5 { for j in 0:7 { B[i, j] = A[i, j] + A[i + 1, j + 1] } }",
    "every other": "for i in 0:3 { for j in 0:4 { B[2 * i, 2 * j] = A[2 * i, 2 * j] } }",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_boxes_hold_what_is_touched(name: str) -> None:
    """With lines of one element, bytes are elements; boxes of what is touched sparsely may hold more."""
    kernel = parse_kernel(f"kernel k(A: float32[6, 8], out B: float32[6, 8]) {{ {PROGRAMS[name]} }}")
    (leaf,) = read_nests(kernel).root.below()
    touched = {t.name: t.touched[0] / 4 for t in infer_touches(leaf, line=4)}
    store = kernel.body
    loops: list[For] = []
    while isinstance(store, For):
        loops.append(store)
        store = store.body
    assert isinstance(store, Store)
    sizes = [int(loop.hi.value) for loop in loops if isinstance(loop.hi, Const)]
    points = 1
    for size in sizes:
        points *= size
    assert points <= touched["B"] <= 48
    assert touched["A"] >= touched["B"]


def test_shares_of_tests() -> None:
    text = """kernel k(A: float32[48], out B: float32[48]) {
      for i in 0:4 { for j in 0:16 { if i * 16 + j < 48 { if A[j] > 0.0 { B[i * 16 + j] = 1.0 } } } } }"""
    (leaf,) = read_nests(parse_kernel(text)).root.below()
    assert leaf.share == pytest.approx(0.375)
    assert [test.loops for test in leaf.tests] == [{"i", "j"}, {"j"}]


def test_bounds_are_taken_in_the_middle() -> None:
    text = """kernel k(A: float32[64, 64], out B: float32[64, 64]) {
      for i in 0:64 { for j in i:64 { B[i, j] = A[i, j] } } }"""
    program = read_nests(parse_kernel(text))
    assert 30 <= program.nests["j"].trips <= 34
