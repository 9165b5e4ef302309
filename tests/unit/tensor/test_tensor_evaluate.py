from __future__ import annotations

import numpy as np
import pytest
from tensor_oracles import all_ways, program_of

from weft.ir.errors import ArgumentError, ShapeError
from weft.tensor import evaluate as evaluate_module
from weft.tensor.evaluate import evaluate

rng = np.random.default_rng(11)
SOFTMAX = """
def softmax(float(N,D) I) -> (O) {
    mx(n) max=! I(n,d)
    E(n,d) = exp(I(n,d) - mx(n))
    sm(n) +=! E(n,d)
    O(n,d) = E(n,d) / sm(n)
}"""


def floats(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def test_softmax():
    x = floats(4, 9)
    e = np.exp(x - x.max(1, keepdims=True))
    (result,) = all_ways(SOFTMAX, [x])
    np.testing.assert_allclose(result, e / e.sum(1, keepdims=True), rtol=1e-6)


def test_wide_computes_in_float64():
    x = floats(3, 50)
    (wide,) = evaluate(program_of(SOFTMAX), [x], wide=True)
    exact = np.exp(x.astype(float) - x.max(1, keepdims=True).astype(float))
    assert wide.dtype == np.float64
    np.testing.assert_allclose(wide, exact / exact.sum(1, keepdims=True), rtol=1e-14)


def test_wide_keeps_the_value_a_literal_has_in_its_type():
    program = program_of("def f(half(N) A) -> (O) { O(i) = A(i) * 0.1 }")
    (wide,) = evaluate(program, [np.ones(1, np.float16)], wide=True)
    assert wide[0] == float(np.float16(0.1))


@pytest.mark.parametrize("points", [1, 7, 64])
def test_chunks_do_not_change_the_result(monkeypatch, points):
    a, b = floats(5, 6), floats(6, 4)
    rows = np.array([0, 2, 1, 2, 0], np.int32)
    monkeypatch.setattr(evaluate_module, "CHUNK_POINTS", points)
    mm = program_of("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k)*B(k,n) }")
    np.testing.assert_allclose(evaluate(mm, [a, b])[0], a @ b, rtol=1e-5)
    last = program_of("def s(float(N,D) X, int(N) I) -> (float(3,D) O) { O(I(n),d) = X(n,d) }")
    np.testing.assert_array_equal(evaluate(last, [a, rows])[0], a[[4, 2, 3]])
    tri = program_of("def t(float(N,M) X) -> (Y) { Y(i) +=! X(i,j) where j in 0:i+1 }")
    np.testing.assert_allclose(evaluate(tri, [a])[0], np.tril(a).sum(1), rtol=1e-5)


def test_arguments_are_not_written_to():
    start = np.ones(3, np.float32)
    program = program_of("def f(float(N) A) -> (O) { O(i) += A(i) }")
    (result,) = evaluate(program, [np.ones(3, np.float32)], out={"O": start})
    assert result.tolist() == [2, 2, 2]
    assert start.tolist() == [1, 1, 1]


def test_unchosen_reads_are_not_made():
    text = "def f(float(N) A, int(N) I) -> (O) { O(i) = I(i) >= 0 && A(I(i)) > 0.0 ? A(I(i)) : -1.0 }"
    (result,) = all_ways(text, [np.array([5, -5, 7], np.float32), np.array([2, -9, 1], np.int32)])
    assert result.tolist() == [7, -1, -1]


def test_index_out_of_range():
    program = program_of("def f(float(N) A, int(M) I) -> (O) { O(i) = A(I(i)) }")
    with pytest.raises(ShapeError) as caught:
        evaluate(program, [floats(3), np.array([0, 3], np.int32)])
    assert str(caught.value) == (
        "error: A index out of range\n"
        "  <test>:1        def f(float(N) A, int(M) I) -> (O) { O(i) = A(I(i)) }\n"
        "                                                              ^^^^^^^\n"
        "  why:   A(I(i)) has subscript 3 in dimension 0 of size 3 at (i=1)"
    )


def test_reads_of_an_empty_tensor_that_never_happen():
    text = (
        "def f(float(N) A, float(M) B) -> (O) { O(i) = A(i) + (i < N-5 ? B(0) : 0.0) where i in 0:N, B outside zero }"
    )
    (result,) = all_ways(text, [np.ones(3, np.float32), floats(0)])
    assert result.tolist() == [1, 1, 1]


def test_output_read_before_written_must_be_given():
    program = program_of("def f(float(N) A) -> (O) { O(i) = O(i) + A(i) }")
    with pytest.raises(ArgumentError, match="O is read before it is written"):
        evaluate(program, [floats(3)])
    (result,) = all_ways(program, [np.ones(3, np.float32)], O=np.arange(3, dtype=np.float32))
    assert result.tolist() == [1, 2, 3]


def test_argument_count():
    with pytest.raises(ArgumentError, match="takes 1 arguments, got 2"):
        evaluate(program_of(SOFTMAX), [floats(2, 2), floats(2, 2)])


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("truncdiv(A(i), B(i))", [-3, 3, 0, -128, 0, 2]),
        ("truncmod(A(i), B(i))", [-1, -1, 0, 0, -1, 1]),
        ("A(i) / B(i)", [-4, 3, 0, -128, -1, 2]),
        ("A(i) % B(i)", [1, -1, 0, 0, 2, 1]),
    ],
)
def test_integer_division_has_one_meaning_everywhere(op, expected):
    a = np.array([-7, -7, 5, -128, -1, 5], np.int8)
    b = np.array([2, -2, 0, -1, 3, 2], np.int8)
    (result,) = all_ways(f"def f(int8(N) A, int8(N) B) -> (O) {{ O(i) = {op} }}", [a, b])
    assert result.tolist() == expected


def test_shifts_beyond_the_width():
    a, b = np.array([-8, -8, 3, 3], np.int32), np.array([40, -1, 31, 1], np.int32)
    text = "def f(int(N) A, int(N) B) -> (L, R) { L(i) = shift_left(A(i), B(i))\n R(i) = shift_right(A(i), B(i)) }"
    left, right = all_ways(text, [a, b])
    assert left.tolist() == [0, 0, -(2**31), 6]
    assert right.tolist() == [-1, -1, 0, 1]


def test_float_to_integer_saturates_and_nan_is_zero():
    a = np.array([np.nan, np.inf, -1e30, 3.9, -3.9], np.float32)
    (result,) = all_ways("def f(float(N) A) -> (O) { O(i) = int8(A(i)) }", [a])
    assert result.tolist() == [0, 127, -128, 3, -3]


def test_maximum_propagates_nan_and_fmax_does_not():
    a = np.array([[1, np.nan], [2, 3]], np.float32)
    (result,) = all_ways("def f(float(N,M) A) -> (O) { O(i) max=! A(i,j) }", [a])
    assert np.isnan(result[0])
    assert result[1] == 3
    (result,) = all_ways("def f(float(N,M) A) -> (O) { O(i) = fmax(A(i,0), A(i,1)) }", [a])
    assert result.tolist() == [1, 3]


def test_narrow_operations_round_one_by_one():
    x = np.array([1 + 2**-10], np.float16)
    (result,) = all_ways("def f(half(N) X) -> (O) { O(i) = X(i)*X(i) - 1.0 }", [x])
    assert result[0] == np.float16(np.float16(np.float32(x[0]) ** 2) - np.float16(1))


def test_wrapping_sum():
    a = np.full((1, 3), 100, np.int8)
    (result,) = all_ways("def f(int8(N,M) A) -> (O) { O(i) +=! A(i,j) }", [a])
    assert result.dtype == np.int8
    assert result.tolist() == [44]


def test_recurrence_over_one_axis_is_vectorized_over_the_others():
    x = floats(200, 300)
    text = (
        "def s(float(N,D) X) -> (Y) { Y(i,j) = X(i,j) where i in 0:1\n Y(i,j) = Y(i-1,j)*0.5 + X(i,j) where i in 1:N }"
    )
    (result,) = evaluate(program_of(text), [x])
    expected = x.copy()
    for i in range(1, 200):
        expected[i] = expected[i - 1] * np.float32(0.5) + x[i]
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("mode", "pad"),
    [
        ("zero", {"mode": "constant"}),
        ("edge", {"mode": "edge"}),
        ("wrap", {"mode": "wrap"}),
        ("reflect", {"mode": "reflect"}),
        ("2.5", {"mode": "constant", "constant_values": 2.5}),
    ],
)
def test_boundary_modes_are_those_of_numpy_pad(mode, pad):
    a = floats(6)
    text = f"def b(float(N) A) -> (float(N+8) O) {{ O(i) = A(i-4) where i in 0:N+8, A outside {mode} }}"
    (result,) = all_ways(text, [a])
    np.testing.assert_array_equal(result, np.pad(a, 4, **pad))
