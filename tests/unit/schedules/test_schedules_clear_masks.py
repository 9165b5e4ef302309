"""``clear_masks``, and masks that ``online`` leaves iterations out for, written in many ways."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from test_schedules_online import SOFTMAX, given, in_tiles, make, run

from weft.ir.errors import ScheduleError
from weft.ir.printer import print_kernel
from weft.lang.parse import parse_programs
from weft.tensor.evaluate import evaluate

ROWS, STEPS = 9, 12
ATOMS = ["m >= n", "n <= m + 2", "m - n < 4", "n >= m - 3", "n < 7", "min(m, 5) >= n", "n <= max(m, 2)", "m < 5",
         "n * 2 <= m + 6", "n >= 3", "n != 4", "m + n < 11"]  # fmt: skip
CONSTANTS = ["-1e999", "-1e30", "-1e9", "-3e38", "-40.0"]


def condition(rng: random.Random, depth: int = 2) -> str:
    if depth == 0 or rng.random() < 0.4:
        return rng.choice(ATOMS)
    if rng.random() < 0.25:
        return f"!({condition(rng, depth - 1)})"
    return f"({condition(rng, depth - 1)} {rng.choice(['&&', '||'])} {condition(rng, depth - 1)})"


def formula(rng: random.Random) -> str:
    """Of an element ``X(m,n)``: masked in one of the ways people write that."""
    c, k, x = condition(rng), rng.choice(CONSTANTS), "X(m,n)"
    return rng.choice(
        [
            f"({c} ? {x} : {k})",
            f"({c} ? {k} : {x})",
            f"({x} + ({c} ? 0.0 : {k}))",
            f"(({c} ? {k} : 0.0) + {x} * 0.5)",
            f"({c} ? {x} : {k}) * 0.5",
            f"({c} ? ({condition(rng)} ? {x} : {k}) : {k})",
            f"({c} ? ({condition(rng)} ? {k} : {x} * 2.0) : {rng.choice(CONSTANTS)})",
            f"({x} + ({c} ? 0.0 : {k}) + ({condition(rng)} ? 0.0 : {k}))",
        ]
    )


@pytest.mark.parametrize("seed", range(30))
def test_masks_written_in_many_ways(seed: int) -> None:
    rng = random.Random(seed)
    text = SOFTMAX.replace("X(m,n)", formula(rng))
    args = given(ROWS, STEPS)
    s = make(text, args)
    s.compute_inline("W")
    with suppress(ScheduleError):
        s.clear_masks("A")
    s.online(*in_tiles(s, "ASU", 4, rng.choice([2, 4])))
    with np.errstate(invalid="ignore"):
        for got, want in zip(run(s, args), evaluate(parse_programs(text)["f"], args)):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=text)


def cleared(value: str, numerics: Any = "fast", text: str = SOFTMAX) -> str:
    s = make(text.replace("X(m,n)", value), given(ROWS, STEPS), numerics)
    s.compute_inline("W")
    s.clear_masks("A")
    s.online(*in_tiles(s, "ASU", 4, 4))
    return print_kernel(s.kernel)


@pytest.mark.parametrize(
    "value",
    [
        "(m >= n ? X(m,n) : -1e9)",
        "(n > m ? -1e30 : X(m,n))",
        "(X(m,n) + (n <= m ? 0.0 : -1e999))",
        "(n > m || m - n >= 20 ? -1e9 : X(m,n) * 0.5)",
        "(X(m,n) + (n > m ? -1e10 : 0.0)) * 0.125",
    ],
)
def test_iterations_are_left_out(value: str) -> None:
    assert "for n_o in 0:m_o + 1" in cleared(value) or "for n_o in 0:min" in cleared(value)


@pytest.mark.parametrize(
    ("value", "numerics", "why"),
    [
        ("(m >= n + 1 ? X(m,n) : -1e9)", "fast", "is not proved that an element"),
        ("(m >= n ? X(m,n) : -1e4)", "fast", "finds no extremum of elements"),
        ("(m >= n ? X(m,n) : -1e999)", "fast", "finds no extremum of elements"),
        ("(m >= n ? X(m,n) : -1e9)", "strict", "are taken to be beyond"),
        ("(X(m,n) + (n <= m ? 0.0 : -1e9)) * 1e-6", "fast", "finds no extremum of elements"),
    ],
)
def test_masks_that_stay(value: str, numerics: Any, why: str) -> None:
    with pytest.raises(ScheduleError, match=why):
        cleared(value, numerics)
