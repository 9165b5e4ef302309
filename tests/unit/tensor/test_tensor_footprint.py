"""How many elements a program touches: dimension by dimension where it can be told so."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import weft.tensor.footprint as footprint
from weft.ir.buffer import Buffer
from weft.lang.parse import parse_programs
from weft.tensor.footprint import count_touched
from weft.tensor.specialize import specialize

WINDOW = "def f(float(H,W) A) -> (float(H,W) O) { O(h,w) max=! A(INDEX) where y in 0:3, x in 0:3, h in 0:H, w in 0:W }"


def touched(text: str, sizes: Mapping[str, int]) -> int:
    (program,) = parse_programs(text, "<test>").values()
    made = specialize(program, sizes)
    (read,) = (p for p in made.params if isinstance(p, Buffer) and p.name == "A")
    return count_touched(made, read, writes=False)


@pytest.mark.parametrize(
    ("index", "expected"),
    [("(h+y) % H, (w+x) % W", 30), ("min(h+y, H-1), min(w+x+2, W-1)", 20), ("max(h-y-2, 0), (w+x-x)/2", 9)],
)
def test_subscripts_of_every_kind(index: str, expected: int) -> None:
    assert touched(WINDOW.replace("INDEX", index), {"H": 5, "W": 6}) == expected


def test_axes_that_two_dimensions_use_are_marked_point_by_point() -> None:
    text = "def f(float(N,N) A) -> (O) { O(h,w) = A(min(h,w), max(h,w) % N) where h in 0:N, w in 0:N }"
    assert touched(text, {"N": 6}) == 21


def test_dimensions_on_their_own_take_no_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "MARK_LIMIT", 10_000)
    assert touched(WINDOW.replace("INDEX", "(h+y) % H, min(w+x, W-1)"), {"H": 700, "W": 900}) == 630_000
    triangle = "def f(float(N,K) A) -> (float(N,N) O) { O(i,j) +=! A(j,k) where i in 3:N, j in i:N }"
    assert touched(triangle, {"N": 90, "K": 100}) == 8_700
