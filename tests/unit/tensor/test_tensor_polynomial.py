"""The normal form of sizes and bounds: the same value, one expression for all that are equal."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ir.expr import Binary, Unary, Var, idx
from weft.tensor.find_witness import evaluate_index
from weft.tensor.polynomial import Polynomial, canonical
from weft.tensor.text import describe

M, N, K = Var("M"), Var("N"), Var("K")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (1 + N - K, "N-K+1"),
        (N - N, "0"),
        ((N + M) * 2 - M, "M+2*N"),
        (-N, "0-N"),
        (3 - N, "3-N"),
        ((N * 2 + 3) // 2, "N+1"),
        ((N * 2 + 2) // 4, "(N+1)/2"),
        ((N + 8) // 4, "N/4+2"),
        ((N * 4 + 3) % 4, "3"),
        ((N * 5 + 7) % 4, "(N+3)%4"),
        (Binary("min", N + 1, N), "N"),
        (Binary("max", Binary("max", N, M), N + 2), "max(N+2, M)"),
        (Binary("min", Binary("max", N, K), K), "K"),
        (Binary("max", Binary("min", N, K), K), "K"),
        (Binary("min", K, Binary("max", N, K + 3)), "K"),
        (Binary("max", N - 2, Binary("min", N, K) - 2), "N-2"),
        (Binary("max", Binary("min", Binary("min", M, N), K), Binary("min", K, N)), "min(K, N)"),
        (Binary("min", Binary("max", N, K + 1), K), "K"),
        (Binary("min", Binary("max", N, K), K + 2), "min(K+2, max(K, N))"),
        (Binary("tdiv", idx(-7), idx(2)), "-3"),
        (Binary("//", N, idx(0)), "0"),
        (N // N, "N/N"),
        (M * N - N * M, "0"),
    ],
    ids=lambda x: x if isinstance(x, str) else describe(x),
)
def test_normal_forms(expr, text):
    assert describe(canonical(expr)) == text


@st.composite
def expressions(draw, depth=3):
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from([M, N, K, idx(0), idx(1), idx(2), idx(-3), idx(4)]))
    op = draw(st.sampled_from(["+", "-", "*", "//", "%", "tdiv", "tmod", "min", "max", "neg"]))
    left = draw(expressions(depth=depth - 1))
    return Unary("-", left) if op == "neg" else Binary(op, left, draw(expressions(depth=depth - 1)))


@settings(max_examples=200, deadline=None)
@given(expressions(), st.integers(-6, 9), st.integers(-6, 9), st.integers(-6, 9))
def test_the_normal_form_has_the_same_value(e, m, n, k):
    point = {"M": m, "N": n, "K": k}
    assert evaluate_index(canonical(e), point) == evaluate_index(e, point)


@settings(max_examples=200, deadline=None)
@given(expressions())
def test_the_normal_form_is_its_own(e):
    once = canonical(e)
    assert canonical(once) == once
    assert Polynomial.of(once) == Polynomial.of(e)


def test_large_products_are_left_as_they_are():
    e = M + N + K + 1
    for _ in range(30):
        e = e * (M + N + K + 1)
    assert len(Polynomial.of(e).terms) < 100
    nested = M
    for _ in range(40):
        nested = (nested // 2 + 1) * (N + 1)
    assert len(Polynomial.of(nested).terms) < 100
