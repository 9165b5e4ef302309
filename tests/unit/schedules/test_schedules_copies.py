"""After ``peel``, ``cut`` and separate tails several blocks have one statement: what they do to each other counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.ir.errors import ScheduleError

SHIFTED = "def f(float(W,C) I) -> (O) { O(w+c) = I(w,c) where w in 0:16, c in 0:2 }"
TURNED = "def f(float(W,C) I) -> (float(40) O) { O(w-2*c+3) = I(w,c) where w in 0:16, c in 0:2 }"
COPIES: dict[str, Callable[[Any], Any]] = {
    "peel": lambda s: s.peel("c", 1),
    "peel the last": lambda s: s.peel("c", 1, end="last"),
    "cut": lambda s: s.cut("c", 1),
    "unroll": lambda s: s.write_out("c"),
}
STEPS: dict[str, Callable[[Any], Any]] = {
    "parallel": lambda s: s.parallel("w"),
    "vectorize": lambda s: s.vectorize("w"),
    "bind": lambda s: s.bind("w", "thread"),
    "alternate": lambda s: s.alternate(s.split("w", 8)[1], "w_o"),
}


@pytest.mark.parametrize("text", [SHIFTED, TURNED], ids=["shifted", "turned"])
@pytest.mark.parametrize("copies", COPIES)
@pytest.mark.parametrize("step", STEPS)
def test_copies_of_a_statement_conflict_in_both_directions(text: str, copies: str, step: str) -> None:
    s = weft.schedule(weft.define(text), I=(16, 2))
    COPIES[copies](s)
    with pytest.raises(ScheduleError, match="both write O"):
        STEPS[step](s)


@pytest.mark.parametrize("copies", ["peel", "cut"])
def test_copies_keep_their_order_in_both_directions(copies: str) -> None:
    text = "def f(float(W,V,C) I) -> (float(12) O) { O(w-v+2*c+3) = I(w,v,c) where w in 0:4, v in 0:4, c in 0:2 }"
    s = weft.schedule(weft.define(text), I=(4, 4, 2))
    COPIES[copies](s)
    with pytest.raises(ScheduleError, match="both write O"):
        s.reorder("v", "w")
