"""A read that its own test guards is no bound: what the test leaves open counts, on both sides of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from weft.ir.errors import LanguageError, ShapeError
from weft.lang.parse import parse_programs
from weft.tensor.evaluate import evaluate
from weft.tensor.python_api import build_program, compute, placeholder, reduce_axis, select, sizes
from weft.tensor.python_api import sum as sum_over

Array = np.ndarray[Any, Any]
X = np.arange(1, 9, dtype=np.float32)
B = np.float32([20, 30, 40])
Q = np.arange(20, dtype=np.float32).reshape(4, 5)
S = np.arange(16, dtype=np.float32).reshape(4, 4)
LOOKUP = np.int32([4, 0, 7])


def run(text: str, *args: Array) -> Array:
    program = next(iter(parse_programs(f"def f({text} }}").values()))
    result: Array = evaluate(program, args)[0]
    return result


def padded(x: Array, before: int, after: int) -> Array:
    return np.pad(x, (before, after))


#: What is written, the arguments, and what numpy says.
MEANT: list[tuple[str, tuple[Array, ...], Callable[[], Array]]] = [
    # the tests keep all reads inside, and the other branch or the declared output says how far
    ("float(D) X) -> (float(D) Y) { Y(d) = d < D-1 ? X(d+1) : X(d)", (X,), lambda: np.append(X[1:], X[-1])),
    ("float(D) X) -> (Y) { Y(d) = d < D-1 ? X(d+1) : X(d)", (X,), lambda: np.append(X[1:], X[-1])),
    ("float(D) X) -> (Y) { Y(d) = d >= D-1 ? X(d) : X(d+1)", (X,), lambda: np.append(X[1:], X[-1])),
    ("float(D) X) -> (float(D) Y) { Y(d) = d < D-1 ? X(d+1) : 0.0", (X,), lambda: np.append(X[1:], 0)),
    ("float(D) X) -> (float(D) Y) { Y(d) = d > 0 ? X(d-1) : 0.0", (X,), lambda: np.append(0, X[:-1])),
    ("float(D) X) -> (float(D) Y) { Y(d) = d < D/2 ? X(d+D/2) : X(d-D/2)", (X,), lambda: np.roll(X, 4)),
    ("float(D) X) -> (Y) { Y(d) = d > 0 ? X(d-1) : X(d)", (X,), lambda: np.append(X[0], X[:-1])),
    # reads that no test guards decide, and guarded ones beside them take nothing away
    (
        "float(D) X) -> (Y) { Y(d) = X(d) + (d > 0 ? X(d-1) : 0.0) + (d < D-1 ? X(d+1) : 0.0)",
        (X,),
        lambda: X + np.append(0, X[:-1]) + np.append(X[1:], 0),
    ),
    ("float(D) X) -> (Y) { Y(d) = X(d) + (d == D-1 ? X(0) : X(d+1))", (X,), lambda: X + np.roll(X, -1)),
    ("float(D) X) -> (Y) { Y(d) = min(d < D-1 ? X(d+1) : X(d), X(d))", (X,), lambda: X),
    # equality
    ("float(N) X, float(M) Z) -> (Y) { Y(i) = X(i) + (i != 0 ? 0.0 : Z(i+1))", (X, B), lambda: X + np.eye(8)[0] * 30),
    ("float(D) X) -> (Y) { Y(d) = d == D-1 ? X(0) : X(d+1)", (X,), lambda: np.roll(X, -1)),
    # `&&`, `||` and `!`
    (
        "float(D) X) -> (Y) { Y(d) = !(d == 0) && X(d-1) > 3.0 || d < D-1 && X(d+1) > 7.0 ? X(d) : 0.0",
        (X,),
        lambda: np.where((np.append(0, X[:-1]) > 3) | (np.append(X[1:], 0) > 7), X, 0),
    ),
    (
        "float(D) X) -> (float(D) Y) { Y(d) = d == D-1 || X(d+1) > 5.0 ? 1.0 : 0.0",
        (X,),
        lambda: np.append((X[1:] > 5).astype(np.float32), 1),
    ),
    (
        "float(H,W) X) -> (float(H,W) Y) { Y(i,j) = !(i == 0 || j == W-1) ? X(i-1,j+1) : 0.0",
        (Q,),
        lambda: np.pad(Q[:-1, 1:], ((1, 0), (0, 1))),
    ),
    # tensors put end to end
    ("float(M) A, float(N) B) -> (Y) { Y(i) = i < M ? A(i) : B(i-M)", (X, B), lambda: np.concatenate([X, B])),
    ("float(M) A, float(N) B) -> (Y) { Y(i) = i >= M ? B(i-M) : A(i)", (X, B), lambda: np.concatenate([X, B])),
    (
        "float(M) A, float(N) B, float(K) C) -> (Y) { Y(i) = i < M ? A(i) : i < M+N ? B(i-M) : C(i-M-N)",
        (X, B, LOOKUP.astype(np.float32)),
        lambda: np.concatenate([X, B, LOOKUP]),
    ),
    # masks: the tensor a variable runs over by itself
    ("float(M,N) A) -> (Y) { Y(i,j) = j <= i ? A(i,j) : 0.0", (Q,), lambda: np.tril(Q)),
    ("float(N,N) A) -> (Y) { Y(i) +=! j <= i ? A(i,j) : 0.0", (S,), lambda: np.tril(S).sum(1)),
    (
        "float(N,N) A, float(N,N) C) -> (Y) { Y(i,j) = j <= i ? A(i,j) : C(i,j)",
        (S, -S),
        lambda: np.tril(S) - np.triu(S, 1),
    ),
    ("float(N) X) -> (Y) { Y(i) = i < 3 ? 0.0 : X(i)", (X,), lambda: np.where(np.arange(8) < 3, 0, X)),
    # what is no test of how far: remainders and data
    (
        "float(N) A, float(N) B) -> (Y) { Y(i) = i % 2 == 0 ? A(i/2) : B(i/2)",
        (X, -X),
        lambda: np.stack([X, -X], 1).ravel(),
    ),
    (
        "float(N) X, float(N) T) -> (Y) { Y(i) = T(i) > 3.0 ? X(i+1) : 0.0",
        (X, X),
        lambda: np.where(X > 3, np.roll(X, -1), 0)[:-1],
    ),
    # lookups
    ("float(N) X, int32(K) I) -> (Y) { Y(k) = k < K-1 ? X(I(k+1)) : X(I(k))", (X, LOOKUP), lambda: X[[0, 7, 7]]),
    (
        "float(N) X, int32(K) I) -> (Y) { Y(k) = I(k) > 0 ? X(I(k)-1) : -1.0",
        (X, LOOKUP),
        lambda: np.float32([4, -1, 7]),
    ),
    # reduction variables, and windows
    ("float(N) X) -> (s) { s +=! k < N-1 ? X(k) * X(k+1) : 0.0", (X,), lambda: np.sum(X[1:] * X[:-1])),
    (
        "float(T) X, float(K) W) -> (float(T) Y) { Y(t) +=! (t + k < T ? X(t+k) : 0.0) * W(k)",
        (X, B),
        lambda: np.convolve(padded(X, 0, 2), B[::-1], "valid"),
    ),
    ("float(T) X, float(K) W) -> (Y) { Y(t) +=! (t >= k ? X(t-k) : 0.0) * W(k)", (X, B), lambda: np.convolve(X, B)[:8]),
    (
        "float(T) X, float(K) W) -> (Y) { Y(t) +=! (t+k-1 >= 0 && t+k-1 < T ? X(t+k-1) : 0.0) * W(k) where t in 0:T",
        (X, B),
        lambda: np.convolve(padded(X, 1, 1), B[::-1], "valid"),
    ),
]


@pytest.mark.parametrize(("text", "args", "meant"), MEANT, ids=[m[0] for m in MEANT])
def test_guards_count_on_both_sides(text: str, args: tuple[Array, ...], meant: Callable[[], Array]) -> None:
    np.testing.assert_array_equal(run(text, *args), meant())


#: What leaves a doubt, the range that the help names first, and what numpy says with it.
DOUBTFUL: list[tuple[str, str, Callable[[], Array]]] = [
    ("float(D) X) -> (Y) { Y(d) = d > 0 ? X(d-1) : 0.0", "d in 0:D", lambda: np.append(0, X[:-1])),
    ("float(D) X) -> (Y) { Y(d) = d < D-1 ? X(d+1) : 0.0", "d in 0:D", lambda: np.append(X[1:], 0)),
    ("float(D) X) -> (Y) { Y(d) = d < D/2 ? X(d+D/2) : X(d-D/2)", "d in 0:D", lambda: np.roll(X, 4)),
    ("float(N) X) -> (Y) { Y(i) = i < N ? X(i) : 0.0", "i in 0:N", lambda: X),
    (
        "float(N) X) -> (Y) { Y(i) = i == 0 ? X(i+1) - X(i) : i == N-1 ? X(i) - X(i-1) : 0.5 * (X(i+1) - X(i-1))",
        "i in 0:N",
        lambda: np.gradient(X),
    ),
    ("float(N) X) -> (s) { s +=! k < N-1 ? X(k+1) : 0.0", "k in 0:N", lambda: X[1:].sum()),
]


@pytest.mark.parametrize(("text", "range_", "meant"), DOUBTFUL, ids=[d[0] for d in DOUBTFUL])
def test_where_only_guarded_reads_are_left_the_range_to_write_is_said(
    text: str, range_: str, meant: Callable[[], Array]
) -> None:
    with pytest.raises(LanguageError) as refused:
        run(text, X)
    assert f"`where {range_}`" in (refused.value.help or "")
    np.testing.assert_array_equal(run(f"{text} where {range_}", X), meant())


def test_tests_that_allow_more_are_told() -> None:
    with pytest.raises(LanguageError, match=r"the tests would allow `d` in 0:D\+1"):
        run("float(D) X) -> (Y) { Y(d) = d > 0 ? X(d-1) : 0.0", X)


def test_tensors_of_different_sizes_under_one_test_are_refused() -> None:
    with pytest.raises(LanguageError, match="nothing says where `i` ends"):
        run("float(M) A, float(N) B) -> (Y) { Y(i) = i < M ? A(i) : B(i)", X, B)


def test_a_tested_read_that_may_still_leave_its_tensor_is_found_at_the_call() -> None:
    text = "float(N) X, float(M) Z) -> (float(M) Y) { Y(i) = i > 0 ? X(i-1) : Z(i)"
    np.testing.assert_array_equal(run(text, X, B), [20, 1, 2])
    with pytest.raises(ShapeError, match="out of range"):
        run(text, B, np.ones(9, np.float32))


def test_python_programs_have_their_ranges_whatever_guards_their_reads() -> None:
    (n,) = sizes("n")
    x = placeholder("x", (n,))
    shifted = compute((n,), lambda i: select(i < n - 1, x[i + 1], 0.0), name="shifted")
    k = reduce_axis(n, "k")
    total = compute((1,), lambda i: sum_over(select(k > 0, x[k - 1], 0.0), over=k), name="total")
    made = evaluate(build_program([x], [shifted, total]), [X])
    np.testing.assert_array_equal(made[0], np.append(X[1:], 0))
    np.testing.assert_array_equal(made[1], [X[:-1].sum()])
