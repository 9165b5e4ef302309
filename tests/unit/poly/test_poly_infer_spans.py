"""Bounds of subscripts in terms of outer loops, against every value they take."""

from __future__ import annotations

import random

import pytest

from weft.ir.expr import Binary, Compare, Expr, Select, Var, idx
from weft.ir.interval import Interval
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_expr
from weft.ir.simplify import simplify
from weft.ir.stmt import For
from weft.ir.visit import substitute
from weft.poly.infer_spans import infer_spans, is_at_most, upper_bound

FIRST, SECOND = Var("i"), Var("j")
RANGES = {"i": Interval(0, 5), "j": Interval(-3, 4)}


def test_spans_of_a_stencil() -> None:
    kernel = parse_kernel("""kernel k(t: float32[32, 64], out b: float32[30, 62]) {
      for y in 0:30 { for x in 0:62 { b[y, x] = t[y, x] + t[y + 2, x + 1] } }
    }""")
    outer = kernel.body
    assert isinstance(outer, For)
    t = kernel.buffers[0]
    for fixed, expected in ((1, [("y", "y + 2"), ("0", "62")]), (0, [("0", "31"), ("0", "62")])):
        spans = infer_spans(kernel, t, outer, fixed)
        assert spans is not None
        assert [(print_expr(lo), print_expr(hi)) for lo, hi in spans] == expected


def test_a_gather_spans_its_dimension() -> None:
    kernel = parse_kernel("""kernel k(t: float32[32], j: int32[8], out b: float32[8]) {
      for y in 0:8 { b[y] = t[int64(j[y])] }
    }""")
    spans = infer_spans(kernel, kernel.buffers[0], None, 1)
    assert spans == ((idx(0), idx(31)),)


def random_index(rng: random.Random, depth: int) -> Expr:
    if depth == 0:
        return rng.choice([FIRST, SECOND, idx(rng.randint(-4, 4))])
    a, b = random_index(rng, depth - 1), random_index(rng, depth - 1)
    kind = rng.randrange(6)
    if kind < 2:
        return Binary(rng.choice(["+", "-"]), a, b)
    if kind == 2:
        return a * idx(rng.randint(-2, 2))
    if kind == 3:
        return Binary(rng.choice(["//", "%"]), a, idx(rng.randint(1, 4)))
    if kind == 4:
        return Binary(rng.choice(["min", "max"]), a, b)
    return Select(Compare(rng.choice(["<", ">", "=="]), a, b), a, b)


def values(e: Expr) -> list[int]:
    points = [(i, j) for i in range(6) for j in range(-3, 5)]
    found = [simplify(substitute(e, {FIRST: idx(i), SECOND: idx(j)})) for i, j in points]
    return [int(v.value) for v in found]  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(60))
def test_bounds_hold(seed: int, first_seed: int) -> None:
    rng = random.Random(first_seed + seed)
    a, b = random_index(rng, 3), random_index(rng, 3)
    most = upper_bound(a, RANGES)
    assert most is not None
    assert max(values(a)) <= most
    if is_at_most(a, b, RANGES):
        assert all(x <= y for x, y in zip(values(a), values(b)))


def test_the_end_of_a_last_tile_is_no_further_than_that_of_others() -> None:
    """Rounded up to vectors, the last tile is still within the length of a tile."""
    tile = Binary("min", FIRST * idx(128) + idx(128), idx(700))
    end = Binary("*", Binary("//", tile + idx(63), idx(64)), idx(64))
    assert upper_bound(end - FIRST * idx(128), RANGES) == 128
