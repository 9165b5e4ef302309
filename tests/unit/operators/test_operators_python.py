"""Operators from the Python builders: the same programs as text, mistakes told at the user's line."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.ir.errors import Error

M, N, K = weft.sizes("M N K")
A, B = weft.placeholder("A", (M, K)), weft.placeholder("B", (K, N))
k = weft.reduce_axis(K, "k")
C = weft.compute((M, N), lambda m, n: weft.sum(A[m, k] * B[k, n], over=k), name="C")


def product() -> weft.Operator:
    return weft.operator([A, B], [C], name="mm")


def test_the_same_program_as_its_text() -> None:
    text = "def mm(float(M,K) A, float(K,N) B) -> (float(M,N) C) { C(m,n) +=! A(m,k) * B(k,n) where k in 0:K }"
    made, written = product(), weft.define(text)
    assert str(made.interface) == str(written.interface)
    a = np.random.default_rng(0).random((5, 7), np.float32)
    b = np.random.default_rng(1).random((7, 4), np.float32)
    for stage in ("tensor", "loops", "llvm"):
        assert made.show(stage, a, b) == written.show(stage, a, b)
    np.testing.assert_array_equal(made(a, b), written(a, b))


def test_its_source_is_a_text_that_defines_it() -> None:
    made = product()
    again = weft.define(made.source)
    a = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(again(a, a.T), made(a, a.T))


def test_numbers_of_numpy_on_either_side() -> None:
    scaled = weft.compute((M, K), lambda i, j: np.float32(2) * A[i, j] + np.float64(1), name="S")
    a = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(weft.operator([A], [scaled])(a), a * 2 + 1)


def deep(m: Any) -> Any:
    e = A[m, 0]
    for _ in range(3000):
        e = e + 1
    return e


#: name -> (mistake, what the message says first, what stands under the caret)
MISTAKES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "inputs": (lambda: weft.operator(A, [C]), "the inputs of an operator are a list, not a Tensor", ""),
    "outputs": (lambda: weft.operator([A, B], C), "the outputs of an operator are a list, not a Tensor", ""),
    "not listed": (lambda: weft.operator([A], [C]), "tensor `B` is used but is not an input", "B[k, n]"),
    "output": (
        lambda: weft.operator([A], [A]),
        "outputs are tensors made with weft.compute",
        "weft.operator([A], [A])",
    ),
    "rank": (lambda: A[0], "`A` has 2 dimensions, but 1 index is given", "A[0]"),
    "float index": (lambda: A[0.5, 0], "a subscript of `A` is float32, not an integer", "A[0.5, 0]"),
    "slice": (lambda: A[0:2, 0], "cannot compute with a slice", "A[0:2, 0]"),
    "array": (lambda: A[0, 0] + np.ones(3), "cannot compute with a ndarray", "A[0, 0] + np.ones(3)"),
    "array on the left": (lambda: np.ones(3) + A[0, 0], "cannot compute with a ndarray", "np.ones(3) + A[0, 0]"),
    "truth": (
        lambda: 1 if A[0, 0] > 0 else 0,
        "an expression has no truth value while the program is being written",
        "A[0, 0] > 0",
    ),
    "sizes": (lambda: weft.sizes(3), "sizes takes their names in one text", "weft.sizes(3)"),
    "size": (lambda: weft.size("1M"), "`1M` is not a name", 'weft.size("1M")'),
    "negative": (lambda: weft.placeholder("X", (-1,)), "a size of `X` is -1", 'weft.placeholder("X", (-1,))'),
    "type": (
        lambda: weft.placeholder("X", (M,), "complex64"),
        "unknown element type `complex64`",
        'weft.placeholder("X", (M,), "complex64")',
    ),
    "nothing": (lambda: weft.compute((M,), lambda m: None), "cannot compute with a NoneType", ""),
    "depth": (
        lambda: weft.operator([A], [weft.compute((M,), deep)]),
        "expression is nested too deeply",
        "weft.operator([A], [weft.compute((M,), deep)])",
    ),
    "outside": (
        lambda: weft.operator([A], [weft.compute((M, K), lambda m, n: A[m + 1, n], name="Y")]),
        "`A(m+1, n)` reads outside `A`",
        "A[m + 1, n]",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_where_it_was_made(name: str) -> None:
    wrong, what, marked = MISTAKES[name]
    with pytest.raises(Error) as caught:
        wrong()
    assert caught.value.what == what
    if not marked:
        return
    span = caught.value.span
    assert span is not None
    assert span.source.name == "test_operators_python.py"
    line = span.source.line(span.line)
    assert marked in line
    if hasattr(wrong.__code__, "co_positions"):  # from Python 3.11 on, columns are known
        assert line[span.column - 1 : span.end - 1] == marked


def test_a_wrong_call_points_at_the_placeholder() -> None:
    with pytest.raises(weft.ShapeError) as caught:
        product()(np.ones((2, 3), np.float32), np.ones((4, 2), np.float32))
    assert caught.value.what == "dimension 0 of B must be 3, got 4"
    assert caught.value.span is not None
    assert 'weft.placeholder("B", (K, N))' in caught.value.span.source.line(caught.value.span.line)


def test_ufuncs_of_numpy_name_what_they_cannot_take() -> None:
    with pytest.raises(TypeError, match="operand 'Value' does not support ufuncs"):
        np.exp(A[0, 0])


def test_operators_are_copied_and_pickled_by_their_definition() -> None:
    a = np.ones((2, 3), np.float32)
    several = weft.define("def f(float(N) X) -> (Y) { Y(i) = X(i) }\ndef g(float(N) X) -> (Y) { Y(i) = 2 * X(i) }")
    for op, arguments in ((product(), (a, a.T)), (several.defs["f"], (a[0],)), (several.defs["g"], (a[0],))):
        expected = op(*arguments)
        op(*arguments)
        for copied in (copy.copy(op), copy.deepcopy(op), pickle.loads(pickle.dumps(op))):
            assert str(copied.interface) == str(op.interface)
            np.testing.assert_array_equal(copied(*arguments), expected)
