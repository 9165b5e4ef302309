"""Corners of Tensor Comprehensions that its own programs used."""

from __future__ import annotations

import numpy as np

import weft


def test_an_equivalent_library_call_is_accepted_and_ignored() -> None:
    op = weft.define("def f(float(X,Y) A, float(Y,Z) B) -> (O) { O(i,j) +=! A(i,k) * B(k,j) <=> mm(A(i,k), B(k,j)) }")
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(op(a, b), a @ b)


def test_a_range_of_length_one_that_nothing_uses() -> None:
    op = weft.define("def f(float(M) A) -> (C) { C(0) +=! A(r_m) where i in 0:1 }")
    np.testing.assert_array_equal(op(np.arange(4, dtype=np.float32)), [6])


def test_two_ranges_of_one_variable_hold_both() -> None:
    text = "def f(float(M,K) L, float(K,M) U) -> (LU) { LU(i,j) +=! L(i,k) * U(k,j) where k in i:M, k in 0:j+1 }"
    lower, upper = (np.random.default_rng(seed).standard_normal((5, 5)).astype(np.float32) for seed in (0, 1))
    expected = [[sum(lower[i, k] * upper[k, j] for k in range(i, j + 1)) for j in range(5)] for i in range(5)]
    np.testing.assert_allclose(weft.define(text)(lower, upper), np.array(expected, np.float32), rtol=1e-5, atol=1e-6)


def test_output_without_parentheses_and_a_scalar_result() -> None:
    op = weft.define("def f(float(N) A) -> s { s +=! A(i) }")
    assert op(np.ones(5, np.float32)) == 5
