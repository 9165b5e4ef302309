"""Numerics by name, from the least free to the freest."""

from __future__ import annotations

import pytest

import weft
from weft.ir.errors import ScheduleError
from weft.ir.numerics import NUMERICS, is_fast
from weft.schedules.trace import Trace

MATMUL = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"


def test_order() -> None:
    assert NUMERICS == ("strict", "fast", "winograd", "tf32")
    assert [is_fast(n) for n in NUMERICS] == [False, True, True, True]
    assert (Trace((), "fast") + Trace((), "tf32")).numerics == "tf32"


def test_a_trace_is_not_for_less_free_numerics() -> None:
    s = weft.schedule(weft.define(MATMUL), A=(8, 8), B=(8, 8), numerics="fast")
    with pytest.raises(ScheduleError, match="made for tf32 numerics"):
        s.apply('numerics = "tf32"\nm_o, m_i = split("m", 4)\n')


def test_on_a_cpu_sums_have_all_their_bits() -> None:
    numpy = pytest.importorskip("numpy")
    a, b = (numpy.random.default_rng(n).standard_normal((40, 40)).astype("float32") for n in (0, 1))
    got = weft.define(MATMUL, numerics="tf32")(a, b)
    numpy.testing.assert_allclose(got, a.astype("float64") @ b.astype("float64"), rtol=1e-4, atol=1e-5)
