"""JAX on the CPU, every family a jitted function."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

from bench.field.peers import Array, Prepared
from bench.field.workloads import Workload

jax.devices()  # its threads are counted now, while this process may use only its own cores


def version() -> str:
    return str(jax.__version__)


def _conv(image: Any, kernel: Any, pad: int = 0, step: int = 1, taps: int = 1, groups: int = 1) -> Any:
    axes = image.ndim - 2
    return lax.conv_general_dilated(
        image, kernel, (step,) * axes, [(pad, pad)] * axes, rhs_dilation=(taps,) * axes, feature_group_count=groups
    )


def _grouped(image: Any, kernel: Any, P: int) -> Any:  # noqa: N803
    n, groups, c, h, w = image.shape
    flat = kernel.reshape(-1, *kernel.shape[2:])
    out = _conv(image.reshape(n, groups * c, h, w), flat, P, groups=groups)
    return out.reshape(n, groups, -1, *out.shape[2:])


def _grad_input(grad: Any, kernel: Any) -> Any:
    turned = jnp.flip(kernel, (2, 3)).transpose(1, 0, 2, 3)
    pads = [(k - 1, k - 1) for k in kernel.shape[2:]]
    return lax.conv_general_dilated(grad, turned, (1, 1), pads)


def _grad_weight(grad: Any, image: Any) -> Any:
    return _conv(image.transpose(1, 0, 2, 3), grad.transpose(1, 0, 2, 3)).transpose(1, 0, 2, 3)


def _window(image: Any, start: float, combine: Any, size: int, step: int) -> Any:
    return lax.reduce_window(image, start, combine, (1, 1, size, size), (1, 1, step, step), "VALID")


def _conv_relu_pool(image: Any, kernel: Any, bias: Any, P: int) -> Any:  # noqa: N803
    return _window(nn.relu(_conv(image, kernel, P) + bias[:, None, None]), -jnp.inf, lax.max, 2, 2)


def _normalized(x: Any, axes: tuple[int, ...]) -> Any:
    centred = x - x.mean(axes, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(axes, keepdims=True) + 1e-5)


def _rms_norm(x: Any, gain: Any) -> Any:
    return x * lax.rsqrt((x * x).mean(1, keepdims=True) + 1e-5) * gain


def _swiglu(x: Any, gain: Any, gate: Any, up: Any) -> Any:
    y = _rms_norm(x, gain)
    return nn.silu(y @ gate.T) * (y @ up.T)


def _attention(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    return nn.dot_product_attention(q, k, v, is_causal=causal).transpose(0, 2, 1, 3)


def _blur(a: Any) -> Any:
    across = (a[:, :-2] + a[:, 1:-1] + a[:, 2:]) / 3
    return (across[:-2] + across[1:-1] + across[2:]) / 3


def _mlp3(x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
    for weight, bias in ((w1, b1), (w2, b2), (w3, b3)):
        x = nn.relu(x @ weight.T + bias)
    return x


def _wavenet(x: Any, wf: Any, bf: Any, wg: Any, bg: Any, wr: Any, br: Any, ws: Any, bs: Any, D: int) -> Any:  # noqa: N803
    past = jnp.pad(x, ((0, 0), (0, 0), (D, 0)))
    z = jnp.tanh(_conv(past, wf, taps=D) + bf[:, None]) * nn.sigmoid(_conv(past, wg, taps=D) + bg[:, None])
    residual = jnp.einsum("bct,rc->brt", z, wr) + br[:, None]
    return x + residual, jnp.einsum("bct,sc->bst", z, ws) + bs[:, None]


def _squared_distance(x: Any, y: Any) -> Any:
    return (x * x).sum(1, keepdims=True) + (y * y).sum(1) - 2 * (x @ y.T)


def _bilateral(image: Any, near: Any, R: int) -> Any:  # noqa: N803
    height, width = (n - 2 * R for n in image.shape)
    centre = image[R : R + height, R : R + width]
    total = weights = jnp.zeros_like(centre)
    for dy in range(near.shape[0]):
        for dx in range(near.shape[1]):
            other = image[dy : dy + height, dx : dx + width]
            weight = near[dy, dx] * jnp.exp(-((other - centre) ** 2))
            total, weights = total + weight * other, weights + weight
    return total / weights


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "matmul": lambda a, b: a @ b,
    "A^T B": lambda a, b: a.T @ b,
    "batched matmul": lambda x, y: x @ y,
    "linear+GELU": lambda x, w, b: nn.gelu(x @ w.T + b, approximate=False),
    "conv": lambda image, kernel, P, S, D: _conv(image, kernel, P, S, D),  # noqa: N803
    "depthwise conv": lambda image, kernel, P: _conv(image, kernel[:, None], P, groups=kernel.shape[0]),  # noqa: N803
    "grouped conv": _grouped,
    "conv1d": _conv,
    "conv grad input": _grad_input,
    "conv grad weight": _grad_weight,
    "conv+bias+ReLU+maxpool": _conv_relu_pool,
    "max pool": lambda image, K, S: _window(image, -jnp.inf, lax.max, K, S),  # noqa: N803
    "avg pool": lambda image, K, S: _window(image, 0.0, lax.add, K, S) / (K * K),  # noqa: N803
    "softmax": lambda x: nn.softmax(x, 1),
    "log softmax": lambda x: nn.log_softmax(x, 1),
    "layer norm": lambda x, gain, shift: _normalized(x, (1,)) * gain + shift,
    "RMS norm": _rms_norm,
    "batch norm": lambda x, gain, shift: _normalized(x, (0, 2, 3)) * gain[:, None, None] + shift[:, None, None],
    "group norm": lambda x, gain, shift: _normalized(x, (2, 3, 4)) * gain[..., None, None] + shift[..., None, None],
    "bias+GELU": lambda x, b: nn.gelu(x + b, approximate=False),
    "RMS norm+SwiGLU": _swiglu,
    "attention": _attention,
    "causal attention": partial(_attention, causal=True),
    "sums of rows": lambda a: a.sum(1),
    "sums of columns": lambda a: a.sum(0),
    "sum of all": lambda a: a.sum(),
    "transpose": lambda a: a.T,
    "blur 3x3": _blur,
    "tmm": lambda a, b: a @ b.T,
    "tbmm": lambda x, y: x @ y.mT,
    "Kronecker 3": lambda w0, w1, w2, x: jnp.einsum("an,bo,cp,mnop->mabc", w0, w1, w2, x, optimize="optimal"),
    "MLP1": lambda x, w, b: nn.relu(x @ w.T + b),
    "MLP3": _mlp3,
    "C3": lambda x, w: x @ w.T,
    "1LUT": lambda table, index: table[index].sum(1),
    "2LUT": lambda t1, i1, t2, i2: (t1[i1].sum(1), t2[i2].sum(1)),
    "WaveNet": _wavenet,
    "L1 distance": lambda x, y: jnp.abs(x[:, None] - y[None]).sum(2),
    "max-plus": lambda a, b: (a[:, :, None] + b[None]).max(1),
    "min distance": lambda x, y: _squared_distance(x, y).min(1),
    "argmin distance": lambda x, y: _squared_distance(x, y).argmin(1),
    "bilateral": _bilateral,
}


def prepare(workload: Workload, inputs: Mapping[str, Array], threads: int) -> Prepared:
    start = time.perf_counter()
    function = jax.jit(partial(FUNCTIONS[workload.family.name], **workload.numbers()))
    given = [jax.device_put(value) for value in inputs.values()]
    call = lambda: jax.block_until_ready(function(*given))  # noqa: E731
    call()
    took = time.perf_counter() - start
    return Prepared({"fresh": call}, lambda: _arrays(call()), {"cold": took})


def _arrays(results: Any) -> tuple[Array, ...]:
    several = results if isinstance(results, tuple) else (results,)
    return tuple(np.asarray(r) for r in several)
