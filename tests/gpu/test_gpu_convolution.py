"""Convolutions on a device, as implicit products, and their gradients, against NumPy's float64."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import weft

sys.path.insert(0, str(Path(__file__).parents[1] / "property"))
from matrix_programs import MatrixProgram


@dataclass(frozen=True)
class Drawn:
    """Sizes, and how windows lie."""

    images: int
    size: int
    groups: int
    channels: int
    filters: int
    window: int
    stride: int
    apart: int
    pad: int
    first: bool
    done: str

    @staticmethod
    def draw(seed: int, *, few: bool = False) -> Drawn:
        """Sizes of all kinds, or ``few`` channels of several groups."""
        rng = np.random.default_rng(seed)
        window, apart = int(rng.choice([1, 1, 3, 3, 5])), int(rng.choice([1, 1, 2]))
        pad = int(rng.integers(0, apart * (window // 2) + 1))
        size = int(rng.integers(apart * (window - 1) + 1, 30))
        channels, filters = (int(rng.integers(1, 20)) * int(rng.choice([4, 8, 16])) for _ in range(2))
        groups = int(rng.choice([1, 1, 1, 2, 3]))
        if few:
            channels, filters = int(rng.choice([1, 2, 3, 4, 8, 12, 24])), int(rng.choice([2, 4, 8, 16, 32, 40]))
            groups = int(rng.choice([1, 1, 4, 10]))
        return Drawn(
            int(rng.integers(1, 9)), size, groups, channels, filters, window,
            int(rng.choice([1, 1, 2])), apart, pad, bool(rng.integers(2)), str(rng.choice(list(DONE))),
        )  # fmt: skip

    @property
    def result(self) -> int:
        return (self.size + 2 * self.pad - self.apart * (self.window - 1) - 1) // self.stride + 1

    @property
    def text(self) -> str:
        y, x = (f"{self.stride}*{o} + {self.apart}*{tap} - {self.pad}" for o, tap in (("h", "p"), ("w", "q")))
        if self.first:
            pixel, weight, at = f"n,g,c,{y},{x}", "g,f,c,p,q", "n,g,f,h,w"
        else:
            pixel, weight, at = f"n,{y},{x},g,c", "g,f,p,q,c", "n,h,w,g,f"
        shown = at.upper().replace("H", str(self.result)).replace("W", str(self.result))
        axes = "N,G,C,H,W" if self.first else "N,H,W,G,C"
        more = ", bfloat16(G,F) B" if "B(" in DONE[self.done] else ""
        more += f", bfloat16({shown}) R" if "R(" in DONE[self.done] else ""
        outside = ", X outside zero" if self.pad else ""
        return f"""def conv(bfloat16({axes}) X, bfloat16({weight.upper()}) V{more}) -> (bfloat16({shown}) O) {{
            S({at}) +=! X({pixel}) * V({weight}) where h in 0:{self.result}, w in 0:{self.result}{outside}
            O({at}) = {DONE[self.done].replace("at", at)}
        }}"""


DONE = {
    "": "S(at)",
    "bias, ReLU": "max(S(at) + B(g,f), 0)",
    "residual": "max(S(at) + B(g,f) + R(at), 0)",
    "scaled": "S(at) * 0.5",
}


def wanted(x: np.ndarray, v: np.ndarray, d: Drawn) -> np.ndarray:
    """Images ``n,h,w,g,c`` and weights ``g,f,p,q,c``; results ``n,h,w,g,f``."""
    x, v = x.astype(np.float64), v.astype(np.float64)
    x = np.pad(x, ((0, 0), (d.pad, d.pad), (d.pad, d.pad), (0, 0), (0, 0)))
    reach = d.stride * (d.result - 1) + 1
    found = np.zeros((d.images, d.result, d.result, d.groups, d.filters))
    for p in range(d.window):
        for q in range(d.window):
            y, z = p * d.apart, q * d.apart
            part = x[:, y : y + reach : d.stride, z : z + reach : d.stride]
            found += np.einsum("nhwgc,gfc->nhwgf", part, v[:, :, p, q])
    return found


def finished(sums: np.ndarray, d: Drawn, bias: np.ndarray, residual: np.ndarray) -> np.ndarray:
    wide = sums * 0.5 if d.done == "scaled" else sums
    wide = wide + bias if "B(" in DONE[d.done] else wide
    wide = wide + residual if "R(" in DONE[d.done] else wide
    return np.maximum(wide, 0) if "max" in DONE[d.done] else wide


def drawn_convolution(seed: int, *, small: bool = False) -> MatrixProgram:
    """Any sizes, both layouts, groups, windows, strides, spacings, zeros around, and what is done with sums; channels
    that the copy engine can fetch and others; of every third draw few, in several groups. Of every five draws one is a
    gradient of weights, and one is transposed."""
    if seed % 5 in (3, 4):
        return (drawn_gradient if seed % 5 == 3 else drawn_transposed)(seed, small=small)
    d, rng = Drawn.draw(seed, few=seed % 3 == 2), np.random.default_rng(seed)
    if small:
        d = replace(d, images=min(d.images, 2), size=min(d.size, 9 + d.size % 5), groups=min(d.groups, 2),
                    channels=min(d.channels, 72), filters=min(d.filters, 72))  # fmt: skip
    dtype = weft.numpy_dtype("bfloat16")
    shapes = [
        (d.images, d.size, d.size, d.groups, d.channels), (d.groups, d.filters, d.window, d.window, d.channels),
        (d.groups, d.filters), (d.images, d.result, d.result, d.groups, d.filters),
    ]  # fmt: skip
    x, v, bias, residual = (rng.standard_normal(s).astype(dtype) for s in shapes)
    orders = ((0, 3, 4, 1, 2), (0, 1, 4, 2, 3)) if d.first else ((0, 1, 2, 3, 4),) * 2
    given = [x.transpose(orders[0]), v.transpose(orders[1])]
    given += [bias] if "B(" in DONE[d.done] else []
    given += [residual.transpose(orders[0])] if "R(" in DONE[d.done] else []
    right = finished(wanted(x, v, d), d, *(a.astype(np.float64) for a in (bias, residual))).transpose(orders[0])
    return MatrixProgram(d.text, "fast", [*map(np.ascontiguousarray, given)], [right], 6e-3)


def _arrays(rng: np.random.Generator, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [rng.standard_normal(s).astype(weft.numpy_dtype("bfloat16")) for s in shapes]


def drawn_gradient(seed: int, *, small: bool = False) -> MatrixProgram:
    """Of the weights of a convolution, channels last or first."""
    d, rng = Drawn.draw(seed), np.random.default_rng(seed)
    if small:
        d = replace(d, images=min(d.images, 2), size=min(d.size, 9 + d.size % 5), channels=min(d.channels, 72),
                    filters=min(d.filters, 72))  # fmt: skip
    y, x = (f"{d.stride}*{o} + {d.apart}*{tap} - {d.pad}" for o, tap in (("h", "p"), ("w", "q")))
    at = (
        ("n,f,h,w", f"n,c,{y},{x}", "N,F,H,W", "N,C,A,B")
        if d.first
        else ("n,h,w,f", f"n,{y},{x},c", "N,H,W,F", "N,A,B,C")
    )
    outside = ", X outside zero" if d.pad else ""
    text = f"""def grad(bfloat16({at[2]}) E, bfloat16({at[3]}) X) -> (bfloat16 O) {{
        S(f,p,q,c) +=! E({at[0]}) * X({at[1]}) where p in 0:{d.window}, q in 0:{d.window}{outside}
        O(f,p,q,c) = S(f,p,q,c)
    }}"""
    e, image = _arrays(rng, (d.images, d.result, d.result, d.filters), (d.images, d.size, d.size, d.channels))
    wide = np.pad(image.astype(np.float64), ((0, 0), (d.pad, d.pad), (d.pad, d.pad), (0, 0)))
    right, reach = np.zeros((d.filters, d.window, d.window, d.channels)), d.stride * (d.result - 1) + 1
    for p in range(d.window):
        for q in range(d.window):
            part = wide[:, p * d.apart :, q * d.apart :][:, : reach : d.stride, : reach : d.stride]
            right[:, p, q] = np.einsum("nhwf,nhwc->fc", e.astype(np.float64), part)
    given = [a.transpose(0, 3, 1, 2) if d.first else a for a in (e, image)]
    return MatrixProgram(text, "fast", [*map(np.ascontiguousarray, given)], [right], 6e-3)


def drawn_transposed(seed: int, *, small: bool = False) -> MatrixProgram:
    """Each result from the taps that reach it: windows, strides, what is left out around and added behind."""
    d, rng = Drawn.draw(seed), np.random.default_rng(seed)
    stride, window = int(rng.choice([2, 2, 3])), int(rng.integers(1, 6))
    pad, more = int(rng.integers(0, (window + 1) // 2)), int(rng.integers(0, stride))
    size, channels, filters = d.size, d.channels, d.filters
    if small:
        size, channels, filters = min(size, 5 + size % 4), min(channels, 72), min(filters, 72)
    result = (size - 1) * stride + window - 2 * pad + more
    y, x = (f"{o} + {pad} - {tap}" for o, tap in (("y", "p"), ("x", "q")))
    bias, done = (", bfloat16(F) B", "max(S(n,y,x,f) + B(f), 0)") if seed % 2 else ("", "S(n,y,x,f)")
    text = f"""def up(bfloat16(N,H,W,C) X, bfloat16(C,P,Q,F) V{bias}) -> (bfloat16(N,{result},{result},F) O) {{
        S(n,y,x,f) +=! (({y}) % {stride} == 0 && ({x}) % {stride} == 0) ?
            X(n,({y})/{stride},({x})/{stride},c) * V(c,p,q,f) : 0
            where y in 0:{result}, x in 0:{result}, X outside zero
        O(n,y,x,f) = {done}
    }}"""
    images = min(d.images, 2) if small else d.images
    shapes = ((images, size, size, channels), (channels, window, window, filters), (filters,))
    image, weights, added = _arrays(rng, *shapes)
    whole, reach = np.zeros((images, *(result + 2 * pad,) * 2, filters)), (size - 1) * stride + 1
    for p in range(window):
        for q in range(window):
            product = image.astype(np.float64) @ weights[:, p, q].astype(np.float64)
            whole[:, p : p + reach : stride, q : q + reach : stride] += product
    right = whole[:, pad : pad + result, pad : pad + result]
    right = np.maximum(right + added.astype(np.float64), 0) if bias else right
    return MatrixProgram(text, "fast", [image, weights, *([added] if bias else [])], [right], 6e-3)


GRADIENTS = {
    "input": """def grad(bfloat16(N,H,W,F) E, bfloat16(F,P,Q,C) V) -> (bfloat16 O) {
        S(n,y,x,c) +=! E(n,y+1-p,x+1-q,f) * V(f,p,q,c) where y in 0:H, x in 0:W, E outside zero
        O(n,y,x,c) = S(n,y,x,c)
    }""",
    "weights": """def grad(bfloat16(N,H,W,F) E, bfloat16(N,H,W,C) X) -> (bfloat16 O) {
        S(f,p,q,c) +=! E(n,h,w,f) * X(n,h+p-1,w+q-1,c) where p in 0:3, q in 0:3, X outside zero
        O(f,p,q,c) = S(f,p,q,c)
    }""",
}


def gradient(of: str, e: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Of a window of 3 x 3 with one zero around."""
    moved = [(p, q) for p in range(3) for q in range(3)]
    h, w = e.shape[1:3]
    if of == "input":
        wide = np.pad(e, ((0, 0), (1, 1), (1, 1), (0, 0)))
        return sum(wide[:, 2 - p : 2 - p + h, 2 - q : 2 - q + w] @ other[:, p, q] for p, q in moved)  # type: ignore[no-any-return]
    wide = np.pad(other, ((0, 0), (1, 1), (1, 1), (0, 0)))
    parts = [np.einsum("nhwf,nhwc->fc", e, wide[:, p : p + h, q : q + w]) for p, q in moved]
    return np.stack(parts, 1).reshape(e.shape[3], 3, 3, -1)


@pytest.mark.parametrize("of", GRADIENTS)
def test_gradients(of: str) -> None:
    rng = np.random.default_rng(0)
    shapes = [(3, 14, 12, 64), (64, 3, 3, 128) if of == "input" else (3, 14, 12, 128)]
    args = [rng.standard_normal(s).astype(weft.numpy_dtype("bfloat16")) for s in shapes]
    got = weft.define(GRADIENTS[of])(*map(weft.cuda.DeviceArray.from_numpy, args))
    weft.cuda.synchronize()
    right = gradient(of, *(a.astype(np.float64) for a in args))
    assert np.linalg.norm(got.numpy().astype(np.float64) - right) < 6e-3 * np.linalg.norm(right)
