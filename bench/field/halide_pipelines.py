"""Families as Halide pipelines: what to compute, and nothing on how; its autoscheduler decides that.

A buffer's first coordinate is the last of numpy's. Reductions are written as an update of a stage of their own.
Padded convolutions and sums of long rows are left out: compiling what the autoscheduler makes of them takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import halide as hl

Buffers = dict[str, Any]
Sizes = dict[str, int]
x, y, z, w = (hl.Var(name) for name in "xyzw")
_HALF_ROOT = 0.7071067811865476


def _stage(name: str, at: tuple[Any, ...], value: Any) -> Any:
    func = hl.Func(name)
    func[at] = value
    return func


def _sum(name: str, at: tuple[Any, ...], term: Any) -> Any:
    func = _stage(name, at, hl.f32(0))
    func[at] += term
    return func


def _greatest(name: str, at: tuple[Any, ...], term: Any) -> Any:
    func = _stage(name, at, hl.f32(float("-inf")))
    func[at] = hl.max(func[at], term)
    return func


def _over(*sizes: int) -> Any:
    return hl.RDom([(0, n) for n in sizes])


def _matmul(b: Buffers, s: Sizes) -> Any:
    k = _over(s["K"])
    return _sum("product", (x, y), b["A"][k, y] * b["B"][x, k])


def _of_transposed(b: Buffers, s: Sizes) -> Any:
    k = _over(s["K"])
    return _sum("product", (x, y), b["A"][y, k] * b["B"][x, k])


def _linear(left: Any, weight: Any, depth: int) -> Any:
    k = _over(depth)
    return _sum("product", (x, y), left[k, y] * weight[k, x])


def _gelu(value: Any) -> Any:
    return value * hl.f32(0.5) * (hl.f32(1) + hl.erf(value * hl.f32(_HALF_ROOT)))


def _linear_gelu(b: Buffers, s: Sizes) -> Any:
    total = _linear(b["X"], b["W"], s["K"])
    return _stage("activated", (x, y), _gelu(total[x, y] + b["b"][x]))


def _mlp1(b: Buffers, s: Sizes) -> Any:
    total = _linear(b["X"], b["W"], s["K"])
    return _stage("activated", (x, y), hl.max(total[x, y] + b["b"][x], hl.f32(0)))


def _mlp3(b: Buffers, s: Sizes) -> Any:
    layer = b["X"]
    for i, depth in zip("123", (s["M"], s["N"], s["O"])):
        total = _linear(layer, b[f"W{i}"], depth)
        layer = _stage(f"layer{i}", (x, y), hl.max(total[x, y] + b[f"B{i}"][x], hl.f32(0)))
    return layer


def _batched(b: Buffers, s: Sizes) -> Any:
    k = _over(s["K"])
    return _sum("product", (x, y, z), b["X"][k, y, z] * b["Y"][x, k, z])


def _tbmm(b: Buffers, s: Sizes) -> Any:
    k = _over(s["K"])
    return _sum("product", (x, y, z), b["X"][k, y, z] * b["Y"][k, x, z])


def _conv1d(b: Buffers, s: Sizes) -> Any:
    r = _over(s["K"], s["C"])
    return _sum("product", (x, y, z), b["I"][x + r.x, r.y, z] * b["W"][r.x, r.y, y])


def _max_pool(b: Buffers, s: Sizes) -> Any:
    r = _over(s["K"], s["K"])
    return _greatest("top", (x, y, z, w), b["I"][s["S"] * x + r.x, s["S"] * y + r.y, z, w])


def _avg_pool(b: Buffers, s: Sizes) -> Any:
    r = _over(s["K"], s["K"])
    total = _sum("total", (x, y, z, w), b["I"][s["S"] * x + r.x, s["S"] * y + r.y, z, w])
    return _stage("mean", (x, y, z, w), total[x, y, z, w] * hl.f32(1 / s["K"] ** 2))


def _softmax(b: Buffers, s: Sizes) -> Any:
    top = _greatest("top", (y,), b["X"][_over(s["N"]), y])
    grown = _stage("grown", (x, y), hl.exp(b["X"][x, y] - top[y]))
    total = _sum("total", (y,), grown[_over(s["N"]), y])
    return _stage("share", (x, y), grown[x, y] / total[y])


def _log_softmax(b: Buffers, s: Sizes) -> Any:
    n = _over(s["N"])
    top = _greatest("top", (y,), b["X"][n, y])
    total = _sum("total", (y,), hl.exp(b["X"][n, y] - top[y]))
    return _stage("share", (x, y), b["X"][x, y] - top[y] - hl.log(total[y]))


def _layer_norm(b: Buffers, s: Sizes) -> Any:
    n, size = _over(s["N"]), hl.f32(s["N"])
    total = _sum("total", (y,), b["X"][n, y])
    apart = b["X"][n, y] - total[y] / size
    squares = _sum("squares", (y,), apart * apart)
    scale = _stage("scale", (y,), hl.f32(1) / hl.sqrt(squares[y] / size + hl.f32(1e-5)))
    return _stage("normal", (x, y), (b["X"][x, y] - total[y] / size) * scale[y] * b["Gain"][x] + b["Shift"][x])


def _rms_norm(b: Buffers, s: Sizes) -> Any:
    n = _over(s["N"])
    squares = _sum("squares", (y,), b["X"][n, y] * b["X"][n, y])
    scale = _stage("scale", (y,), hl.f32(1) / hl.sqrt(squares[y] / hl.f32(s["N"]) + hl.f32(1e-5)))
    return _stage("normal", (x, y), b["X"][x, y] * scale[y] * b["Gain"][x])


def _blur(b: Buffers, s: Sizes) -> Any:
    third = hl.f32(1 / 3)
    across = _stage("across", (x, y), (b["A"][x, y] + b["A"][x + 1, y] + b["A"][x + 2, y]) * third)
    return _stage("down", (x, y), (across[x, y] + across[x, y + 1] + across[x, y + 2]) * third)


def _lookup(b: Buffers, s: Sizes) -> Any:
    n = _over(s["L"])
    row = hl.clamp(b["I"][n, y], 0, s["E"] - 1)
    return _sum("total", (x, y), b["LUT"][x, row])


def _l1(b: Buffers, s: Sizes) -> Any:
    k = _over(s["K"])
    return _sum("distance", (x, y), hl.abs(b["X"][k, y] - b["Y"][k, x]))


def _max_plus(b: Buffers, s: Sizes) -> Any:
    k = _over(s["K"])
    return _greatest("product", (x, y), b["A"][k, y] + b["B"][x, k])


def _squared(b: Buffers, s: Sizes) -> Any:
    k = _over(s["K"])
    apart = b["X"][k, y] - b["Y"][k, x]
    return _sum("squared", (x, y), apart * apart)


def _min_distance(b: Buffers, s: Sizes) -> Any:
    squared, n = _squared(b, s), _over(s["N"])
    least = _stage("least", (y,), hl.f32(float("inf")))
    least[y] = hl.min(least[y], squared[n, y])
    return least


def _argmin_distance(b: Buffers, s: Sizes) -> Any:
    squared, n = _squared(b, s), _over(s["N"])
    least = hl.Func("least")
    least[y] = (hl.f32(float("inf")), hl.i32(0))
    nearer = squared[n, y] < least[y][0]
    least[y] = (hl.select(nearer, squared[n, y], least[y][0]), hl.select(nearer, hl.i32(n), least[y][1]))
    return _stage("which", (y,), least[y][1])


def _bilateral(b: Buffers, s: Sizes) -> Any:
    r = _over(s["KW"], s["KH"])
    other = b["I"][x + r.x, y + r.y]
    apart = other - b["I"][x + s["R"], y + s["R"]]
    weight = b["G"][r.x, r.y] * hl.exp(-apart * apart)
    both = hl.Func("both")
    both[x, y] = (hl.f32(0), hl.f32(0))
    both[x, y] = (both[x, y][0] + weight * other, both[x, y][1] + weight)
    return _stage("mean", (x, y), both[x, y][0] / both[x, y][1])


PIPELINES: dict[str, Callable[[Buffers, Sizes], Any]] = {
    "matmul": _matmul,
    "A^T B": _of_transposed,
    "batched matmul": _batched,
    "linear+GELU": _linear_gelu,
    "conv1d": _conv1d,
    "max pool": _max_pool,
    "avg pool": _avg_pool,
    "softmax": _softmax,
    "log softmax": _log_softmax,
    "layer norm": _layer_norm,
    "RMS norm": _rms_norm,
    "bias+GELU": lambda b, s: _stage("activated", (x, y), _gelu(b["X"][x, y] + b["b"][x])),
    "transpose": lambda b, s: _stage("turned", (x, y), b["A"][y, x]),
    "blur 3x3": _blur,
    "tmm": lambda b, s: _linear(b["A"], b["B"], s["K"]),
    "tbmm": _tbmm,
    "MLP1": _mlp1,
    "MLP3": _mlp3,
    "C3": lambda b, s: _linear(b["I"], b["W"], s["WX"]),
    "1LUT": _lookup,
    "L1 distance": _l1,
    "max-plus": _max_plus,
    "min distance": _min_distance,
    "argmin distance": _argmin_distance,
    "bilateral": _bilateral,
}
