from __future__ import annotations

import numpy as np
import pytest
from tensor_oracles import all_ways, program_of

from weft.ir.dtype import float16, float32
from weft.ir.visit import walk
from weft.tensor.boundary import Outside
from weft.tensor.normalize import normalize

HALF = "def mm(half(M,K) A, half(K,N) B) -> (C) { C(m,n) +=! A(m,k)*B(k,n) }"
TEXTS = [
    HALF,
    HALF.replace("+=!", "+="),
    "def s(half(N,D) X, int(N) I) -> (half(5,D) O) { O(I(n),d) +=! X(n,d) }",
    "def b(float(N) A) -> (O) { O(i) = A(i-1) + A(i+1) where i in 0:N, A outside edge }",
    "def t(float(N,N) X) -> (float(N,N) Y) { Y(i,j) = X(i,j) where i in 0:j+1 }",
    "def o(float(N) X) -> (Y) { Y(i) +=! X(i) }",
]


@pytest.mark.parametrize("text", TEXTS)
def test_twice_is_once(text):
    once = normalize(program_of(text))
    assert normalize(once) == once


def test_boundaries_are_spelled_out():
    program = normalize(program_of(TEXTS[3]))
    assert not any(isinstance(n, Outside) for s in program.statements for n in walk(s.value))


def test_single_update_is_a_plain_assignment():
    (statement,) = normalize(program_of(TEXTS[5])).statements
    assert (statement.op, statement.initialize) == ("=", False)


def test_axes_follow_those_they_depend_on():
    (statement,) = normalize(program_of(TEXTS[4])).statements
    assert [a.var.name for a in statement.axes] == ["j", "i"]


def test_narrow_sum_runs_in_float32():
    program = normalize(program_of(HALF))
    assert [(t.name, t.dtype) for t in program.temporaries] == [("C_wide", float32)]
    total, rounded = program.statements
    assert (total.target.name, total.value.dtype) == ("C_wide", float32)
    assert (rounded.target.name, rounded.value.dtype) == ("C", float16)


def test_narrow_sum_keeps_small_terms_and_exact_products():
    ones = np.full((1, 4096), 1.0, np.float16)
    (total,) = all_ways(HALF, [ones, ones.T.copy()])
    assert total.item() == 4096.0  # a float16 accumulator stays at 2048
    a = np.array([[1 + 2**-10, -1]], np.float16)
    b = np.array([[1 + 2**-10], [1 + 2**-9]], np.float16)
    (difference,) = all_ways(HALF, [a, b])
    assert difference.item() == 2.0**-20  # lost where products are rounded first


def test_carried_narrow_sum_starts_from_what_was_there():
    a, b = np.ones((2, 3), np.float16), np.ones((3, 2), np.float16)
    start = np.array([[1, 2], [3, 4]], np.float16)
    (total,) = all_ways(HALF.replace("+=!", "+="), [a, b], C=start)
    assert total.tolist() == [[4, 5], [6, 7]]
    (total,) = all_ways(HALF.replace("+=!", "+="), [a, b])
    assert total.tolist() == [[3, 3], [3, 3]]


def test_narrow_scatter():
    x, where = np.ones((9, 2), np.float16), np.array([0, 0, 3, 3, 3, 1, 1, 1, 1], np.int32)
    (total,) = all_ways(TEXTS[2], [x, where])
    assert total[:, 0].tolist() == [2, 4, 0, 3, 0]


def test_second_accumulation_keeps_what_it_does_not_touch():
    text = """def f(half(N,M) A) -> (half(N) O) {
        O(i) = 5.0 where i in 0:N
        O(i) +=! A(i,j) where i in 1:N }"""
    (result,) = all_ways(text, [np.ones((3, 2), np.float16)])
    assert result.tolist() == [5, 2, 2]


def test_narrow_maximum_needs_no_wide_copy():
    assert normalize(program_of(HALF.replace("+=!", "max=!"))).temporaries == ()


def test_bfloat16_agrees_every_way():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(3)
    a = rng.standard_normal((4, 9)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((9, 3)).astype(ml_dtypes.bfloat16)
    (total,) = all_ways(HALF.replace("half", "bfloat16"), [a, b], tolerance=1e-2)
    np.testing.assert_allclose(total.astype(float), a.astype(float) @ b.astype(float), rtol=1e-2, atol=1e-2)
