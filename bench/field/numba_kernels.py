"""Loops as one would write them by hand for numba: outer loops in parallel, inner ones for its vectorizer.

Each kernel writes to arrays it is given. Only families where such loops are what one would write are here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, prange

parallel = njit(parallel=True, fastmath=True)
Array = np.ndarray[Any, Any]
_HALF_ROOT = 0.7071067811865476


@parallel
def l1_distance(x: Array, y: Array, out: Array) -> None:
    for m in prange(x.shape[0]):
        for n in range(y.shape[0]):
            total = np.float32(0)
            for k in range(x.shape[1]):
                total += abs(x[m, k] - y[n, k])
            out[m, n] = total


@parallel
def max_plus(a: Array, b: Array, out: Array) -> None:
    for m in prange(a.shape[0]):
        out[m, :] = -np.inf
        for k in range(a.shape[1]):
            left = a[m, k]
            for n in range(b.shape[1]):
                out[m, n] = max(out[m, n], left + b[k, n])


@parallel
def min_distance(x: Array, y: Array, out: Array) -> None:
    for m in prange(x.shape[0]):
        least = np.float32(np.inf)
        for n in range(y.shape[0]):
            total = np.float32(0)
            for k in range(x.shape[1]):
                apart = x[m, k] - y[n, k]
                total += apart * apart
            least = min(least, total)
        out[m] = least


@parallel
def argmin_distance(x: Array, y: Array, out: Array) -> None:
    for m in prange(x.shape[0]):
        least, where = np.float32(np.inf), 0
        for n in range(y.shape[0]):
            total = np.float32(0)
            for k in range(x.shape[1]):
                apart = x[m, k] - y[n, k]
                total += apart * apart
            if total < least:
                least, where = total, n
        out[m] = where


@parallel
def bilateral(image: Array, near: Array, radius: int, out: Array) -> None:
    for y in prange(out.shape[0]):
        total = np.zeros(out.shape[1], np.float32)
        weights = np.zeros(out.shape[1], np.float32)
        for dy in range(near.shape[0]):
            for dx in range(near.shape[1]):
                for x in range(out.shape[1]):
                    other = image[y + dy, x + dx]
                    apart = other - image[y + radius, x + radius]
                    weight = near[dy, dx] * np.float32(math.exp(-apart * apart))
                    total[x] += weight * other
                    weights[x] += weight
        for x in range(out.shape[1]):
            out[y, x] = total[x] / weights[x]


@parallel
def blur(a: Array, out: Array) -> None:
    third = np.float32(1 / 3)
    for y in prange(out.shape[0]):
        for x in range(out.shape[1]):
            top = (a[y, x] + a[y, x + 1] + a[y, x + 2]) * third
            middle = (a[y + 1, x] + a[y + 1, x + 1] + a[y + 1, x + 2]) * third
            bottom = (a[y + 2, x] + a[y + 2, x + 1] + a[y + 2, x + 2]) * third
            out[y, x] = (top + middle + bottom) * third


@parallel
def lookup(table: Array, index: Array, out: Array) -> None:
    for b in prange(index.shape[0]):
        out[b, :] = 0
        for i in range(index.shape[1]):
            row = index[b, i]
            for d in range(table.shape[1]):
                out[b, d] += table[row, d]


@njit
def two_lookups(table1: Array, index1: Array, table2: Array, index2: Array, out1: Array, out2: Array) -> None:
    lookup(table1, index1, out1)
    lookup(table2, index2, out2)


@parallel
def sum_rows(a: Array, out: Array) -> None:
    for m in prange(a.shape[0]):
        total = np.float32(0)
        for n in range(a.shape[1]):
            total += a[m, n]
        out[m] = total


@parallel
def sum_columns(a: Array, out: Array) -> None:
    blocks = (a.shape[1] + 255) // 256
    for block in prange(blocks):
        first, last = block * 256, min(block * 256 + 256, a.shape[1])
        out[first:last] = 0
        for m in range(a.shape[0]):
            for n in range(first, last):
                out[n] += a[m, n]


@parallel
def sum_all(a: Array, out: Array) -> None:
    total = np.float32(0)
    for m in prange(a.shape[0]):
        row = np.float32(0)
        for n in range(a.shape[1]):
            row += a[m, n]
        total += row
    out[()] = total


@parallel
def transpose(a: Array, out: Array) -> None:
    rows, columns, tile = a.shape[0], a.shape[1], 32
    for block in prange((rows + tile - 1) // tile):
        for start in range(0, columns, tile):
            for n in range(start, min(start + tile, columns)):
                for m in range(block * tile, min(block * tile + tile, rows)):
                    out[n, m] = a[m, n]


@parallel
def softmax(x: Array, out: Array) -> None:
    for m in prange(x.shape[0]):
        top = x[m, 0]
        for n in range(x.shape[1]):
            top = max(top, x[m, n])
        total = np.float32(0)
        for n in range(x.shape[1]):
            out[m, n] = math.exp(x[m, n] - top)
            total += out[m, n]
        scale = np.float32(1) / total
        for n in range(x.shape[1]):
            out[m, n] *= scale


@parallel
def log_softmax(x: Array, out: Array) -> None:
    for m in prange(x.shape[0]):
        top = x[m, 0]
        for n in range(x.shape[1]):
            top = max(top, x[m, n])
        total = np.float32(0)
        for n in range(x.shape[1]):
            total += np.float32(math.exp(x[m, n] - top))
        shift = top + np.float32(math.log(total))
        for n in range(x.shape[1]):
            out[m, n] = x[m, n] - shift


@parallel
def layer_norm(x: Array, gain: Array, shift: Array, out: Array) -> None:
    size = np.float32(x.shape[1])
    for m in prange(x.shape[0]):
        total = np.float32(0)
        for n in range(x.shape[1]):
            total += x[m, n]
        mean, squares = total / size, np.float32(0)
        for n in range(x.shape[1]):
            squares += (x[m, n] - mean) * (x[m, n] - mean)
        scale = np.float32(1) / np.float32(math.sqrt(squares / size + np.float32(1e-5)))
        for n in range(x.shape[1]):
            out[m, n] = (x[m, n] - mean) * scale * gain[n] + shift[n]


@parallel
def rms_norm(x: Array, gain: Array, out: Array) -> None:
    for m in prange(x.shape[0]):
        squares = np.float32(0)
        for n in range(x.shape[1]):
            squares += x[m, n] * x[m, n]
        scale = np.float32(1) / np.float32(math.sqrt(squares / np.float32(x.shape[1]) + np.float32(1e-5)))
        for n in range(x.shape[1]):
            out[m, n] = x[m, n] * scale * gain[n]


@parallel
def bias_gelu(x: Array, bias: Array, out: Array) -> None:
    for m in prange(x.shape[0]):
        for n in range(x.shape[1]):
            t = x[m, n] + bias[n]
            out[m, n] = t * np.float32(0.5) * (np.float32(1) + np.float32(math.erf(t * np.float32(_HALF_ROOT))))


@parallel
def depthwise(image: Array, kernel: Array, pad: int, out: Array) -> None:
    height, width = image.shape[2], image.shape[3]
    for c in prange(image.shape[1]):
        for n in range(image.shape[0]):
            out[n, c] = 0
            for h in range(out.shape[2]):
                for kh in range(max(0, pad - h), min(kernel.shape[1], height + pad - h)):
                    for kw in range(kernel.shape[2]):
                        for w in range(max(0, pad - kw), min(out.shape[3], width + pad - kw)):
                            out[n, c, h, w] += image[n, c, h + kh - pad, w + kw - pad] * kernel[c, kh, kw]


@parallel
def max_pool(image: Array, size: int, step: int, out: Array) -> None:
    for plane in prange(image.shape[0] * image.shape[1]):
        n, c = plane // image.shape[1], plane % image.shape[1]
        for h in range(out.shape[2]):
            for w in range(out.shape[3]):
                top = np.float32(-np.inf)
                for kh in range(size):
                    for kw in range(size):
                        top = max(top, image[n, c, step * h + kh, step * w + kw])
                out[n, c, h, w] = top


@parallel
def avg_pool(image: Array, size: int, step: int, out: Array) -> None:
    scale = np.float32(1 / (size * size))
    for plane in prange(image.shape[0] * image.shape[1]):
        n, c = plane // image.shape[1], plane % image.shape[1]
        for h in range(out.shape[2]):
            for w in range(out.shape[3]):
                total = np.float32(0)
                for kh in range(size):
                    for kw in range(size):
                        total += image[n, c, step * h + kh, step * w + kw]
                out[n, c, h, w] = total * scale


KERNELS: dict[str, Callable[..., None]] = {
    "L1 distance": l1_distance,
    "max-plus": max_plus,
    "min distance": min_distance,
    "argmin distance": argmin_distance,
    "bilateral": bilateral,
    "blur 3x3": blur,
    "1LUT": lookup,
    "2LUT": two_lookups,
    "sums of rows": sum_rows,
    "sums of columns": sum_columns,
    "sum of all": sum_all,
    "transpose": transpose,
    "softmax": softmax,
    "log softmax": log_softmax,
    "layer norm": layer_norm,
    "RMS norm": rms_norm,
    "bias+GELU": bias_gelu,
    "depthwise conv": depthwise,
    "max pool": max_pool,
    "avg pool": avg_pool,
}
