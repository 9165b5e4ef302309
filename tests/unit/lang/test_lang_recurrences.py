"""Blocks, `for t in lo:hi { ... }`: what they mean, in every way a program runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.ir.errors import ArgumentError, ShapeError
from weft.lang.parse import parse_programs
from weft.tensor.cost import infer_cost
from weft.tensor.coverage import infer_fills
from weft.tensor.normalize import normalize
from weft.tensor.printer import print_program
from weft.tensor.specialize import specialize

sys.path.insert(0, str(Path(__file__).parent.parent / "tensor"))
from tensor_oracles import all_ways, program_of

Array = np.ndarray[Any, Any]
LSTM = """
def lstm(float(T,B,I) X, float(B,J) H0, float(B,J) C0, float(4,J,I) W, float(4,J,J) U, float(4,J) A) -> (H, C) {
    P(t,b,g,j) +=! X(t,b,i) * W(g,j,i)
    H(0,b,j) = H0(b,j)
    C(b,j) = C0(b,j)
    for t in 0:T {
        G(b,g,j) +=! H(t,b,k) * U(g,j,k)
        S(b,g,j) = G(b,g,j) + P(t,b,g,j) + A(g,j)
        C(b,j) = sigmoid(S(b,1,j)) * C(b,j) + sigmoid(S(b,0,j)) * tanh(S(b,2,j))
        H(t+1,b,j) = sigmoid(S(b,3,j)) * tanh(C(b,j))
    }
}"""


def random(*shapes: tuple[int, ...], seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


def run(text: str, args: list[Any], **out: Any) -> list[Array]:
    """Every way there is: evaluator, both lowerings interpreted, compiled code as chosen, as written and strict."""
    found = all_ways(text, args, **out)
    for how in ({}, {"schedule": "naive"}, {"numerics": "strict"}):
        op = weft.define(text, **how)
        given = tuple(np.array(out.get(o.name, np.zeros_like(f))) for o, f in zip(op.interface.outputs, found))
        compiled = op(*args, out=given if out else None)
        compiled = compiled if isinstance(compiled, tuple) else (compiled,)
        for a, b in zip(found, compiled):
            np.testing.assert_allclose(np.asarray(b, np.float64), np.asarray(a, np.float64), rtol=2e-5, atol=2e-5)
    text_form = print_program(program_of(text))
    assert list(parse_programs(text_form).values())[-1] == program_of(text)
    return found


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def lstm(x: Array, h: Array, c: Array, w: Array, u: Array, a: Array) -> tuple[Array, Array]:
    steps = [h]
    for row in x:
        i, f, g, o = np.moveaxis(np.einsum("bi,gji->bgj", row, w) + np.einsum("bk,gjk->bgj", h, u) + a, 1, 0)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        steps.append(h)
    return np.stack(steps), c


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_an_lstm(steps: int) -> None:
    args = random((steps, 3, 5), (3, 7), (3, 7), (4, 7, 5), (4, 7, 7), (4, 7))
    h, c = run(LSTM, args)
    wanted = lstm(*(a.astype(np.float64) for a in args))
    np.testing.assert_allclose(h, wanted[0], atol=1e-5)
    np.testing.assert_allclose(c, wanted[1], atol=1e-5)


def test_nothing_is_filled_where_steps_follow_one_another() -> None:
    sizes = {"B": 3, "I": 5, "J": 7}
    two, four = (specialize(program_of(LSTM), {"T": steps, **sizes}) for steps in (2, 4))
    assert infer_fills(normalize(four)) == ()
    assert infer_cost(four).flops == 2 * infer_cost(two).flops


def test_viterbi_with_the_best_path_traced_backwards() -> None:
    text = """
    def viterbi(float(T,S) E, float(S,S) A) -> (int32(T) Path) {
        V(0,s) = E(0,s)
        for t in 1:T {
            Best(s) max=! V(t-1,p) + A(p,s)
            From(t,s) argmax=! V(t-1,p) + A(p,s)
            V(t,s) = Best(s) + E(t,s)
        }
        Last argmax=! V(T-1,s)
        Path(T-1) = Last
        for r in 1:T { Path(T-1-r) = From(T-r, Path(T-r)) }
    }"""
    e, a = random((6, 5), (5, 5))
    (path,) = run(text, [e, a])
    v, back = e[0], []
    for row in e[1:]:
        back.append((v[:, None] + a).argmax(0))
        v = (v[:, None] + a).max(0) + row
    best = [int(v.argmax())]
    for row in reversed(back):
        best.insert(0, int(row[best[0]]))
    np.testing.assert_array_equal(path, best)


def test_two_states_of_which_each_reads_the_other() -> None:
    text = """
    def fibonacci(int64(N) A) -> (int64(N) O) {
        a = int64(0)
        b = int64(1)
        for t in 0:N {
            O(t) = a
            c = a + b
            a = b
            b = c
        }
    }"""
    (o,) = run(text, [np.zeros(10, np.int64)])
    np.testing.assert_array_equal(o, [0, 1, 1, 2, 3, 5, 8, 13, 21, 34])


def test_state_of_the_caller_is_updated_in_place() -> None:
    text = """
    def decay(float(T,N) X) -> (float(N) S, float(T) Sums) {
        for t in 0:T {
            Sums(t) +=! S(i)
            S(i) = 0.5 * S(i) + X(t,i)
        }
    }"""
    assert program_of(text).carried == ("S",)
    (x, s) = random((4, 3), (3,))
    state, sums = run(text, [x], S=s)
    held = s.astype(np.float64)
    for t in range(4):
        np.testing.assert_allclose(sums[t], held.sum(), atol=1e-5)
        held = held * 0.5 + x[t]
    np.testing.assert_allclose(state, held, atol=1e-5)


def test_earlier_steps_under_a_condition_are_not_the_callers() -> None:
    text = """
    def scan(float(T,N) X) -> (float(T,N) H) {
        for t in 0:T {
            P(i) = t > 0 ? H(t-1,i) : 0.0
            H(t,i) = P(i) + X(t,i)
        }
    }"""
    assert program_of(text).carried == ()
    (x,) = random((5, 3))
    (h,) = run(text, [x])
    np.testing.assert_allclose(h, np.cumsum(x, 0), atol=1e-5)


def test_blocks_in_blocks() -> None:
    text = """
    def distance(int(N) A, int(M) B) -> (int(N+1,M+1) D) {
        D(i,0) = i where i in 0:N+1
        D(0,j) = j where j in 1:M+1
        for i in 1:N+1 {
            for j in 1:M+1 {
                Same = A(i-1) == B(j-1) ? 0 : 1
                D(i,j) = min(min(D(i-1,j), D(i,j-1)) + 1, D(i-1,j-1) + Same)
            }
        }
    }"""
    a, b = (np.frombuffer(word.encode(), np.uint8).astype(np.int32) for word in ("kitten", "sitting"))
    (d,) = run(text, [a, b])
    assert d[-1, -1] == 3


def test_two_blocks_one_after_another_and_ranges_that_depend_on_the_step() -> None:
    text = """
    def f(float(N) X) -> (float(N) A, float(N) B) {
        for t in 0:N { A(t) +=! X(i) where i in 0:t+1 }
        for t in 0:N { B(N-1-t) +=! A(i) where i in N-1-t:N }
    }"""
    (x,) = random((6,))
    a, b = run(text, [x])
    np.testing.assert_allclose(a, np.cumsum(x), atol=1e-5)
    np.testing.assert_allclose(b, np.cumsum(np.cumsum(x)[::-1])[::-1], atol=1e-4)


def test_definitions_called_in_a_block_keep_their_names_to_themselves() -> None:
    text = """
    def row(float(T,N) X, int k) -> (y) { y(t) = 2.0 * X(k,t) }
    def total(float(N) x) -> (float s) {
        r(t) = x(t)
        for t in 1:N { r(t) = r(t-1) + r(t) }
        s = r(N-1)
    }
    def f(float(T,N) X) -> (float(T) O) {
        for t in 0:T {
            y = row(X, t)
            s = total(y)
            O(t) = s
        }
    }"""
    (x,) = random((3, 4))
    (o,) = run(text, [x])
    np.testing.assert_allclose(o, 2 * x.sum(1), atol=1e-5)


def test_half_sums_over_steps() -> None:
    text = """
    def f(half(T,N,K) X) -> (half(N) O) {
        for t in 0:T { S(i) += X(t,i,k) }
        O(i) = S(i)
    }"""
    (x,) = random((3, 4, 5))
    (o,) = run(text, [x.astype(np.float16)])
    np.testing.assert_allclose(o, x.sum((0, 2)), rtol=1e-2, atol=1e-2)


def test_lookups_are_tested_step_by_step() -> None:
    text = """
    def f(int(N) Next, int(T) Z) -> (int(T+1) P) {
        P(0) = 0
        for t in 0:T { P(t+1) = Next(P(t)) + Z(t) * 0 }
    }"""
    following = np.array([2, 0, 1], np.int32)
    (p,) = run(text, [following, np.zeros(4, np.int32)])
    np.testing.assert_array_equal(p, [0, 2, 1, 0, 2])
    with pytest.raises(ShapeError, match="Next index out of range"):
        weft.define(text)(following + 1, np.zeros(4, np.int32))


def test_one_operator_for_all_sizes() -> None:
    op = weft.define(LSTM, dynamic=["T", "B"])
    for steps, batch in ((2, 3), (5, 1), (3, 4)):
        args = random((steps, batch, 5), (batch, 6), (batch, 6), (4, 6, 5), (4, 6, 6), (4, 6))
        wanted = lstm(*(a.astype(np.float64) for a in args))
        for got, want in zip(op(*args), wanted):
            np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_an_empty_block_leaves_zeros(size: int) -> None:
    text = "def f(float(N) X) -> (float(3) O) { for t in 1:N { O(i) = X(t) where i in 0:3 } }"
    (x,) = random((size,))
    (o,) = run(text, [x])
    np.testing.assert_array_equal(o, np.full(3, x[-1] if size > 1 else 0.0))


def test_what_a_step_wrote_read_in_a_triangle_that_fits_at_some_sizes_only() -> None:
    text = """def f(float(M,N) A) -> (S) {
        for t in 0:M { T(M-1-t,j) = A(t,j) }
        S(i) +=! T(i,j) where j in 0:i+1
    }"""
    (a,) = random((4, 5))
    np.testing.assert_allclose(run(text, [a])[0], np.tril(a[::-1]).sum(1), rtol=1e-5)
    with pytest.raises(ShapeError, match="reads outside `T`"):
        weft.define(text)(a.T)


#: Factors and solutions whose steps read all that the steps before them wrote.
CHOLESKY = """def cholesky(float(N,N) A) -> (float(N,N) L) {
    for j in 0:N {
        S(i) +=! L(i,k) * L(j,k) where i in j:N, k in 0:j
        L(j,j) = sqrt(A(j,j) - S(j))
        L(i,j) = (A(i,j) - S(i)) / L(j,j) where i in j+1:N
    }
}"""
FORWARD = """def forward(float(N,N) L, float(N,R) B) -> (float(N,R) X) {
    for i in 0:N {
        S(r) +=! L(i,k) * X(k,r) where k in 0:i
        X(i,r) = (B(i,r) - S(r)) / L(i,i)
    }
}"""
BACKWARD = """def backward(float(N,N) U, float(N,R) B) -> (float(N,R) X) {
    for i in 0:N {
        S(r) +=! U(N-1-i,k) * X(k,r) where k in N-i:N
        X(N-1-i,r) = (B(N-1-i,r) - S(r)) / U(N-1-i,N-1-i)
    }
}"""


@pytest.mark.parametrize("size", [1, 2, 7])
def test_steps_that_read_all_steps_before(size: int) -> None:
    a, b = random((size, size), (size, 3))
    square = a @ a.T + size * np.eye(size, dtype=np.float32)
    np.testing.assert_allclose(run(CHOLESKY, [square])[0], np.linalg.cholesky(square), atol=1e-5)
    for text, triangle in ((FORWARD, np.tril(square)), (BACKWARD, np.triu(square))):
        np.testing.assert_allclose(run(text, [triangle, b])[0], np.linalg.solve(triangle, b), atol=1e-5)


@pytest.mark.parametrize(
    "text",
    [FORWARD.replace("0:i\n", "0:i+1\n"), BACKWARD.replace("N-i:N\n", "N-1-i:N\n"), FORWARD.replace("0:i\n", "0:N\n")],
)
def test_a_read_of_the_step_itself_is_the_callers(text: str) -> None:
    a, b = random((4, 4), (4, 3))
    with pytest.raises(ArgumentError, match="needs `X` passed in"):
        weft.define(text)(a, b)
