"""What Weft schedules by itself is the normal form: traces say so and begin there again; hands get what was written."""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft

DIGITS = """def f(float(M,K) A, float(K,N) B) -> (C) {
    D(n,k) = B(k,n)
    T(m,n) = 0.0 where m in 0:M, n in 0:N
    T(m,n) += A(m,k*8+r) * 0.5 * D(n,k*8+r) where k in 0:K/8, r in 0:8
    C(m,n) = T(m,n) }"""
PLAIN = "def f(float(M,K) A, float(K,N) B) -> (C) { T(m,n) +=! A(m,k) * B(k,n)\n C(m,n) = T(m,n) * 0.5 }"


def arguments():
    rng = np.random.default_rng(0)
    return rng.standard_normal((9, 16)).astype(np.float32), rng.standard_normal((16, 7)).astype(np.float32)


def test_spellings_are_one_loop_program():
    a, b = arguments()
    digits, plain = (weft.define(text).schedule(a, b) for text in (DIGITS, PLAIN))
    assert [str(block) for block in digits.blocks()] == [str(block) for block in plain.blocks()]
    steps = [[step.name for step in s.trace] for s in (digits, plain)]
    assert steps[0] == steps[1]


def test_a_trace_of_what_weft_chose_begins_with_the_normal_form():
    a, b = arguments()
    op = weft.define(DIGITS)
    trace = op.schedule(a, b).trace
    assert str(trace).splitlines()[:2] == ['numerics = "fast"', 'form = "normal"']
    again = weft.define(DIGITS, schedule=str(trace))
    np.testing.assert_array_equal(again(a, b), op(a, b))
    np.testing.assert_allclose(op(a, b), 0.5 * a @ b, rtol=1e-5)
    assert again.show("loops", a, b) == op.show("loops", a, b)
    by_hand = weft.schedule(op, a, b, numerics="fast")
    assert "D" in [str(block) for block in by_hand.blocks()]
    by_hand.apply(trace)
    assert by_hand.trace == trace
    np.testing.assert_array_equal(by_hand.build()(a, b), op(a, b))


def test_a_program_in_normal_form_leaves_no_mark():
    a, b = arguments()
    assert 'form = "normal"' not in str(weft.define(PLAIN).schedule(a, b).trace)


def test_strict_numerics_keep_the_order_of_the_definition():
    a, b = arguments()
    plain = weft.define("def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }", numerics="strict")
    other = weft.define(DIGITS.replace("* 0.5 ", ""), numerics="strict")
    assert np.asarray(plain(a, b)).tobytes() == np.asarray(other(a, b)).tobytes()


def test_tests_of_lookups_keep_their_words():
    op = weft.define("def f(float(N) X, int(M) I) -> (O) { D(i) = X(I(i))\n O(j) = D(M-1-j) where j in 0:M }")
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(op(x, np.array([0, 3, 1], np.int32)), [1, 3, 0])
    with pytest.raises(weft.Error, match=re.escape("in `D(i) = X(I(i))`: I[1] = 9, but X has 4 elements")):
        op(x, np.array([0, 9, 1], np.int32))
