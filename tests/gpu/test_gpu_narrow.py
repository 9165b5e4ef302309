"""Products of narrow types on a device against float64 (floats of 8 bits) and exactly (bytes, halves of bytes)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

SCALED = """def f({t}(M,K) A, {u}(N,K) B, float32(M) p, float32(N) q) -> (float32(M,N) C) {{
    S(m,n) +=! float32(A(m,k)) * float32(B(n,k))
    C(m,n) = S(m,n) * p(m) * q(n) }}"""
BYTES = "def f({t}(M,K) A, {t}(N,K) B) -> (C) {{ C(m,n) +=! int32(A(m,k)) * int32(B(n,k)) }}"
NIBBLES = """def f(bfloat16(M,K) X, uint8(N,H) W) -> (float32(M,N) C) {
    C(m,n) +=! float32(X(m,2*h)) * (float32(W(n,h) % 16) - 8) + float32(X(m,2*h+1)) * (float32(W(n,h) / 16) - 8) }"""
#: Two weights in a byte, with a scale for each 64 of a row.
BLOCKS = """def f(bfloat16(M,K) X, uint8(N,H) W, float32(N,G) q) -> (float32(M,N) C) {
    D(n,k) = bfloat16(float32(int32(k % 2 == 0 ? W(n,k/2) % 16 : W(n,k/2) / 16) - 8) * q(n,k/64)) where k in 0:K
    C(m,n) +=! float32(X(m,k)) * float32(D(n,k)) }"""
#: Weights that are half as large as what they are made, or larger.
CAST = """def f(bfloat16(M,K) X, {t}(N,K) W) -> (float32(M,N) C) {{
    D(n,k) = bfloat16(W(n,k))
    C(m,n) +=! float32(X(m,k)) * float32(D(n,k)) }}"""
SIZES = [(256, 384, 512), (130, 200, 272), (333, 517, 129), (16, 1024, 2048), (5, 300, 513), (1, 512, 1024)]


def run(op: Any, *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    got = op(*map(weft.cuda.DeviceArray.from_numpy, arrays))
    weft.cuda.synchronize()
    return got.numpy()  # type: ignore[no-any-return]


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
@pytest.mark.parametrize("right", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("left", ["float8_e4m3fn", "float8_e5m2"])
def test_floats_of_eight_bits(left: str, right: str, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, k)).astype(weft.numpy_dtype(t)) for rows, t in ((m, left), (n, right)))
    p, q = (rng.random(rows, np.float32) + 0.5 for rows in (m, n))
    got = run(weft.define(SCALED.format(t=left, u=right)), a, b, p, q).astype(np.float64)
    wanted = (a.astype(np.float64) @ b.astype(np.float64).T) * p[:, None] * q
    assert np.linalg.norm(got - wanted) < 2e-3 * np.linalg.norm(wanted)


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("numerics", ["fast", "strict"])
def test_bytes(numerics: str, dtype: str, m: int, n: int, k: int) -> None:
    rng, range_ = np.random.default_rng(0), np.iinfo(dtype)
    a, b = (rng.integers(range_.min, range_.max + 1, (rows, k), dtype) for rows in (m, n))
    got = run(weft.define(BYTES.format(t=dtype), numerics=numerics), a, b)
    np.testing.assert_array_equal(got, a.astype(np.int32) @ b.astype(np.int32).T)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 512, 1024), (4, 300, 512), (16, 128, 256)])
def test_two_weights_in_a_byte(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((m, k)).astype(weft.numpy_dtype("bfloat16"))
    w = rng.integers(0, 256, (n, k // 2), np.uint8)
    whole = np.stack([w % 16, w // 16], -1).reshape(n, k).astype(np.float64) - 8
    wanted = x.astype(np.float64) @ whole.T
    assert np.linalg.norm(run(weft.define(NIBBLES), x, w) - wanted) < 1e-5 * np.linalg.norm(wanted)


@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 512, 1024), (3, 1024, 2048), (16, 512, 512), (7, 300, 640), (200, 256, 512)]
)
def test_weights_that_are_unpacked_on_the_way(m: int, n: int, k: int) -> None:
    """In registers (one row), in shared memory (few rows), in a launch before (many)."""
    rng = np.random.default_rng(0)
    bfloat16 = weft.numpy_dtype("bfloat16")
    x, q = rng.standard_normal((m, k)).astype(bfloat16), rng.random((n, k // 64), np.float32) + 0.5
    w = rng.integers(0, 256, (n, k // 2), np.uint8)
    whole = np.stack([w % 16, w // 16], -1).reshape(n, k).astype(np.float32) - 8
    wanted = x.astype(np.float64) @ (whole * q.repeat(64, 1)).astype(bfloat16).astype(np.float64).T
    assert np.linalg.norm(run(weft.define(BLOCKS), x, w, q) - wanted) < 1e-5 * np.linalg.norm(wanted)
    for dtype in ("float8_e4m3fn", "float32"):
        w = rng.standard_normal((n, k)).astype(weft.numpy_dtype(dtype))
        wanted = x.astype(np.float64) @ w.astype(bfloat16).astype(np.float64).T
        assert np.linalg.norm(run(weft.define(CAST.format(t=dtype)), x, w) - wanted) < 1e-5 * np.linalg.norm(wanted)


def test_casts_as_on_the_cpu() -> None:
    """Every one of them, and numbers between and beyond: bit for bit."""
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [rng.standard_normal(4000) * np.exp2(rng.uniform(-20, 20, 4000)), [np.inf, -np.inf, 0, 464, -0.0]]
    )
    for dtype in ("float8_e4m3fn", "float8_e5m2"):
        for text in (f"def f(float32(N) x) -> (y) {{ y(i) = {dtype}(x(i)) }}",
                     f"def f({dtype}(N) x) -> (y) {{ y(i) = float32(x(i)) }}"):  # fmt: skip
            is_wide = "float32(N)" in text
            given = x.astype(np.float32) if is_wide else np.arange(256, dtype=np.uint8).view(weft.numpy_dtype(dtype))
            op = weft.define(text)
            np.testing.assert_array_equal(*(y.astype(np.float64) for y in (run(op, given), op(given))))
