"""Reductions of rows, columns and everything: right in any order of dimensions, and told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft

#: A definition and the order of its argument's sizes.
TEXTS = {
    "rows": "def f(float(M,N) A) -> (O) { O(m) +=! A(m,n) }",
    "columns": "def f(float(M,N) A) -> (O) { O(n) +=! A(m,n) }",
    "all": "def f(float(M,N) A) -> (O) { O +=! A(m,n) }",
    "greatest": "def f(float(M,N) A) -> (O) { O max=! A(m,n) * A(m,n) }",
    "first least": "def f(float(M,N) A) -> (O) { O(m) argmin=! A(m,n) }",
    "first least of columns": "def f(float(M,N) A) -> (O) { O(n) argmin=! A(m,n) }",
    "channels": "def f(float(M,N,P,Q) A) -> (O) { O(n) +=! A(m,n,p,q) }",
    "channels last": "def f(float(M,P,Q,N) A) -> (O) { O(n) +=! A(m,p,q,n) }",
    "middle": "def f(float(P,M,N) A) -> (O) { O(p,n) +=! A(p,m,n) }",
    "softmax of columns": """def f(float(M,N) A) -> (O) {
        T(n) max=! A(m,n)
        E(m,n) = exp(A(m,n) - T(n))
        S(n) +=! E(m,n)
        O(m,n) = E(m,n) / S(n)
    }""",
}
SIZES = (
    {"M": 1, "N": 1, "P": 1, "Q": 1},
    {"M": 37, "N": 1100, "P": 5, "Q": 3},
    {"M": 1031, "N": 37, "P": 3, "Q": 4},
    {"M": 900, "N": 3, "P": 28, "Q": 28},
)


@pytest.fixture(params=[1, 2])
def threads(request: Any) -> Iterator[None]:
    before = weft.get_num_threads()
    weft.set_num_threads(request.param)
    yield
    weft.set_num_threads(before)


def array_for(text: str, sizes: dict[str, int]) -> Any:
    inside = text[text.index("float(") + 6 : text.index(")")]
    return np.random.default_rng(0).standard_normal([sizes[d] for d in inside.split(",")], np.float32)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: "x".join(map(str, s.values())))
def test_results_are_those_of_the_plain_loops(name: str, sizes: dict[str, int], threads: None) -> None:
    a = array_for(TEXTS[name], sizes)
    expected = weft.define(TEXTS[name], schedule="naive")(a)
    np.testing.assert_allclose(weft.define(TEXTS[name])(a), expected, rtol=2e-4, atol=2e-3)


def test_integers_are_summed_in_parts_even_strictly() -> None:
    weft.set_num_threads(2)
    op = weft.define("def f(int(N) A) -> (O) { O +=! A(n) }", numerics="strict")
    a = np.arange(300_000, dtype=np.int32)
    assert "partial results of 8 parts of `vn` on 2 threads" in op.explain(a)
    assert op(a) == a.sum(dtype=np.int32)


def test_floats_are_added_in_order_where_that_is_asked_for() -> None:
    op = weft.define(TEXTS["all"], numerics="strict")
    a = np.random.default_rng(0).standard_normal((64, 500), np.float32)
    assert op(a) == weft.define(TEXTS["all"], schedule="naive", numerics="strict")(a)


def test_dimensions_that_follow_one_another_are_one() -> None:
    told = weft.define(TEXTS["channels"]).explain(A=(4, 8, 28, 28))
    assert "partial results along `vp` and `vq` in lanes; 784 elements along memory" in told


def test_columns_are_added_a_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_TARGET", "x86-64-avx512")
    told = weft.define(TEXTS["columns"]).explain(A=(512, 4096))
    assert "8 rows added up in registers before their sum is added to the results" in told
    told = weft.define(TEXTS["columns"]).explain(A=(512, 100))
    assert "results in registers while rows are added; they are few" in told


def test_columns_from_memory_are_added_row_after_row_where_threads_read_whole_rows(
    monkeypatch: pytest.MonkeyPatch, threads: None
) -> None:
    monkeypatch.setenv("WEFT_TARGET", "x86-64-avx512")
    op = weft.define(TEXTS["columns"])
    assert "row after row added to the results" in op.explain(A=(60_000, 2048))
    assert "8 rows added up in registers before their sum" in op.explain(A=(3000, 40_000))


def test_short_rows_of_results_are_summed_in_parts_that_share_no_memory() -> None:
    """Two threads that add to one row of results would take its lines from one another."""
    x = np.random.default_rng(0).random((5387, 527), np.float32)
    op = weft.define("def sums(float(M,N) A) -> (O) { O(n) +=! A(m,n) }")
    before = weft.get_num_threads()
    try:
        weft.set_num_threads(2)
        text = str(op.schedule(x).trace)
        np.testing.assert_allclose(op(x), x.sum(0), rtol=1e-4)
    finally:
        weft.set_num_threads(before)
    assert "rfactor(" in text
    assert 'cache_write("O_part", scope="global"' in text
