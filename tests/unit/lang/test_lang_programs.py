"""Programs as users of Tensor Comprehensions write them, and what ours adds, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.lang.parse import parse_programs
from weft.tensor.evaluate import evaluate

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def run(text: str, *args: Any, **options: Any) -> tuple[Array, ...]:
    return evaluate(list(parse_programs(text).values())[-1], args, **options)


V, M = floats(7), floats(5, 7)
CASES: list[tuple[str, tuple[Any, ...], Callable[..., Any]]] = [
    (
        "def pool(float(H,W) x) -> (y) { y(h,w) max=! x(h*2 + kh, w*2 + kw) where kh in 0:3, kw in 0:2 }",
        (M,),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (3, 2))[::2, ::2].max((2, 3)),
    ),
    ("def half(float(N) I) -> (O) { O(i) = I(i) where i in 0:N/2 }", (V,), lambda x: x[:3]),
    ("def one(float a) -> (b) { b = a * 2 }", (1.5,), lambda a: np.float32(3)),
    ("def none() -> (O) { O(i) = i * i where i in 0:5 }", (), lambda: np.arange(5) ** 2),
    ("def rev(float(N) A) -> (O) { O(i) = A(N - 1 - i) }", (V,), lambda x: x[::-1]),
    ("def size(float(M,N) A) -> (B) { B(i) +=! A(i,j) / A.1 }", (M,), lambda x: x.mean(1)),
    ("def up(float(N) A) -> (O) { O(i) = A(i/2) }", (V,), lambda x: np.repeat(x, 2)),
    ("def up(float(N) A) -> (O) { O(i) = A(i//2) where i in 0:2*N }", (V,), lambda x: np.repeat(x, 2)),
    ("def tile(float(N) A) -> (O) { O(i) = A(i % N) where i in 0:3*N }", (V,), lambda x: np.tile(x, 3)),
    ("def zip(float(N) A) -> (B) { B(2*i) = A(i) B(2*i + 1) = -A(i) }", (V,), lambda x: np.stack([x, -x], 1).ravel()),
    ("def least(float(M) A, float(N) B) -> (O) { O(i) = A(i) + B(i) }", (V, floats(5)), None),
    (
        "def solve(float(N,N) L, float(N) b) -> (x) { x(i) = b(i)  x(i) += -L(i,j) * x(j) where j in 0:i }",
        (np.tril(floats(5, 5), -1) / 4, floats(5)),
        lambda w, b: np.linalg.solve(w.astype(np.float64) + np.eye(5), b),
    ),
    ("def tri(float(N,N) A) -> (O) { O(i) +=! A(i,j) where j in i:N }", (floats(5, 5),), lambda a: np.triu(a).sum(1)),
    ("def prefix(float(N) A) -> (O) { O(i) +=! A(j) where i in 0:N, j in 0:i+1 }", (V,), np.cumsum),
    ("def scan(float(N) A) -> (S) { S(i) = A(i) + (i > 0 ? S(i-1) : 0) }", (V,), np.cumsum),
    ("def scan(float(N) A) -> (S) { S(0) = A(0)  S(i) = S(i-1) * A(i) where i in 1:N }", (V,), np.cumprod),
    (
        "def blur(float(H,W) A) -> (B) { B(y,x) = A(y-1,x) + A(y,x) + A(y+1,x) where A outside edge }",
        (M,),
        lambda a: sum(np.pad(a, ((1, 1), (0, 0)), "edge")[k : k + 5] for k in range(3)),
    ),
    (
        "def wrap(float(N) A) -> (B) { B(i) = A(i-9) where i in 0:N, A outside wrap }",
        (V,),
        lambda a: np.roll(a, 9),
    ),
    (
        "def mirror(float(N) A) -> (B) { B(i) = A(i-3) where i in 0:N+6, A outside reflect }",
        (V,),
        lambda a: np.pad(a, 3, "reflect"),
    ),
    (
        "def fill(float(N) A, float z) -> (B) { B(i) = A(i-2) where i in 0:N+4, A outside z * 2 }",
        (V, 1.5),
        lambda a, z: np.pad(a, 2, constant_values=2 * z),
    ),
    (
        "def both(float(N) A) -> (B) { B(i) = outside(A(i+1), zero) - outside(A(i-1), edge) where i in 0:N }",
        (V,),
        lambda a: np.append(a[1:], 0) - np.append(a[0], a[:-1]),
    ),
    ("def let(float(N) A) -> (O) { O(i) = A(k) where k = i + d, d = 1, i in 0:N-1 }", (V,), lambda a: a[1:]),
    (
        "def alike(float(N) infinite, float(N) nan1) -> (inf) { inf(i) = infinite(i) + nan1(i) }",
        (V, V),
        lambda a, b: a + b,
    ),
    (
        "def scatter(float(N) A, int(N) I, int K) -> (float(K) O) { O(I(i)) max=! A(i) }",
        (V, np.array([0, 2, 2, 0, 3, 3, 3], np.int32), 5),
        lambda a, i, k: [max(a[i == j], default=-np.inf) for j in range(k)],
    ),
    ("def arg(float(M,N) A) -> (I) { I(m) argmax=! A(m,n) }", (M,), lambda a: a.argmax(1)),
    ("def arg(float(M,N) A) -> (I) { I(m) argmin=! A(m,n) }", (M,), lambda a: a.argmin(1)),
    ("def all(float(N) A) -> (s, p, l, h) { s +=! A(i) p *=! A(i) l min=! A(i) h max=! A(i) }", (V,), None),
    (
        "def shift(float(N) A, int D) -> (B) { B(i) = A(i + D) }",
        (V, 2),
        lambda a, d: a[d:],
    ),
    (
        "def temp(half(N) A) -> (half(N) B) { float(N) T  T(i) = float(A(i)) * 3  B(i) = half(T(i)) }",
        (V.astype(np.float16),),
        lambda a: (a.astype(np.float32) * 3).astype(np.float16),
    ),
    (
        "def wavenet(float(B,R,T) Data, float(C,R,2) W, float(D) Dilation) -> (Out) {\n"
        "  Out(b, c, t) +=! Data(b, r, t) * W(c, r, 1) +\n"
        "    ((t - D >= 0) ? Data(b, r, t - D) * W(c, r, 0) : float(0)) where t in 0:T }",
        (floats(2, 3, 9), floats(4, 3, 2), floats(2)),
        lambda x, w, d: (
            np.einsum("brt,cr->bct", x, w[:, :, 1])
            + np.einsum("brt,cr->bct", np.pad(x, ((0, 0), (0, 0), (2, 0)))[:, :, :-2], w[:, :, 0])
        ),
    ),
]


@pytest.mark.parametrize(("text", "args", "expected"), CASES, ids=[c[0].split("(")[0][4:] for c in CASES])
def test_result(text: str, args: tuple[Any, ...], expected: Callable[..., Any] | None) -> None:
    found = run(text, *args)
    if expected is None:
        expected = {"le": lambda a, b: a[:5] + b, "al": lambda a: (a.sum(), a.prod(), a.min(), a.max())}[text[4:6]]
    wanted = expected(*args)
    for got, want in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


def test_batch_norm_as_published() -> None:
    text = """
    def batchnorm(float(N,C,H,W) I, float(C) rMeanIn) -> (O, rMeanOut, mean, centered) {
       mean(c) +=! I(nn, c, hh, ww)
       mean(c)  = mean(c) / (N * H * W)
       rMeanOut(c) = (1 - 0.1) * rMeanIn(c) + 0.1 * mean(c)
       centered(n, c, h, w) = I(n, c, h, w) - rMeanOut(c)
       O(n, c, h, w) = centered(n, c, h, w)
    }"""
    x, m = floats(3, 2, 4, 5), floats(2)
    o, out, mean, _ = run(text, x, m)
    np.testing.assert_allclose(mean, x.mean((0, 2, 3)), atol=1e-6)
    np.testing.assert_allclose(out, 0.9 * m + 0.1 * x.mean((0, 2, 3)), atol=1e-6)
    np.testing.assert_allclose(o, x - out[:, None, None], atol=1e-6)


def test_accumulating_without_initialization_goes_on_from_what_is_there() -> None:
    text = "def acc(float(N) A) -> (s) { s += A(i) }"
    assert parse_programs(text)["acc"].carried == ("s",)
    np.testing.assert_allclose(run(text, V)[0], V.sum(), rtol=1e-5)
    np.testing.assert_allclose(run(text, V, out={"s": np.float32(10)})[0], V.sum() + 10, rtol=1e-5)


def test_reductions_over_nothing_give_the_identity() -> None:
    text = "def none(float(N) A) -> (s, p, l, h) { s +=! A(i) p *=! A(i) l min=! A(i) h max=! A(i) }"
    assert [float(r) for r in run(text, np.zeros(0, np.float32))] == [0, 1, np.inf, -np.inf]


def test_float_stands_for_another_type() -> None:
    from weft.ir import dtype as dt

    program = parse_programs("def f(float(N) A) -> (B) { B(i) = A(i) * 0.5 }", float_type=dt.float16)["f"]
    assert program.outputs[0].dtype == dt.float16


@pytest.mark.parametrize(
    "value",
    ["+".join(["A(i)"] * 150), "A(i)+(" * 150 + "A(i)" + ")" * 150, "A(i) < 0 ? A(i) : " * 150 + "A(i)"],
    ids=["sum", "nested", "choices"],
)
def test_long_expressions_compile_and_run(value: str) -> None:
    text = f"def f(float(N) A) -> (B) {{ B(i) = {value} }}"
    compiled = weft.define(text)(V)
    np.testing.assert_array_equal(compiled, run(text, V)[0])
    wanted = V if "?" in value else V.astype(np.float64) * (value.count("A"))
    np.testing.assert_allclose(compiled, wanted, rtol=1e-5)
