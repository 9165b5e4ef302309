"""One definition calling another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.ir.errors import Error, ShapeError
from weft.lang.parse import parse_programs
from weft.tensor.evaluate import evaluate

Array = np.ndarray[Any, Any]
LAYER = "def layer(float(M,K) X, float(N,K) W) -> (O) { T(m,n) +=! X(m,k) * W(n,k)  O(m,n) = max(T(m,n), 0) }\n"


def main(text: str, *args: Any) -> tuple[Array, ...]:
    return evaluate(list(parse_programs(text).values())[-1], args)


def test_a_chain() -> None:
    text = LAYER + "def two(float(B,I) X, float(H,I) W1, float(P,H) W2) -> (Y) { A = layer(X, W1)  Y = layer(A, W2) }"
    x, w1, w2 = (np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in ((3, 5), (4, 5), (2, 4)))
    (y,) = main(text, x, w1, w2)
    np.testing.assert_allclose(y, np.maximum(np.maximum(x @ w1.T, 0) @ w2.T, 0), rtol=1e-5, atol=1e-6)


def test_temporaries_get_names_of_their_own() -> None:
    text = LAYER + "def two(float(B,B) X) -> (Y) { T(i,j) = X(j,i)  A = layer(X, T)  Y = layer(A, T) }"
    program = parse_programs(text)["two"]
    assert [t.name for t in program.temporaries] == ["T", "layer_T", "A", "layer_T_2"]


def test_a_call_is_the_same_as_writing_it_out() -> None:
    called = LAYER + "def f(float(M,K) X, float(N,K) W) -> (O) { O = layer(X, W) }"
    written = (
        "def f(float(M,K) X, float(N,K) W) -> (O) { layer_T(m,n) +=! X(m,k) * W(n,k)  O(m,n) = max(layer_T(m,n), 0) }"
    )
    assert parse_programs(called)["f"] == parse_programs(written)["f"]


def test_several_results_and_scalars() -> None:
    text = """
    def affine(float(N) x, float a, float b, int k) -> (y, z) { y(i) = a * x(i) + b  z(i) = x(i + k) }
    def f(float(N) v, float c) -> (p, q) { (p, q) = affine(v, c * 2, 0.5, 1 + 1) }"""
    v = np.arange(6, dtype=np.float32)
    p, q = main(text, v, 3.0)
    np.testing.assert_array_equal(p, v * 6 + 0.5)
    np.testing.assert_array_equal(q, v[2:])


def test_a_size_as_argument() -> None:
    text = """
    def first(float(N) x, int k) -> (y) { y(i) = x(i) where i in 0:k }
    def f(float(N) a, float(M) b) -> (c) { c = first(a, M) }"""
    (c,) = main(text, np.arange(6, dtype=np.float32), np.zeros(4, np.float32))
    np.testing.assert_array_equal(c, np.arange(4))


def test_index_variables_step_aside_for_sizes_of_the_caller() -> None:
    text = """
    def rows(float(A,B) x) -> (y) { y(M) +=! x(M,N) }
    def f(float(M,N) a) -> (b) { b = rows(a) }"""
    (b,) = main(text, np.ones((2, 3), np.float32))
    np.testing.assert_array_equal(b, [3, 3])


def test_callees_after_their_callers_and_nested() -> None:
    text = """
    def f(float(N) a) -> (b) { b = g(a) }
    def g(float(N) a) -> (b) { t = h(a)  b(i) = t(i) + 1 }
    def h(float(N) a) -> (b) { b(i) = a(i) * 2 }"""
    (b,) = evaluate(parse_programs(text)["f"], [np.arange(3, dtype=np.float32)])
    np.testing.assert_array_equal(b, [1, 3, 5])


def test_sizes_must_agree_at_the_call() -> None:
    text = """
    def add(float(N) x, float(N) y) -> (z) { z(i) = x(i) + y(i) }
    def f(float(M) a, float(K) b) -> (c) { c = add(a, b) }"""
    program = parse_programs(text)["f"]
    assert len(program.requirements) == 1
    with pytest.raises(ShapeError, match="dimension 0 of `b`, passed as `y`, must agree with its other uses"):
        evaluate(program, [np.zeros(3, np.float32), np.zeros(4, np.float32)])


def test_stated_output_types_reach_the_caller() -> None:
    text = """
    def put(float(E) x, int(E) i, int n) -> (float(n) y) { y(i(e)) +=! x(e) }
    def f(float(E) a, int(E) j) -> (b) { b = put(a, j, 4) }"""
    (b,) = main(text, np.ones(3, np.float32), np.array([1, 1, 3], np.int32))
    np.testing.assert_array_equal(b, [0, 2, 0, 1])


def test_a_definition_named_like_a_builtin() -> None:
    text = """
    def tanh(float(N) X) -> (O) { O(i) = tanh(X(i)) }
    def f(float(N) X) -> (O) { T = tanh(X)  O(i) = T(i) + exp(X(i)) }"""
    (o,) = main(text, np.zeros(2, np.float32))
    np.testing.assert_array_equal(o, [1, 1])


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("b = g(a, a)", "`g` takes 1 argument, not 2"),
        ("(b, c) = g(a)", "`g` gives 1 result, not 2"),
        ("b(i) = g(a)", "the result of `g` is a whole tensor"),
        ("b += g(a)", "the result of `g` is a whole tensor"),
        ("b(i) = a(i) + g(a)", "definition `g` is called inside an expression"),
        ("b = g(a(i))", "`x` takes a whole tensor"),
        ("t(i) = int(a(i)) b = g(t)", "`t` does not fit parameter `x`"),
        ("b = f(a)", "`f` calls itself"),
        ("b(i) = a(i) b = g(a)", "`b` cannot receive a result of `g`"),
        ("t(i) = a(i) t = g(t) b = g(t)", "`t` cannot receive a result of `g`"),
        ("a = g(a)", "`a` cannot receive a result of `g`"),
        ("b = g(a) where i in 0:N", "a call takes no `where`"),
        ("b = h(a, i)", "unknown name `i` in an argument of a call"),
        ("b = h(a, 1.5)", "`k` is int32, the argument is float32"),
        ("(b, c) = k(a)", "several results, but no definition is called"),
    ],
)
def test_calls_that_make_no_sense(body: str, what: str) -> None:
    text = (
        "def g(float(N) x) -> (y) { y(i) = x(i) }\ndef h(float(N) x, int k) -> (y) { y(i) = x(i) * k }\n"
        f"def f(float(N) a) -> (b) {{ {body} }}"
    )
    with pytest.raises(Error) as caught:
        parse_programs(text)
    assert caught.value.what == what
    assert caught.value.span is not None


def test_calls_that_double_are_stopped() -> None:
    text = "def d0(float(N) x) -> (y) { y(i) = x(i) }\n"
    for k in range(1, 15):
        text += f"def d{k}(float(N) x) -> (y) {{ t = d{k - 1}(x)  y = d{k - 1}(t) }}\n"
    with pytest.raises(Error, match="more than 1000 statements"):
        parse_programs(text)


def test_index_variables_that_step_aside_do_not_meet_another() -> None:
    text = """
    def rows(float(A,B) x) -> (y) { y(M) +=! x(M,M_) }
    def f(float(M,N) a) -> (b) { b = rows(a) }"""
    (b,) = main(text, np.ones((2, 3), np.float32))
    np.testing.assert_array_equal(b, [3, 3])
