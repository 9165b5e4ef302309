"""Arguments and references, in float64, of the operators in ``examples/operators/unusual.weft``.

An argument is a text: ``A,B`` is a float32 array of these sizes, ``=K`` a number. A letter in front says what else the
elements are: ``p`` between 0 and 1, ``d`` float64, ``h`` float16, ``i`` int32, ``B`` uint8, ``b`` int8, ``u`` uint32,
``U`` uint64, those of ``i<E`` below ``E``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view as windows

#: numpy's own types say less than they should of what einsum and friends return.
Array = Any
_TYPES: dict[str, Any] = {
    "i": np.int32,
    "d": np.float64,
    "h": np.float16,
    "B": np.uint8,
    "b": np.int8,
    "u": np.uint32,
    "U": np.uint64,
}


@dataclass(frozen=True)
class Unlisted:
    arguments: tuple[str, ...]
    sizes: Mapping[str, int]
    reference: Callable[..., Any]

    def make(self, seed: int = 0, **other: int) -> list[Any]:
        rng, sizes = np.random.default_rng(seed), {**self.sizes, **other}
        return [_argument(text, sizes, rng) for text in self.arguments]

    def right(self, args: list[Any]) -> tuple[Array, ...]:
        found = self.reference(*(a.astype(np.float64) if _is_float(a) else a for a in args))
        return tuple(map(np.asarray, found if isinstance(found, tuple) else (found,)))


def _is_float(a: Any) -> bool:
    return isinstance(a, np.ndarray) and a.dtype.kind == "f"


def _argument(text: str, sizes: Mapping[str, int], rng: np.random.Generator) -> Any:
    if text.startswith("="):
        return int(eval(text[1:], {}, dict(sizes)))
    kind, _, dims = text.rpartition(" ")
    shape = tuple(int(eval(d, {}, dict(sizes))) for d in dims.split(","))
    letter, _, below = kind.partition("<")
    if below:
        return rng.integers(0, sizes.get(below) or int(below), shape).astype(_TYPES[letter])
    if letter in ("B", "b", "u", "U"):
        limits = np.iinfo(_TYPES[letter])
        return rng.integers(limits.min, limits.max, shape, dtype=_TYPES[letter], endpoint=True)
    values = rng.random(shape) if letter == "p" else rng.standard_normal(shape)
    return values.astype(_TYPES.get(letter, np.float32))


def _softmax(x: Array, axis: int = -1) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _around(x: Array, mode: Any) -> list[Array]:
    """The nine neighbours of every pixel."""
    p, (h, w) = np.pad(x, 1, mode=mode), x.shape
    return [p[y : y + h, z : z + w] for y in range(3) for z in range(3)]


def _conv(image: Array, kernel: Array, mode: Any) -> Array:
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)), mode=mode)
    return np.einsum("nchwyx,fcyx->nfhw", windows(padded, (3, 3), (2, 3)), kernel)


def _conv_transposed(image: Array, kernel: Array, step: int) -> Array:
    (n, _, h, w), (_, f, kh, kw) = image.shape, kernel.shape
    out = np.zeros((n, f, (h - 1) * step + kh, (w - 1) * step + kw))
    for y in range(kh):
        for x in range(kw):
            part = np.einsum("nchw,cf->nfhw", image, kernel[:, :, y, x])
            out[:, :, y : y + (h - 1) * step + 1 : step, x : x + (w - 1) * step + 1 : step] += part
    return out


def _deformable(image: Array, kernel: Array, down: Array, right: Array) -> Array:
    _, height, width = image.shape
    taps, oh, ow = down.shape
    rows = np.clip(np.arange(oh)[:, None] + down, 0, height - 1)
    columns = np.clip(np.arange(ow) + right, 0, width - 1)
    return sum(np.einsum("chw,fc->fhw", image[:, rows[k], columns[k]], kernel[:, :, k]) for k in range(taps))


def _focal(x: Array, y: Array) -> Array:
    p = np.log(_softmax(x)[np.arange(len(y)), y])
    return (-((1 - np.exp(p)) ** 2) * p).mean()


def _huber(x: Array, y: Array, d: float) -> Array:
    r = abs(x - y)
    return np.where(r <= d, r * r / 2, d * (r - d / 2)).sum()


def _distances(x: Array, c: Array) -> Array:
    return ((x[:, None] - c) ** 2).sum(2)


def _rotary(x: Array, c: Array, s: Array) -> Array:
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def _alibi(q: Array, k: Array, v: Array, m: Array) -> Array:
    at = np.arange(q.shape[1])
    return _softmax(q @ k.swapaxes(1, 2) - m[:, None, None] * abs(at[:, None] - at)) @ v


def _window_attention(q: Array, k: Array, v: Array, width: int) -> Array:
    at = np.arange(q.shape[1])
    seen = (at <= at[:, None]) & (at > at[:, None] - width)
    return _softmax(np.where(seen, q @ k.swapaxes(1, 2), -np.inf)) @ v


def _grouped_attention(q: Array, k: Array, v: Array) -> Array:
    k, v = (np.repeat(a, len(q) // len(k), 0) for a in (k, v))
    return _softmax(q @ k.swapaxes(1, 2)) @ v


def _top_expert(x: Array, w: Array) -> tuple[Array, Array]:
    p = _softmax(x @ w)
    return np.where(np.arange(p.shape[1]) == p.argmax(1)[:, None], p, 0), p.argmax(1)


def _scatter_mean(x: Array, i: Array, n: int) -> Array:
    out = np.zeros((n, x.shape[1]))
    np.add.at(out, i, x)
    return out / np.maximum(np.bincount(i, minlength=n), 1)[:, None]


def _moving_average(x: Array, a: Array) -> Array:
    out, last = np.zeros_like(x), np.zeros(len(a))
    for t in range(x.shape[1]):
        out[:, t] = last = (1 - a) * last + a * x[:, t]
    return out


def _edit_distance(a: Array, b: Array) -> Array:
    d = np.add.outer(np.arange(len(a) + 1), np.arange(len(b) + 1))
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (a[i - 1] != b[j - 1]))
    return d


def _wavelet(x: Array, g: Array) -> tuple[Array, Array]:
    w = windows(np.concatenate([x, x[:, :3]], 1), 4, 1)[:, ::2]
    return w @ g, w @ (g[::-1] * [1, -1, 1, -1])


def _sobel(image: Array) -> Array:
    n = _around(image, "edge")
    return np.hypot(n[2] + 2 * n[5] + n[8] - n[0] - 2 * n[3] - n[6], n[6] + 2 * n[7] + n[8] - n[0] - 2 * n[1] - n[2])


def _peaks(image: Array) -> Array:
    return np.where((image == np.max(_around(image, "edge"), 0)) & (image > 0.5), image, 0)


def _life(board: Array) -> Array:
    alive = sum(_around(board.astype(int), "wrap"))
    return (alive == 3) | ((board == 1) & (alive == 4))


def _reaction(u: Array, v: Array) -> Array:
    n = _around(u, "wrap")
    return u + 0.16 * (n[1] + n[3] + n[5] + n[7] - 4 * u) - u * v * v


def _pixel_shuffle(image: Array, r: int) -> Array:
    c, h, w = image.shape
    return image.reshape(c // r**2, r, r, h, w).transpose(0, 3, 1, 4, 2).reshape(c // r**2, h * r, w * r)


def _hash(x: Array) -> Array:
    a = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    return a ^ (a >> np.uint32(15))


def _hamming(a: Array, b: Array) -> Array:
    return np.array([[sum((int(x) ^ int(y)).bit_count() for x, y in zip(r, s)) for s in b] for r in a])


def _quantize_rows(x: Array) -> tuple[Array, Array]:
    scale = abs(x).max(1) / 127
    return np.rint(x / scale[:, None]), scale


def _kendall(x: Array, y: Array) -> Array:
    return np.tril(np.where((x[:, None] - x) * (y[:, None] - y) > 0, 1, -1), -1).sum()


def _forces(x: Array, y: Array, m: Array) -> tuple[Array, Array]:
    d = ((x[:, None] - x) ** 2 + (y[:, None] - y) ** 2 + 0.01) ** -1.5
    return (m * (x - x[:, None]) * d).sum(1), (m * (y - y[:, None]) * d).sum(1)


_SQUARE, _IMAGES = {"H": 19, "W": 37}, {"N": 2, "C": 3, "H": 9, "W": 20, "F": 5}
_HEADS = {"H": 4, "G": 2, "S": 9, "T": 7, "D": 5, "E": 6, "K": 3}

OPERATORS: dict[str, Unlisted] = {
    "tensordot3": Unlisted(
        ("A,B,C", "C,D", "D,B,E"),
        {"A": 7, "B": 3, "C": 5, "D": 4, "E": 9},
        lambda x, y, z: np.einsum("abc,cd,dbe->ae", x, y, z, optimize=True),
    ),
    "mahalanobis": Unlisted(
        ("M,D", "N,D", "D,D"),
        {"M": 5, "N": 17, "D": 6},
        lambda x, y, p: np.einsum("mni,ij,mnj->mn", x[:, None] - y, p, x[:, None] - y),
    ),
    "bilinear": Unlisted(
        ("B,I", "O,I,J", "B,J"), {"B": 4, "I": 5, "J": 6, "O": 3}, lambda x, w, y: np.einsum("bi,oij,bj->bo", x, w, y)
    ),
    "repeated": Unlisted(("N,M,N", "N,M"), {"N": 5, "M": 18}, lambda a, b: np.einsum("imi,im->m", a, b)),
    "khatri_rao": Unlisted(
        ("I,R", "J,R"), {"I": 5, "J": 4, "R": 3}, lambda a, b: (a[:, None] * b).reshape(-1, a.shape[1])
    ),
    "mttkrp": Unlisted(
        ("I,J,K", "J,R", "K,R"),
        {"I": 5, "J": 4, "K": 6, "R": 17},
        lambda x, b, c: np.einsum("ijk,jr,kr->ir", x, b, c),
    ),
    "gram": Unlisted(("N,K",), {"N": 37, "K": 21}, lambda a: a @ a.T),
    "upper_gram": Unlisted(("N,K",), {"N": 37, "K": 21}, lambda a: np.triu(a @ a.T)),
    "circulant": Unlisted(
        ("N", "N,M"), {"N": 19, "M": 16}, lambda c, x: c[np.subtract.outer(np.arange(len(c)), np.arange(len(c)))] @ x
    ),
    "log_matmul": Unlisted(
        ("M,K", "K,N"), {"M": 5, "K": 6, "N": 17}, lambda a, b: np.log(np.exp(a[:, :, None] + b).sum(1))
    ),
    "conv3d": Unlisted(
        ("N,C,D,H,W", "F,C,3,3,3"),
        {**_IMAGES, "D": 5},
        lambda i, k: np.einsum("ncdhwxyz,fcxyz->nfdhw", windows(i, (3, 3, 3), (2, 3, 4)), k, optimize=True),
    ),
    "conv_transposed": Unlisted(("N,C,H,W", "C,F,4,4", "=2"), _IMAGES, _conv_transposed),
    "conv_edge": Unlisted(("N,C,H,W", "F,C,3,3"), _IMAGES, lambda i, k: _conv(i, k, "edge")),
    "conv_wrap": Unlisted(("N,C,H,W", "F,C,3,3"), _IMAGES, lambda i, k: _conv(i, k, "wrap")),
    "conv_reflect": Unlisted(
        ("N,H,W,C", "3,3,C,F"),
        _IMAGES,
        lambda i, k: _conv(i.transpose(0, 3, 1, 2), k.transpose(3, 2, 0, 1), "reflect").transpose(0, 2, 3, 1),
    ),
    "locally_connected": Unlisted(
        ("N,C,H,W", "F,H-2,W-2,C,3,3"),
        _IMAGES,
        lambda i, k: np.einsum("nchwyx,fhwcyx->nfhw", windows(i, (3, 3), (2, 3)), k, optimize=True),
    ),
    "deformable": Unlisted(("C,H,W", "F,C,4", "i<4 4,H-2,W-2", "i<4 4,H-2,W-2"), _IMAGES, _deformable),
    "softmax_middle": Unlisted(("A,B,C",), {"A": 3, "B": 4, "C": 19}, lambda x: _softmax(x, 1)),
    "focal_loss": Unlisted(("M,N", "i<N M"), {"M": 5, "N": 37}, _focal),
    "huber": Unlisted(("N", "N", "=2"), {"N": 133}, _huber),
    "nearest_code": Unlisted(
        ("M,D", "K,D"),
        {"M": 9, "D": 5, "K": 4},
        lambda x, c: (c[_distances(x, c).argmin(1)], _distances(x, c).argmin(1)),
    ),
    "rotary": Unlisted(("H,S,2*E", "S,E", "S,E"), {**_HEADS, "E": 16}, _rotary),
    "alibi": Unlisted(("H,S,D", "H,S,D", "H,S,E", "p H"), _HEADS, _alibi),
    "window_attention": Unlisted(("H,S,D", "H,S,D", "H,S,E", "=K"), _HEADS, _window_attention),
    "grouped_attention": Unlisted(("H,S,D", "G,T,D", "G,T,E"), _HEADS, _grouped_attention),
    "top_expert": Unlisted(("T,D", "D,E"), {"T": 5, "D": 6, "E": 17}, _top_expert),
    "bag_mean": Unlisted(
        ("V,D", "i<V B,L", "p B,L"),
        {"V": 7, "D": 19, "B": 4, "L": 5},
        lambda e, i, w: np.einsum("bld,bl->bd", e[i], w) / w.sum(1)[:, None],
    ),
    "scatter_mean": Unlisted(("E,D", "i<N E", "=N"), {"E": 20, "D": 3, "N": 6}, _scatter_mean),
    "histogram": Unlisted(
        ("p N", "=K"), {"N": 90, "K": 8}, lambda x, k: np.bincount((x * k).astype(int).clip(0, k - 1), minlength=k)
    ),
    "moving_average": Unlisted(("C,T", "p C"), {"C": 19, "T": 9}, _moving_average),
    "prefix_max": Unlisted(("N",), {"N": 29}, np.maximum.accumulate),
    "edit_distance": Unlisted(("i<4 M", "i<4 N"), {"M": 19, "N": 23}, _edit_distance),
    "wavelet": Unlisted(("M,N", "4"), {"M": 3, "N": 74}, _wavelet),
    "sobel": Unlisted(("H,W",), _SQUARE, _sobel),
    "peaks": Unlisted(("p H,W",), _SQUARE, _peaks),
    "median3": Unlisted(("H,W",), _SQUARE, lambda i: np.median(_around(i, "edge")[3:6], 0)),
    "life": Unlisted(("B<2 H,W",), _SQUARE, _life),
    "reaction": Unlisted(("p H,W", "p H,W"), _SQUARE, _reaction),
    "pixel_shuffle": Unlisted(("4*C,H,W", "=2"), _IMAGES, _pixel_shuffle),
    "hash": Unlisted(("u N",), {"N": 77}, _hash),
    "hamming": Unlisted(("U M,W", "U N,W"), {"M": 5, "N": 17, "W": 2}, _hamming),
    "quantized": Unlisted(
        ("B M,K", "b K,N", "N", "=128"),
        {"M": 5, "K": 7, "N": 18},
        lambda a, b, s, z: ((a.astype(int) - z) @ b.astype(int)) * s,
    ),
    "quantize_rows": Unlisted(("M,N",), {"M": 3, "N": 137}, _quantize_rows),
    "mixed": Unlisted(("h V,D", "B<V N", "d D"), {"V": 7, "D": 5, "N": 9}, lambda e, i, w: e[i] @ w),
    "kendall": Unlisted(("N", "N"), {"N": 79}, _kendall),
    "lower_product": Unlisted(("N,N", "N,M"), {"N": 23, "M": 18}, lambda a, x: np.tril(a) @ x),
    "forces": Unlisted(("N", "N", "p N"), {"N": 37}, _forces),
    "means_step": Unlisted(
        ("N,D", "K,D"),
        {"N": 20, "D": 3, "K": 4},
        lambda x, c: _scatter_mean(x, _distances(x, c).argmin(1), len(c)),
    ),
}
