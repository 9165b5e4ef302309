"""What becomes of what: every rewrite as a pair of programs, for the reader, `docs/` and the tests.

Both programs of a pair have one normal form and compute the same: to the bit where the rewrite is exact, else but for
rounding, and then it is for ``numerics="fast"`` alone. Sizes are letters; ``S`` is a multiple of 3.
"""

from __future__ import annotations

from typing import NamedTuple


class Rewrite(NamedTuple):
    name: str
    exact: bool
    before: str
    after: str


_A, _B = "float(M,K) A", "float(K,N) B"
_X, _XY = "def f(float(N) X) -> (O)", "def f(float(N) X, float(N) Y) -> (O)"
_MM = f"def f({_A}, {_B}) -> (O)"
_SUM = "T(m,n) +=! A(m,k) * B(k,n)"

REWRITES: tuple[Rewrite, ...] = (
    Rewrite(
        "conversions",
        True,
        "def f(bfloat16(N) X) -> (O) { O(i) = float(i > 1 ? X(i) : -X(i)) }",
        "def f(bfloat16(N) X) -> (O) { O(i) = i > 1 ? float(X(i)) : -float(X(i)) }",
    ),
    Rewrite(
        "tests by hand",
        True,
        f"{_X} {{ O(i) = i >= 1 && i <= N ? X(i-1) : 0.0 where i in 0:N+2 }}",
        f"{_X} {{ O(i) = X(i-1) where i in 0:N+2, X outside zero }}",
    ),
    Rewrite(
        "tests by hand, denied",
        True,
        f"{_X} {{ O(i) = i < 1 || i > N ? 0.0 : X(i-1) where i in 0:N+2 }}",
        f"{_X} {{ O(i) = X(i-1) where i in 0:N+2, X outside zero }}",
    ),
    Rewrite(
        "axes from zero",
        True,
        f"{_X} {{ O(i-1) = X(i) where i in 1:N }}",
        f"{_X} {{ O(i) = X(i+1) where i in 0:N-1 }}",
    ),
    Rewrite(
        "digits",
        True,
        "def f(float(S) X) -> (O) { O() +=! X(k*3+r) * X(k*3+r) where k in 0:S/3, r in 0:3 }",
        "def f(float(S) X) -> (O) { O() +=! X(k) * X(k) where k in 0:S }",
    ),
    Rewrite(
        "digits, the inner first",
        False,
        "def f(float(S) X) -> (O) { O() +=! X(k*3+r) where r in 0:3, k in 0:S/3 }",
        "def f(float(S) X) -> (O) { O() +=! X(k) where k in 0:S }",
    ),
    Rewrite(
        "digits of a result",
        True,
        "def f(float(S) X) -> (float(S) O) { O(k*3+r) = X(k*3+r) where k in 0:S/3, r in 0:3 }",
        "def f(float(S) X) -> (O) { O(k) = X(k) }",
    ),
    Rewrite(
        "digits of a temporary",
        True,
        "def f(float(S,K) A) -> (O) { T(m,y) +=! A(m*3+y,k) where m in 0:S/3, y in 0:3\n O(m*3+y) = exp(T(m,y)) }",
        "def f(float(S,K) A) -> (O) { T(m) +=! A(m,k)\n O(m) = exp(T(m)) }",
    ),
    Rewrite(
        "axes of a sum as its value has them",
        False,
        "def f(float(M,K) A, float(K) b) -> (O) { D(k,m) = A(m,k)\n O() +=! D(k,m) * b(k) }",
        "def f(float(M,K) A, float(K) b) -> (O) { O() +=! A(m,k) * b(k) }",
    ),
    Rewrite(
        "a start apart",
        True,
        f"{_MM} {{ T(m,n) = 0.0 where m in 0:M, n in 0:N\n T(m,n) += A(m,k) * B(k,n)\n O(m,n) = exp(T(m,n)) }}",
        f"{_MM} {{ {_SUM}\n O(m,n) = exp(T(m,n)) }}",
    ),
    Rewrite(
        "a start left out",
        True,
        f"{_MM} {{ T(m,n) += A(m,k) * B(k,n)\n O(m,n) = exp(T(m,n)) }}",
        f"{_MM} {{ {_SUM}\n O(m,n) = exp(T(m,n)) }}",
    ),
    Rewrite(
        "a start that is not zero",
        False,
        f"def f({_A}, {_B}, float(N) b) -> (O) {{ O(m,n) = b(n) where m in 0:M\n O(m,n) += A(m,k) * B(k,n) }}",
        f"def f({_A}, {_B}, float(N) b) -> (O) {{ {_SUM}\n O(m,n) = T(m,n) + b(n) }}",
    ),
    Rewrite(
        "a frame",
        True,
        f"{_X} {{ D(i) = 0.0 where i in 0:N+2\n D(i+1) = X(i)\n O(i) = D(i) + 1.0 }}",
        f"{_X} {{ O(i) = X(i-1) + 1.0 where i in 0:N+2, X outside zero }}",
    ),
    Rewrite(
        "views",
        True,
        f"{_MM} {{ D(n,k) = B(k,n)\n O(m,n) +=! A(m,k) * D(n,k) }}",
        f"{_MM} {{ O(m,n) +=! A(m,k) * B(k,n) }}",
    ),
    Rewrite(
        "views, outside twice",
        True,
        f"{_X} {{ D(i) = X(i-1) where i in 0:N+2, X outside zero\n O(i) = D(i-1) where i in 0:N+4, D outside zero }}",
        f"{_X} {{ O(i) = X(i-2) where i in 0:N+4, X outside zero }}",
    ),
    Rewrite(
        "factors of a product",
        False,
        f"def f({_A}, {_B}, float(M) s) -> (O) {{ O(m,n) +=! A(m,k) * 0.5 * B(k,n) / (1.0 + s(m)*s(m)) }}",
        f"def f({_A}, {_B}, float(M) s) -> (O) {{ {_SUM}\n O(m,n) = T(m,n) * 0.5 / (1.0 + s(m)*s(m)) }}",
    ),
    Rewrite(
        "factors stored with what is multiplied",
        False,
        f"def f({_A}, {_B}, float(M) s) -> (O) {{ D(m,k) = A(m,k) / exp(s(m))\n O(m,n) +=! D(m,k) * B(k,n) }}",
        f"def f({_A}, {_B}, float(M) s) -> (O) {{ {_SUM}\n O(m,n) = T(m,n) / exp(s(m)) }}",
    ),
    Rewrite(
        "factors turned",
        True,
        f"{_MM} {{ O(m,n) +=! B(k,n) * A(m,k) }}",
        f"{_MM} {{ O(m,n) +=! A(m,k) * B(k,n) }}",
    ),
    Rewrite(
        "numbers in one product",
        False,
        f"{_X} {{ O(i) = X(i) * 2.0 * (X(i) / 8.0) }}",
        f"{_X} {{ O(i) = X(i) * X(i) * 0.25 }}",
    ),
    Rewrite(
        "sums over one point",
        True,
        f"{_X} {{ O() +=! X(i) where i in 0:N, r in 0:1 }}",
        f"{_X} {{ O() +=! X(i) }}",
    ),
    Rewrite(
        "logarithms",
        False,
        f"{_XY} {{ O(i) = exp(X(i) - (Y(i) + log(1.0 + X(i)*X(i)))) }}",
        f"{_XY} {{ O(i) = exp(X(i) - Y(i)) / (1.0 + X(i)*X(i)) }}",
    ),
    Rewrite(
        "reciprocals",
        False,
        "def f(float(M,K) A) -> (O) { S(m) +=! exp(A(m,k))\n R(m) = 1.0 / S(m)\n O(m,k) = A(m,k) * R(m) }",
        "def f(float(M,K) A) -> (O) { S(m) +=! exp(A(m,k))\n O(m,k) = A(m,k) / S(m) }",
    ),
    Rewrite(
        "reciprocals in a formula",
        False,
        f"{_XY} {{ O(i) = X(i) * (1.0 / exp(Y(i))) }}",
        f"{_XY} {{ O(i) = X(i) / exp(Y(i)) }}",
    ),
    Rewrite(
        "dimensions of rows turned",
        True,
        f"def f({_A}, {_B}, float(N,M) V) -> (O) {{ T(n,m) +=! A(m,k) * B(k,n)\n O(m,r) +=! T(n,m) * V(n,r) }}",
        f"def f({_A}, {_B}, float(N,M) V) -> (O) {{ {_SUM}\n O(m,r) +=! T(m,n) * V(n,r) }}",
    ),
    Rewrite(
        "dimensions turned",
        True,
        f"{_MM} {{ T(n,m) +=! A(m,k) * B(k,n)\n O(m,n) = exp(T(n,m)) }}",
        f"{_MM} {{ {_SUM}\n O(m,n) = exp(T(m,n)) }}",
    ),
    Rewrite(
        "straight out",
        True,
        f"{_MM} {{ {_SUM}\n O(m,n) = T(m,n) }}",
        f"{_MM} {{ O(m,n) +=! A(m,k) * B(k,n) }}",
    ),
    Rewrite(
        "fewer results first",
        True,
        f"{_MM} {{ P(m,n) +=! A(m,k) * B(k,n)\n S(m) +=! A(m,k)\n O(m,n) = P(m,n) / S(m) }}",
        f"{_MM} {{ S(m) +=! A(m,k)\n P(m,n) +=! A(m,k) * B(k,n)\n O(m,n) = P(m,n) / S(m) }}",
    ),
)
