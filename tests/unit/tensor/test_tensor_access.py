from __future__ import annotations

from tensor_oracles import program_of

from weft.tensor.access import independent_axes, is_injective, is_scatter, pinned_axes


def statement_of(text: str):
    return program_of(text).statements[-1]


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
