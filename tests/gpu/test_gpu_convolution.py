"""Convolutions on a device, as implicit products, against NumPy's float64."""

from __future__ import annotations

import numpy as np
import pytest

import weft


def wanted(x: np.ndarray, v: np.ndarray, stride: int, pad: int, apart: int, size: int) -> np.ndarray:
    """Channels last."""
    x, v = x.astype(np.float64), v.astype(np.float64)
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    found = np.zeros((x.shape[0], size, size, v.shape[0]))
    reach = stride * (size - 1) + 1
    for p in range(v.shape[1]):
        for q in range(v.shape[2]):
            y, z = p * apart, q * apart
            part = x[:, y : y + reach : stride, z : z + reach : stride]
            found += part @ v[:, p, q].T
    return found


@pytest.mark.parametrize("seed", range(24))
def test_random_convolutions(seed: int) -> None:
    """Any sizes, both layouts, windows, strides, spacings, channels that the copy engine can fetch and others."""
    rng = np.random.default_rng(seed)
    n, h = int(rng.integers(1, 9)), int(rng.integers(5, 30))
    c, f = (int(rng.integers(1, 20)) * int(rng.choice([4, 8, 16])) for _ in range(2))
    k, stride, apart = int(rng.choice([1, 3, 5])), int(rng.choice([1, 1, 2])), int(rng.choice([1, 1, 2]))
    first, pad = bool(rng.integers(2)), apart * (k // 2)
    size = (h + 2 * pad - apart * (k - 1) - 1) // stride + 1
    y, x = (f"{stride}*{o} + {apart}*{tap} - {pad}" for o, tap in (("h", "p"), ("w", "q")))
    pixel, weight, at = (f"n,c,{y},{x}", "f,c,p,q", "n,f,h,w") if first else (f"n,{y},{x},c", "f,p,q,c", "n,h,w,f")
    shown = at.upper().replace("H", str(size)).replace("W", str(size))
    text = f"""def conv(bfloat16({"N,C,H,W" if first else "N,H,W,C"}) X, bfloat16({weight.upper()}) V, bfloat16(F) B)
        -> (bfloat16({shown}) O) {{
        S({at}) +=! X({pixel}) * V({weight}) where h in 0:{size}, w in 0:{size}, X outside zero
        O({at}) = max(S({at}) + B(f), 0)
    }}"""
    dtype = weft.numpy_dtype("bfloat16")
    images, weights, bias = (rng.standard_normal(s).astype(dtype) for s in ((n, h, h, c), (f, k, k, c), (f,)))
    given = [np.ascontiguousarray(a.transpose(0, 3, 1, 2)) if first else a for a in (images, weights)]
    got = weft.define(text)(*map(weft.cuda.DeviceArray.from_numpy, (*given, bias)))
    weft.cuda.synchronize()
    right = np.maximum(wanted(images, weights, stride, pad, apart, size) + bias.astype(np.float64), 0)
    result = got.numpy().astype(np.float64)
    result = result.transpose(0, 2, 3, 1) if first else result
    assert np.linalg.norm(result - right) < 6e-3 * np.linalg.norm(right) + 1e-6, text
