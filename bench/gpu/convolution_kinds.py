"""Convolutions in groups, of single channels, gradients, and a first layer: against cuDNN through PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from bench.gpu.workloads import Workload, defined, normal

GROUPED = """def conv(bfloat16(N,H,W,G,C) X, bfloat16(G,F,P,Q,C) V) -> (bfloat16 O) {
    S(n,h,w,g,f) +=! X(n,h+p-1,w+q-1,g,c) * V(g,f,p,q,c) where h in 0:H, w in 0:W, X outside zero
    O(n,h,w,g,f) = S(n,h,w,g,f)
}"""
DEPTHWISE = """def conv(bfloat16(N,H,W,C) X, bfloat16(P,Q,C) V) -> (bfloat16 O) {
    S(n,h,w,c) +=! X(n,h+p-1,w+q-1,c) * V(p,q,c) where h in 0:H, w in 0:W, X outside zero
    O(n,h,w,c) = S(n,h,w,c)
}"""
DEPTHWISE_FIRST = """def conv(bfloat16(N,C,H,W) X, bfloat16(C,P,Q) V) -> (bfloat16 O) {
    S(n,c,h,w) +=! X(n,c,h+p-1,w+q-1) * V(c,p,q) where h in 0:H, w in 0:W, X outside zero
    O(n,c,h,w) = S(n,c,h,w)
}"""
GRADIENT = """def conv(bfloat16(N,H,W,F) E, bfloat16(F,P,Q,C) V) -> (bfloat16 O) {
    S(n,y,x,c) +=! E(n,y+1-p,x+1-q,f) * V(f,p,q,c) where y in 0:H, x in 0:W, E outside zero
    O(n,y,x,c) = S(n,y,x,c)
}"""
OF_WEIGHTS = """def conv(bfloat16(N,H,W,F) E, bfloat16(N,H,W,C) X) -> (bfloat16 O) {
    S(f,c) +=! E(n,h,w,f) * X(n,h,w,c)
    O(f,c) = S(f,c)
}"""
OF_WINDOWS = """def conv(bfloat16(N,H,W,F) E, bfloat16(N,H,W,C) X) -> (bfloat16 O) {
    S(f,p,q,c) +=! E(n,h,w,f) * X(n,h+p-1,w+q-1,c) where p in 0:3, q in 0:3, X outside zero
    O(f,p,q,c) = S(f,p,q,c)
}"""
FIRST_PLANES = """def conv(bfloat16(N,C,H,W) X, bfloat16(F,C,P,Q) V) -> (bfloat16(N,F,{size},{size}) O) {{
    S(n,f,h,w) +=! X(n,c,2*h+p-1,2*w+q-1) * V(f,c,p,q) where h in 0:{size}, w in 0:{size}, X outside zero
    O(n,f,h,w) = S(n,f,h,w)
}}"""
FIRST = """def conv(bfloat16(N,H,W,C) X, bfloat16(F,P,Q,C) V) -> (bfloat16(N,{size},{size},F) O) {{
    S(n,h,w,f) +=! X(n,2*h+p-3,2*w+q-3,c) * V(f,p,q,c) where h in 0:{size}, w in 0:{size}, X outside zero
    O(n,h,w,f) = S(n,h,w,f)
}}"""


def _first(x: Any) -> Any:
    return x.permute(0, 3, 1, 2)


def _last(x: Any) -> Any:
    return x.permute(0, 2, 3, 1)


def _grouped(torch: Any, x: Any, v: Any) -> Any:
    images = _first(x.flatten(3))
    found = torch.nn.functional.conv2d(images, _first(v.flatten(0, 1)), padding=1, groups=x.shape[3])
    return _last(found).unflatten(3, (x.shape[3], v.shape[1]))


def _depthwise(torch: Any, x: Any, v: Any) -> Any:
    weights = v.permute(2, 0, 1)[:, None]
    return _last(torch.nn.functional.conv2d(_first(x), weights, padding=1, groups=x.shape[3]))


def _depthwise_first(torch: Any, x: Any, v: Any) -> Any:
    return torch.nn.functional.conv2d(x, v[:, None], padding=1, groups=x.shape[1])


def _gradient(torch: Any, e: Any, v: Any) -> Any:
    return _last(torch.nn.functional.conv_transpose2d(_first(e), _first(v), padding=1))


def _gradient_of_weights(torch: Any, e: Any, x: Any, window: int) -> Any:
    shape = torch.empty(e.shape[3], x.shape[3], window, window, device=e.device, dtype=e.dtype)
    back = torch.ops.aten.convolution_backward
    options = ([1, 1], [window // 2] * 2, [1, 1], False, [0, 0], 1, [False, True, False])
    return back(_first(e), _first(x), shape, None, *options)[1]


def _of_weights(torch: Any, e: Any, x: Any) -> Any:
    return _gradient_of_weights(torch, e, x, 1)[:, :, 0, 0]


def _of_windows(torch: Any, e: Any, x: Any) -> Any:
    return _last(_gradient_of_weights(torch, e, x, 3))


def _first_planes(torch: Any, x: Any, v: Any) -> Any:
    return torch.nn.functional.conv2d(x, v, stride=2, padding=1)


def _first_layer(torch: Any, x: Any, v: Any) -> Any:
    return _last(torch.nn.functional.conv2d(_first(x), _first(v), stride=2, padding=3))


@dataclass(frozen=True, slots=True)
class Kind:
    """A definition, the sizes of its arguments, what PyTorch computes the same with, and products for each result."""

    name: str
    text: str
    sizes: tuple[tuple[int, ...], tuple[int, ...]]
    run: Callable[..., Any]
    depth: int


KINDS = [
    Kind("depthwise 3x3 64x56x56, 128", DEPTHWISE, ((64, 56, 56, 128), (3, 3, 128)), _depthwise, 9),
    Kind("depthwise 3x3 NCHW 64x56x56, 128", DEPTHWISE_FIRST, ((64, 128, 56, 56), (128, 3, 3)), _depthwise_first, 9),
    Kind("8 groups 64x14x14, 64 to 64, 3x3", GROUPED, ((64, 14, 14, 8, 64), (8, 64, 3, 3, 64)), _grouped, 576),
    Kind("32 groups 64x56x56, 4 to 4, 3x3", GROUPED, ((64, 56, 56, 32, 4), (32, 4, 3, 3, 4)), _grouped, 36),
    Kind("gradient of images 64x28x28, 128 to 128, 3x3", GRADIENT, ((64, 28, 28, 128), (128, 3, 3, 128)),
         _gradient, 9 * 128),
    Kind("gradient of weights 64x28x28, 128 to 512, 1x1", OF_WEIGHTS, ((64, 28, 28, 128), (64, 28, 28, 512)),
         _of_weights, 64 * 28 * 28),
    Kind("gradient of weights 64x28x28, 128 to 128, 3x3", OF_WINDOWS, ((64, 28, 28, 128), (64, 28, 28, 128)),
         _of_windows, 64 * 28 * 28),
    Kind("first layer NCHW 64x224x224, 3 to 32, 3x3/2", FIRST_PLANES.format(size=112),
         ((64, 3, 224, 224), (32, 3, 3, 3)), _first_planes, 27),
    Kind("first layer 64x224x224, 3 to 64, 7x7/2", FIRST.format(size=112), ((64, 224, 224, 3), (64, 7, 7, 3)),
         _first_layer, 147),
]  # fmt: skip


def _results(kind: Kind) -> int:
    first, second = kind.sizes
    if kind.run is _of_weights:
        return first[3] * second[3]
    if kind.run is _of_windows:
        return first[3] * second[3] * 9
    if kind.run in (_first_layer, _first_planes):
        return first[0] * 112 * 112 * second[0]
    return prod(first) if kind.run is not _gradient else prod(first[:3]) * second[3]


def convolution_kinds() -> Sequence[Workload]:
    """Other convolutions than those of issue 13's bars; those of single channels are a matter of memory."""
    return [
        Workload(
            k.name, "other convolutions", defined(k.text), normal(*k.sizes), k.run, flops=2 * _results(k) * k.depth,
            compiled=False, graphs=True, moved=2 * (sum(map(prod, k.sizes)) + _results(k)) if k.depth == 9 else 0,
        )
        for k in KINDS
    ]  # fmt: skip
