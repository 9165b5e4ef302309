from __future__ import annotations

import pytest
from tensor_oracles import program_of

from weft.tensor.access import access_maps, independent_axes, infer_mapping, is_injective, is_scatter, pinned_axes


def statement_of(text: str):
    return program_of(text).statements[-1]


def test_matmul_maps():
    s = statement_of("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k)*B(k,n) }")
    c, a, b = access_maps(s)
    assert c.is_write
    assert c.matrix == ((1, 0, 0), (0, 1, 0))
    assert a.matrix == ((1, 0, 0), (0, 0, 1))
    assert b.matrix == ((0, 0, 1), (0, 1, 0))


def test_offsets_keep_sizes_symbolic():
    s = statement_of("def r(float(N) A) -> (O) { O(i) = A(N-1-i) }")
    read = access_maps(s)[1]
    assert read.matrix == ((-1,),)
    assert read.offsets[0].coefficients == {"N": 1}
    assert read.offsets[0].constant == -1


def test_lookup_has_no_matrix():
    s = statement_of("def g(float(N) A, int(M) I) -> (O) { O(i) = A(I(i)) }")
    lookup, index = access_maps(s)[1:]
    assert lookup.matrix is None
    assert index.matrix == ((1,),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(float(N,M) A) -> (O) { O(i,j) = exp(A(i,j)) }", "one-to-one"),
        ("def f(float(N,M) A) -> (O) { O(j,i) = A(i,j) }", "shuffle"),
        ("def f(float(N,M) A, float(M) b) -> (O) { O(i,j) = A(i,j) + b(j) }", "one-to-many"),
        ("def f(float(N,M) A) -> (O) { O(i) = A(i/4, i%4) where i in 0:8 }", "reorganize"),
        ("def f(float(N) A) -> (O) { O(i) = A(2*i) }", "reorganize"),
        ("def f(float(N) A, int(M) I) -> (O) { O(i) = A(I(i)) }", "one-to-many"),
        ("def f(float(N,M) A) -> (O) { O(i) +=! A(i,j) }", "many-to-many"),
        ("def f(float(N) A, int(N) I) -> (float(5) O) { O(I(i)) +=! A(i) }", "many-to-many"),
    ],
)
def test_mapping_types(text, expected):
    assert infer_mapping(statement_of(text)) == expected


def test_what_the_left_side_pins():
    s = statement_of("def f(float(N) A, float(M) B) -> (O) { O(i+j) +=! A(i)*B(j) }")
    assert not is_injective(s)
    s = statement_of("def f(float(N,M) A) -> (float(9,9) O) { O(i+j, 2*j) = A(i,j) where i in 0:4, j in 0:4 }")
    assert pinned_axes(s) == {"i", "j"}
    s = statement_of("def f(float(N) A, int(N) I) -> (float(5) O) { O(I(i)) +=! A(i) }")
    assert is_scatter(s)
    assert pinned_axes(s) == set()


def test_axes_a_recurrence_does_not_run_along():
    s = statement_of("def s(float(N,D) X) -> (float(N,D) Y) { Y(i,j) = Y(i-1,j) + X(i,j) where i in 1:N }")
    assert independent_axes(s) == {"j"}
