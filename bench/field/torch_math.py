"""Every family in torch, once: what is timed eager and compiled, and in float64 what is right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812

from bench.field.workloads import Array, Workload

Tensor: TypeAlias = Any  # torch is not checked for types here


def _conv(image: Tensor, kernel: Tensor, P: int, S: int, D: int) -> Tensor:  # noqa: N803
    return F.conv2d(image, kernel, stride=S, padding=P, dilation=D)


def _depthwise(image: Tensor, kernel: Tensor, P: int) -> Tensor:  # noqa: N803
    return F.conv2d(image, kernel.unsqueeze(1), padding=P, groups=kernel.shape[0])


def _grouped(image: Tensor, kernel: Tensor, P: int) -> Tensor:  # noqa: N803
    groups = kernel.shape[0]
    out = F.conv2d(image.flatten(1, 2), kernel.flatten(0, 1), padding=P, groups=groups)
    return out.unflatten(1, (groups, -1))


def _conv_grad_input(out_grad: Tensor, kernel: Tensor) -> Tensor:
    return F.conv_transpose2d(out_grad, kernel)


def _conv_grad_weight(out_grad: Tensor, image: Tensor) -> Tensor:
    taps = [a - b + 1 for a, b in zip(image.shape[2:], out_grad.shape[2:])]
    shape = (out_grad.shape[1], image.shape[1], *taps)
    weight = torch.empty(shape, dtype=image.dtype)
    mask = [False, True, False]
    backward = torch.ops.aten.convolution_backward
    return backward(out_grad, image, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, mask)[1]


def _conv_relu_pool(image: Tensor, kernel: Tensor, bias: Tensor, P: int) -> Tensor:  # noqa: N803
    return F.max_pool2d(F.relu(F.conv2d(image, kernel, bias, padding=P)), 2)


def _batch_norm(image: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    return F.batch_norm(image, None, None, gain, shift, training=True)


def _group_norm(image: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    flat = F.group_norm(image.flatten(1, 2), gain.shape[0], gain.flatten(), shift.flatten())
    return flat.view(image.shape)


def _rms_norm(x: Tensor, gain: Tensor) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), gain, eps=1e-5)


def _rms_norm_swiglu(x: Tensor, gain: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    y = _rms_norm(x, gain)
    return F.silu(F.linear(y, gate)) * F.linear(y, up)


def _blur(a: Tensor) -> Tensor:
    across = (a[:, :-2] + a[:, 1:-1] + a[:, 2:]) / 3
    return (across[:-2] + across[1:-1] + across[2:]) / 3


def _kronecker(w0: Tensor, w1: Tensor, w2: Tensor, x: Tensor) -> Tensor:
    once = x @ w2.T
    twice = w1 @ once
    rows = w0 @ twice.flatten(2)
    return rows.unflatten(2, twice.shape[2:])


def _mlp3(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, w3: Tensor, b3: Tensor) -> Tensor:
    for weight, bias in ((w1, b1), (w2, b2), (w3, b3)):
        x = F.relu(F.linear(x, weight, bias))
    return x


def _lut(table: Tensor, index: Tensor) -> Tensor:
    return F.embedding_bag(index, table, mode="sum")


def _two_luts(table1: Tensor, index1: Tensor, table2: Tensor, index2: Tensor) -> tuple[Tensor, Tensor]:
    return _lut(table1, index1), _lut(table2, index2)


def _wavenet(x: Tensor, wf: Tensor, bf: Tensor, wg: Tensor, bg: Tensor, wr: Tensor, br: Tensor, ws: Tensor,
             bs: Tensor, D: int) -> tuple[Tensor, Tensor]:  # noqa: N803  # fmt: skip
    past = F.pad(x, (D, 0))
    z = torch.tanh(F.conv1d(past, wf, bf, dilation=D)) * torch.sigmoid(F.conv1d(past, wg, bg, dilation=D))
    return x + F.conv1d(z, wr.unsqueeze(2), br), F.conv1d(z, ws.unsqueeze(2), bs)


def _squared_distance(x: Tensor, y: Tensor) -> Tensor:
    return (x * x).sum(1, keepdim=True) + (y * y).sum(1) - 2 * (x @ y.T)


def _bilateral(image: Tensor, near: Tensor, R: int) -> Tensor:  # noqa: N803
    height, width = (n - 2 * R for n in image.shape)
    centre = image[R : R + height, R : R + width]
    total = torch.zeros_like(centre)
    weights = torch.zeros_like(centre)
    for dy in range(near.shape[0]):
        for dx in range(near.shape[1]):
            other = image[dy : dy + height, dx : dx + width]
            weight = near[dy, dx] * torch.exp(-((other - centre) ** 2))
            total, weights = total + weight * other, weights + weight
    return total / weights


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "matmul": lambda a, b: a @ b,
    "A^T B": lambda a, b: a.T @ b,
    "batched matmul": lambda x, y: x @ y,
    "linear+GELU": lambda x, w, b: F.gelu(F.linear(x, w, b)),
    "conv": _conv,
    "depthwise conv": _depthwise,
    "grouped conv": _grouped,
    "conv1d": lambda image, kernel: F.conv1d(image, kernel),
    "conv grad input": _conv_grad_input,
    "conv grad weight": _conv_grad_weight,
    "conv+bias+ReLU+maxpool": _conv_relu_pool,
    "max pool": lambda image, K, S: F.max_pool2d(image, K, S),  # noqa: N803
    "avg pool": lambda image, K, S: F.avg_pool2d(image, K, S),  # noqa: N803
    "softmax": lambda x: torch.softmax(x, 1),
    "log softmax": lambda x: torch.log_softmax(x, 1),
    "layer norm": lambda x, gain, shift: F.layer_norm(x, (x.shape[-1],), gain, shift),
    "RMS norm": _rms_norm,
    "batch norm": _batch_norm,
    "group norm": _group_norm,
    "bias+GELU": lambda x, b: F.gelu(x + b),
    "RMS norm+SwiGLU": _rms_norm_swiglu,
    "attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
    "causal attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "sums of rows": lambda a: a.sum(1),
    "sums of columns": lambda a: a.sum(0),
    "sum of all": lambda a: a.sum(),
    "transpose": lambda a: a.T.contiguous(),
    "blur 3x3": _blur,
    "tmm": lambda a, b: a @ b.T,
    "tbmm": lambda x, y: x @ y.mT,
    "Kronecker 3": _kronecker,
    "MLP1": lambda x, w, b: F.relu(F.linear(x, w, b)),
    "MLP3": _mlp3,
    "C3": lambda x, w: F.linear(x, w),
    "1LUT": _lut,
    "2LUT": _two_luts,
    "WaveNet": _wavenet,
    "L1 distance": lambda x, y: torch.cdist(x, y, p=1.0),
    "max-plus": lambda a, b: (a[:, :, None] + b[None]).amax(1),
    "min distance": lambda x, y: _squared_distance(x, y).amin(1),
    "argmin distance": lambda x, y: _squared_distance(x, y).argmin(1),
    "bilateral": _bilateral,
}


def tensors(inputs: Mapping[str, Array]) -> list[Tensor]:
    return [torch.from_numpy(value) for value in inputs.values()]


def arrays(results: Any) -> tuple[Array, ...]:
    several = results if isinstance(results, tuple) else (results,)
    return tuple(r.detach().numpy() for r in several)


def reference(workload: Workload, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
    """What is right, in float64."""
    wide = [t.double() if t.dtype == torch.float32 else t for t in tensors(inputs)]
    with torch.no_grad():
        found = arrays(FUNCTIONS[workload.family.name](*wide, **workload.numbers()))
    return tuple(np.array(f, order="C") for f in found)
