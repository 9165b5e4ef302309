"""Running sums and other recurrences of first order, and histograms, on a device."""

from __future__ import annotations

import numpy as np
import pytest

import weft

ROWS = "def f(float(M,N) X) -> (float(M,N) S) { S(m,0) = X(m,0)\n S(m,t) = S(m,t-1) + X(m,t) where t in 1:N }"
FROM_ZERO = "def f(float(M,N) X) -> (float(M,N) S) { S(m,t) = (t > 0 ? S(m,t-1) : 0.0) + X(m,t) where t in 0:N }"
COLUMNS = "def f(float(N,M) X) -> (float(N,M) S) { S(0,m) = X(0,m)\n S(t,m) = S(t-1,m) + X(t,m) where t in 1:N }"
LINEAR = """def f(float(M,N) A, float(M,N) B) -> (float(M,N) H) {
    H(m,0) = B(m,0)
    H(m,t) = A(m,t) * H(m,t-1) + B(m,t) where t in 1:N
}"""
HISTOGRAM = "def f(int(E) I, int N) -> (int(N) H) { H(I(e)) +=! 1 where e in 0:E }"


def run(text: str, *args: np.ndarray) -> np.ndarray:
    found = weft.define(text)(*map(weft.cuda.DeviceArray.from_numpy, args))
    weft.cuda.synchronize()
    return found.numpy()  # type: ignore[no-any-return]


@pytest.mark.parametrize("shape", [(300, 4096), (17, 1001), (3, 20011), (5, 331), (2, 65536), (2, 65537)])
@pytest.mark.parametrize("text", [ROWS, FROM_ZERO])
def test_running_sums_of_rows(text: str, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(run(text, x), x.astype(np.float64).cumsum(1), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("shape", [(4096, 320), (1001, 70), (333, 8), (4097, 64)])
def test_running_sums_of_columns(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(run(COLUMNS, x), x.astype(np.float64).cumsum(0), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("shape", [(40, 4096), (3, 777)])
def test_recurrences_of_first_order(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, shape).astype(np.float32), rng.standard_normal(shape).astype(np.float32)
    wanted = b.astype(np.float64)
    for t in range(1, shape[1]):
        wanted[:, t] += a[:, t] * wanted[:, t - 1]
    np.testing.assert_allclose(run(LINEAR, a, b), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("bins", [1, 5, 256, 5000])
def test_histograms(bins: int) -> None:
    index = np.random.default_rng(0).integers(0, bins, 3_000_001).astype(np.int32)
    found = weft.define(HISTOGRAM)(weft.cuda.DeviceArray.from_numpy(index), bins)
    weft.cuda.synchronize()
    np.testing.assert_array_equal(found.numpy(), np.bincount(index, minlength=bins))
