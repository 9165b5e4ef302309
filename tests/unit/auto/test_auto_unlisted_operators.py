"""Operators nobody has a kernel for are right however they are scheduled, at odd sizes, sizes of 1, and empty."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unlisted_operators import OPERATORS

import weft

_FILE = (Path(__file__).parents[3] / "examples" / "operators" / "unusual.weft").read_text(encoding="utf-8")
TEXTS = {re.match(r"def (\w+)", t)[1]: t for t in re.findall(r"^def .*?^}$", _FILE, re.MULTILINE | re.DOTALL)}  # type: ignore[index]
#: Those whose loops wait for one another, or share much: where a polyhedral schedule differs.
WAITING = ["moving_average", "prefix_max", "edit_distance", "upper_gram", "reaction", "scatter_mean", "wavelet"]
#: Sizes that any operator should bear, one at a time: nothing, and a single element.
SMALL = {
    "tensordot3": "ABCDE",
    "gram": "NK",
    "upper_gram": "NK",
    "bag_mean": "BL",
    "alibi": "HSDE",
    "softmax_middle": "ABC",
    "lower_product": "NM",
    "quantized": "MKN",
}


def assert_right(got: Any, want: tuple[Any, ...]) -> None:
    results = got if isinstance(got, tuple) else (got,)
    assert len(results) == len(want)
    for g, w in zip(results, want):
        scale = max(1.0, float(np.abs(w).max())) if w.size else 1.0
        assert g.shape == w.shape
        np.testing.assert_allclose(np.asarray(g, np.float64), w, rtol=1e-5, atol=2e-5 * scale)


def test_every_operator_has_arguments_and_a_reference() -> None:
    assert TEXTS.keys() == OPERATORS.keys()


@pytest.mark.parametrize("name", TEXTS)
def test_scheduled_by_the_model(name: str) -> None:
    args = OPERATORS[name].make()
    op = weft.define(TEXTS[name], name=name)
    assert_right(op(*args), OPERATORS[name].right(args))
    assert "expected:" in op.explain(*args)


@pytest.mark.parametrize("name", list(TEXTS)[::2])
def test_under_strict_numerics_the_order_of_the_definition_is_kept(name: str) -> None:
    args = OPERATORS[name].make(seed=1)
    strict, plain = (weft.define(TEXTS[name], numerics="strict", schedule=how)(*args) for how in ("auto", "naive"))
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (strict, plain))):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", WAITING)
def test_scheduled_by_isl(name: str) -> None:
    args = OPERATORS[name].make(seed=2)
    assert_right(weft.define(TEXTS[name], schedule="polyhedral")(*args), OPERATORS[name].right(args))


@pytest.mark.parametrize(("name", "sizes"), SMALL.items())
def test_sizes_of_one_and_none(name: str, sizes: str) -> None:
    op = weft.define(TEXTS[name])
    for size in sizes:
        args = OPERATORS[name].make(seed=3, **{size: 1})
        assert_right(op(*args), OPERATORS[name].right(args))
        op(*OPERATORS[name].make(**{size: 0}))


def test_one_compilation_for_all_sizes() -> None:
    op, case = weft.define(TEXTS["conv_edge"], dynamic=("W",)), OPERATORS["conv_edge"]
    for width in (1, 5, 33):
        args = case.make(seed=width, W=width)
        assert_right(op(*args), case.right(args))


def test_constants_are_given_once() -> None:
    case = OPERATORS["locally_connected"]
    image, kernel = args = case.make()
    assert_right(weft.define(TEXTS["locally_connected"]).bind(K=kernel)(image), case.right(args))
