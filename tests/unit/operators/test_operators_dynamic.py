"""Sizes that one compilation serves all values of, and the table of what is compiled."""

from __future__ import annotations

import numpy as np
import pytest

import weft

TEXT = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("schedule", ["naive", "auto"])
def test_one_compilation_serves_all_sizes(schedule: str) -> None:
    op = weft.define(TEXT, dynamic=("M", "N"), schedule=schedule)
    for m, n in [(1, 1), (5, 3), (16, 32), (17, 33), (0, 4), (100, 70), (5, 3)]:
        a, b = RNG.standard_normal((m, 9), np.float32), RNG.standard_normal((9, n), np.float32)
        for _ in range(3):
            np.testing.assert_allclose(op(a, b), a @ b, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(op(a, b, out=np.empty((m, n), np.float32)), a @ b, rtol=1e-4, atol=1e-5)
    assert op.guards().startswith("mm(float32(M,K) A, float32(K,N) B) -> (C): 1 compiled in this process\n")


def test_strided_arguments_get_code_of_their_own() -> None:
    op = weft.define(TEXT, dynamic="M")
    a, b = RNG.standard_normal((6, 8), np.float32)[:, ::2], RNG.standard_normal((4, 3), np.float32)
    np.testing.assert_allclose(op(a, b), a @ b, rtol=1e-5, atol=1e-6)


def test_dynamic_sizes_and_bound_arrays() -> None:
    b = RNG.standard_normal((4, 3), np.float32)
    op = weft.define(TEXT, dynamic="M").bind(B=b)
    for m in (1, 7, 7, 7, 12):
        a = RNG.standard_normal((m, 4), np.float32)
        np.testing.assert_allclose(op(a), a @ b, rtol=1e-5, atol=1e-6)
    assert op.guards() == (
        "mm(float32(M,K) A) -> (C): 1 compiled in this process\n"
        "  1. for all M; A:float32[M, 4]; B:float32[4, 3][3, 1]\n"
        "     called with M=1; M=7; M=12\n"
        "compiled anew for:\n"
        "  - other strides of an argument, or of an array passed as out=\n"
        "  - never for another M of dense arrays"
    )


def test_wrong_sizes_are_told() -> None:
    op = weft.define(TEXT, dynamic="M")
    with pytest.raises(weft.ShapeError, match="dimension 0 of B must be 4, got 5"):
        op(np.zeros((2, 4), np.float32), np.zeros((5, 3), np.float32))


def test_a_dynamic_size_that_is_not_there() -> None:
    with pytest.raises(weft.ArgumentError) as caught:
        weft.define(TEXT, dynamic=("Mx",))
    assert str(caught.value) == (
        "error: dynamic='Mx' is not a size of mm\n"
        "  why:   sizes that its parameters have are M, K, N\n"
        "  help:  did you mean `M`?"
    )


def test_guards_of_fixed_shapes() -> None:
    op = weft.define(TEXT)
    op(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32))
    assert op.guards() == (
        "mm(float32(M,K) A, float32(K,N) B) -> (C): 1 compiled in this process\n"
        "  1. A:float32[2, 3][3, 1]; B:float32[3, 4][4, 1]\n"
        "compiled anew for:\n"
        "  - another value of M, K, N\n"
        "  - other strides of an argument, or of an array passed as out="
    )


def test_the_order_of_names_does_not_matter() -> None:
    matmul = weft.define(
        "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }", dynamic=("N", "M", "K")
    )
    a, b = np.ones((4, 8), np.float32), np.ones((8, 5), np.float32)
    np.testing.assert_array_equal(matmul(a, b), a @ b)


def test_one_kernel_serves_fresh_and_given_outputs() -> None:
    op = weft.define("def double(float(M,N) A) -> (B) { B(i,j) = 2 * A(i,j) }")
    a, given = np.ones((4, 6), np.float32), np.zeros((4, 6), np.float32)
    op(a)
    assert op(a, out=given) is given
    assert (given == 2).all()
    assert "1 compiled in this process" in op.guards()
    across = np.zeros((6, 4), np.float32).T
    op(a, out=across)
    assert (across == 2).all()
    assert "2 compiled in this process" in op.guards()


def test_an_output_of_another_shape_is_refused_after_a_call_that_fits() -> None:
    op = weft.define("def double(float(M,N) A) -> (B) { B(i,j) = 2 * A(i,j) }")
    a = np.ones((4, 6), np.float32)
    op(a)
    with pytest.raises(weft.ShapeError):
        op(a, out=np.zeros((4, 7), np.float32))
