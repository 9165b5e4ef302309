"""The programs as plain Python loops: naive enough to be believed, and what numba compiles.

Without numba they are ordinary Python, which the tests run at small sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

try:
    from numba import njit, prange

    compiled: Callable[..., Any] = njit(parallel=True, fastmath=True)
    serial: Callable[..., Any] = njit(fastmath=True)
except ImportError:
    prange = range

    def compiled(function: Callable[..., None]) -> Callable[..., None]:
        return function

    serial = compiled


@compiled
def gemm(A: Array, B: Array, C: Array, O: Array) -> None:
    for i in prange(C.shape[0]):
        for j in range(C.shape[1]):
            O[i, j] = 1.25 * C[i, j]
        for k in range(A.shape[1]):
            for j in range(C.shape[1]):
                O[i, j] += 1.5 * A[i, k] * B[k, j]


@compiled
def mm2(A: Array, B: Array, C: Array, D: Array, O: Array) -> None:
    t = np.zeros((A.shape[0], B.shape[1]))
    for i in prange(A.shape[0]):
        for k in range(A.shape[1]):
            for j in range(B.shape[1]):
                t[i, j] += 1.5 * A[i, k] * B[k, j]
    for i in prange(A.shape[0]):
        for l in range(D.shape[1]):
            O[i, l] = 1.25 * D[i, l]
        for j in range(C.shape[0]):
            for l in range(D.shape[1]):
                O[i, l] += t[i, j] * C[j, l]


@serial
def _product(A: Array, B: Array, i: int, O: Array) -> None:
    for j in range(B.shape[1]):
        O[i, j] = 0.0
    for k in range(A.shape[1]):
        for j in range(B.shape[1]):
            O[i, j] += A[i, k] * B[k, j]


@compiled
def mm3(A: Array, B: Array, C: Array, D: Array, G: Array) -> None:
    e = np.zeros((A.shape[0], B.shape[1]))
    f = np.zeros((C.shape[0], D.shape[1]))
    for i in prange(A.shape[0]):
        _product(A, B, i, e)
    for i in prange(C.shape[0]):
        _product(C, D, i, f)
    for i in prange(A.shape[0]):
        _product(e, f, i, G)


@compiled
def atax(A: Array, x: Array, y: Array) -> None:
    t = np.zeros(A.shape[0])
    for i in prange(A.shape[0]):
        for j in range(A.shape[1]):
            t[i] += A[i, j] * x[j]
    for block in prange((A.shape[1] + 255) // 256):
        first, last = block * 256, min(block * 256 + 256, A.shape[1])
        for j in range(first, last):
            y[j] = 0.0
        for i in range(A.shape[0]):
            for j in range(first, last):
                y[j] += A[i, j] * t[i]


@compiled
def bicg(A: Array, p: Array, r: Array, s: Array, q: Array) -> None:
    for i in prange(A.shape[0]):
        total = 0.0
        for j in range(A.shape[1]):
            total += A[i, j] * p[j]
        q[i] = total
    for block in prange((A.shape[1] + 255) // 256):
        first, last = block * 256, min(block * 256 + 256, A.shape[1])
        for j in range(first, last):
            s[j] = 0.0
        for i in range(A.shape[0]):
            for j in range(first, last):
                s[j] += r[i] * A[i, j]


@compiled
def mvt(A: Array, a: Array, b: Array, y1: Array, y2: Array, x1: Array, x2: Array) -> None:
    for i in prange(A.shape[0]):
        total = a[i]
        for j in range(A.shape[1]):
            total += A[i, j] * y1[j]
        x1[i] = total
    for block in prange((A.shape[0] + 255) // 256):
        first, last = block * 256, min(block * 256 + 256, A.shape[0])
        for i in range(first, last):
            x2[i] = b[i]
        for j in range(A.shape[0]):
            for i in range(first, last):
                x2[i] += A[j, i] * y2[j]


@compiled
def gemver(
    A: Array, u1: Array, v1: Array, u2: Array, v2: Array, y: Array, z: Array, B: Array, x: Array, w: Array
) -> None:
    for i in prange(A.shape[0]):
        for j in range(A.shape[1]):
            B[i, j] = A[i, j] + u1[i] * v1[j] + u2[i] * v2[j]
    for block in prange((A.shape[0] + 255) // 256):
        first, last = block * 256, min(block * 256 + 256, A.shape[0])
        for i in range(first, last):
            x[i] = z[i]
        for j in range(A.shape[0]):
            for i in range(first, last):
                x[i] += 1.25 * B[j, i] * y[j]
    for i in prange(A.shape[0]):
        total = 0.0
        for j in range(A.shape[1]):
            total += 1.5 * B[i, j] * x[j]
        w[i] = total


@compiled
def gesummv(A: Array, B: Array, x: Array, y: Array) -> None:
    for i in prange(A.shape[0]):
        s = 0.0
        t = 0.0
        for j in range(A.shape[1]):
            s += A[i, j] * x[j]
            t += B[i, j] * x[j]
        y[i] = 1.5 * s + 1.25 * t


@compiled
def syrk(A: Array, C: Array, O: Array) -> None:
    for i in prange(C.shape[0]):
        for j in range(C.shape[0]):
            total = 0.0
            if j <= i:
                for k in range(A.shape[1]):
                    total += A[i, k] * A[j, k]
                total = 1.5 * total + 1.25 * C[i, j]
            O[i, j] = total


@compiled
def doitgen(A: Array, C: Array, O: Array) -> None:
    for r in prange(A.shape[0]):
        for q in range(A.shape[1]):
            for s in range(C.shape[1]):
                O[r, q, s] = 0.0
            for p in range(A.shape[2]):
                for s in range(C.shape[1]):
                    O[r, q, s] += A[r, q, p] * C[p, s]


@compiled
def covariance(X: Array, O: Array) -> None:
    rows, columns = X.shape
    mean = np.zeros(columns)
    for i in range(rows):
        for j in range(columns):
            mean[j] += X[i, j]
    y = np.zeros((rows, columns))
    for i in prange(rows):
        for j in range(columns):
            y[i, j] = X[i, j] - mean[j] / rows
    for i in prange(columns):
        for j in range(columns):
            O[i, j] = 0.0
        for k in range(rows):
            for j in range(columns):
                O[i, j] += y[k, i] * y[k, j]
        for j in range(columns):
            O[i, j] /= rows - 1


@serial
def jacobi_1d(T: int, A: Array, B: Array) -> None:
    for _ in range(T):
        for i in range(1, A.shape[0] - 1):
            B[i] = 0.3333 * (A[i - 1] + A[i] + A[i + 1])
        for i in range(1, A.shape[0] - 1):
            A[i] = 0.3333 * (B[i - 1] + B[i] + B[i + 1])


@compiled
def jacobi_2d(T: int, A: Array, B: Array) -> None:
    for _ in range(T):
        for i in prange(1, A.shape[0] - 1):
            for j in range(1, A.shape[1] - 1):
                B[i, j] = 0.2 * (A[i, j] + A[i, j - 1] + A[i, j + 1] + A[i + 1, j] + A[i - 1, j])
        for i in prange(1, A.shape[0] - 1):
            for j in range(1, A.shape[1] - 1):
                A[i, j] = 0.2 * (B[i, j] + B[i, j - 1] + B[i, j + 1] + B[i + 1, j] + B[i - 1, j])


@serial
def seidel_2d(T: int, A: Array) -> None:
    for _ in range(T):
        for i in range(1, A.shape[0] - 1):
            for j in range(1, A.shape[1] - 1):
                above = A[i - 1, j - 1] + A[i - 1, j] + A[i - 1, j + 1]
                below = A[i + 1, j - 1] + A[i + 1, j] + A[i + 1, j + 1]
                A[i, j] = (above + A[i, j - 1] + A[i, j] + A[i, j + 1] + below) / 9.0


@serial
def _heat_plane(P: Array, i: int, Q: Array) -> None:
    for j in range(1, P.shape[1] - 1):
        for k in range(1, P.shape[2] - 1):
            Q[i, j, k] = (
                0.125 * (P[i + 1, j, k] - 2.0 * P[i, j, k] + P[i - 1, j, k])
                + 0.125 * (P[i, j + 1, k] - 2.0 * P[i, j, k] + P[i, j - 1, k])
                + 0.125 * (P[i, j, k + 1] - 2.0 * P[i, j, k] + P[i, j, k - 1])
                + P[i, j, k]
            )


@compiled
def heat_3d(T: int, A: Array, B: Array) -> None:
    for _ in range(T):
        for i in prange(1, A.shape[0] - 1):
            _heat_plane(A, i, B)
        for i in prange(1, A.shape[0] - 1):
            _heat_plane(B, i, A)


@compiled
def fdtd_2d(T: int, X: Array, Y: Array, H: Array) -> None:
    rows, columns = X.shape
    for t in range(T):
        for j in range(columns):
            Y[0, j] = t
        for i in prange(1, rows):
            for j in range(columns):
                Y[i, j] = Y[i, j] - 0.5 * (H[i, j] - H[i - 1, j])
        for i in prange(rows):
            for j in range(1, columns):
                X[i, j] = X[i, j] - 0.5 * (H[i, j] - H[i, j - 1])
        for i in prange(rows - 1):
            for j in range(columns - 1):
                H[i, j] = H[i, j] - 0.7 * (X[i, j + 1] - X[i, j] + Y[i + 1, j] - Y[i, j])


@compiled
def lu(A: Array) -> None:
    size = A.shape[0]
    for k in range(size):
        for i in prange(k + 1, size):
            A[i, k] = A[i, k] / A[k, k]
            for j in range(k + 1, size):
                A[i, j] = A[i, j] - A[i, k] * A[k, j]


@serial
def trisolv(L: Array, x: Array) -> None:
    for i in range(x.shape[0]):
        total = x[i]
        for j in range(i):
            total -= L[i, j] * x[j]
        x[i] = total / L[i, i]


@compiled
def floyd_warshall(D: Array) -> None:
    size = D.shape[0]
    for k in range(size):
        for i in prange(size):
            for j in range(size):
                D[i, j] = min(D[i, j], D[i, k] + D[k, j])
