"""What random tests judge by is right itself: bounds are neither too narrow nor useless, false witnesses are found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from check_witness import check_witness
from error_bounds import error_bounds

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.poly.verdict import Witness

SUM = parse_kernel("kernel total(A: float32[64], out s: float32[1]) { for i in 0:64 { s[0] = s[0] + A[i] } }")


def test_any_order_of_a_sum_is_within_its_bound() -> None:
    rng = np.random.default_rng(0)
    for scale in (1.0, 1e-30, 1e30):
        terms = (rng.standard_normal(64) * scale).astype(np.float32)
        zero = np.zeros(1, np.float32)
        (limit,) = error_bounds(SUM, [terms, zero])
        found = zero.copy()
        interpret(SUM, [terms, found])
        for order in (terms[::-1], np.sort(terms), rng.permutation(terms)):
            other = np.float32(0)
            for term in order:
                other += term
            assert abs(float(other) - float(found[0])) <= limit[0]
        assert limit[0] < 1e-3 * np.abs(terms).sum()


def test_terms_that_cancel_count_with_their_size() -> None:
    terms = np.tile(np.float32([1e6, -1e6]), 32)
    (limit,) = error_bounds(SUM, [terms, np.zeros(1, np.float32)])
    assert 1 < limit[0] < 1e4


def test_unsigned_numbers_wrap() -> None:
    kernel = parse_kernel("kernel k(a: uint64, out y: float32[1]) { y[0] = float32(-a) * 0.3 }")
    (limit,) = error_bounds(kernel, [3, np.zeros(1, np.float32)])
    assert 1e11 < limit[0] < 1e14


@pytest.mark.parametrize(
    ("body", "known"),
    [
        ("y[0] = a * b < a * b ? 1.0 : 2.0", False),  # may round either way
        ("y[0] = a * b < 100.0 ? 1.0 : 2.0", True),
        ("y[0] = float32(int32(a * b))", False),  # 3.0 exactly: just below it is 2
        ("y[0] = a / (a * b - b * a)", False),
        ("y[0] = floor(a)", True),  # of an argument, not of a result
        ("y[0] = max(a, b)", True),
    ],
)
def test_decisions_near_the_edge_have_no_bound(body: str, known: bool) -> None:
    kernel = parse_kernel(f"kernel k(a: float32, b: float32, out y: float32[1]) {{ {body} }}")
    (limit,) = error_bounds(kernel, [1.5, 2.0, np.zeros(1, np.float32)])
    assert np.isfinite(limit[0]) == known


def refusal(kernel: Any, witness: Witness | None, kind: str) -> Any:
    return SimpleNamespace(kernel=kernel, witness=witness, kind=kind, step="parallel", arguments=(("i",), {}))


def test_false_witnesses_are_found() -> None:
    arrays = {"A": np.zeros(64, np.float32), "s": np.zeros(1, np.float32)}
    true = Witness({"i": 0}, {"i": 1}, "s[0]")
    assert check_witness(refusal(SUM, true, "dependence"), arrays, {})
    lies = [
        Witness({"i": 0}, {"i": 64}, "s[0]"),  # there is no such iteration
        Witness({"i": 0}, {"i": 1}, "A[0]"),  # nobody writes it, and iteration 1 does not touch it
        Witness({"i": 3}, {"i": 3}, "s[0]"),  # one iteration has no order to change
    ]
    for lie in lies:
        with pytest.raises(AssertionError):
            check_witness(refusal(SUM, lie, "dependence"), arrays, {})
    with pytest.raises(AssertionError):
        check_witness(refusal(SUM, None, "dependence"), arrays, {})
    with pytest.raises(AssertionError):
        check_witness(refusal(SUM, true, "structure"), arrays, {})
