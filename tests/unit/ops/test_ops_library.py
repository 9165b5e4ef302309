"""Every kernel of the library against float64 numpy, on odd shapes, for every element type."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import weft.ops.library as library
from weft.ir.dtype import bfloat16, parse_dtype
from weft.ir.errors import ArgumentError
from weft.ir.numpy_dtypes import to_numpy
from weft.tensor.evaluate import evaluate

Array = np.ndarray[Any, Any]
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
ERF = np.vectorize(math.erf)


@dataclass(frozen=True)
class Case:
    """Shapes of the float inputs (or an integer array, or a scalar) in order, and the reference."""

    args: tuple[Any, ...]
    reference: Callable[..., Any]
    #: rounding steps allowed beyond the couple that every kernel has
    slack: float = field(default=8.0)


def indices(high: int, *shape: int) -> Array:
    return np.random.default_rng(7).integers(0, high, shape).astype(np.int32)


def windows(x: Array, kh: int, kw: int, sh: int = 1, sw: int = 1, dh: int = 1, dw: int = 1) -> Array:
    """Axes h, w, kh, kw in place of the last two."""
    view = np.lib.stride_tricks.sliding_window_view(x, ((kh - 1) * dh + 1, (kw - 1) * dw + 1), axis=(-2, -1))
    return view[..., ::sh, ::sw, ::dh, ::dw]


def conv2d(x: Array, w: Array, **steps: int) -> Array:
    return np.einsum("nchwyx,fcyx->nfhw", windows(x, w.shape[2], w.shape[3], **steps), w)


def conv1d(x: Array, w: Array, s: int = 1, d: int = 1) -> Array:
    return conv2d(x[:, :, None, :], w[:, :, None, :], sw=s, dw=d)[:, :, 0, :]


def grad_input(go: Array, w: Array, sh: int, sw: int, height: int, width: int) -> Array:
    out = np.zeros((go.shape[0], w.shape[1], height, width))
    for h, v, y, x in np.ndindex(*go.shape[2:], *w.shape[2:]):
        out[:, :, sh * h + y, sw * v + x] += np.einsum("nf,fc->nc", go[:, :, h, v], w[:, :, y, x])
    return out


def grad_weight(go: Array, x: Array, sh: int, sw: int, kh: int, kw: int) -> Array:
    out = np.zeros((go.shape[1], x.shape[1], kh, kw))
    for h, v, y, z in np.ndindex(*go.shape[2:], kh, kw):
        out[:, :, y, z] += np.einsum("nf,nc->fc", go[:, :, h, v], x[:, :, sh * h + y, sw * v + z])
    return out


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def masked(x: Array) -> Array:
    rows, columns = np.indices(x.shape[-2:])
    return np.where(columns <= rows, x, -np.inf)


def normalize(x: Array, axes: tuple[int, ...]) -> Array:
    centred = x - x.mean(axes, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5))


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def mlp(x: Array, *layers: Array) -> Array:
    for w, b in zip(layers[::2], layers[1::2]):
        x = np.maximum(x @ w.T + b, 0)
    return x


def wavenet(
    x: Array, wf: Array, bf: Array, wg: Array, bg: Array, wr: Array, br: Array, ws: Array, bs: Array, d: int
) -> Any:
    back = np.zeros_like(x)
    back[:, :, d:] = x[:, :, : x.shape[2] - d]

    def taps(w: Array, b: Array) -> Array:
        return np.einsum("brt,cr->bct", x, w[:, :, 1]) + np.einsum("brt,cr->bct", back, w[:, :, 0]) + b[:, None]

    z = np.tanh(taps(wf, bf)) * sigmoid(taps(wg, bg))
    return x + np.einsum("bct,rc->brt", z, wr) + br[:, None], np.einsum("bct,sc->bst", z, ws) + bs[:, None]


def attention(q: Array, k: Array, v: Array, mask: Callable[[Array], Array] = lambda x: x) -> Array:
    return softmax(mask(np.einsum("bhsd,bhtd->bhst", q, k) / math.sqrt(q.shape[-1]))) @ v


def distances(x: Array, y: Array) -> Array:
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def scatter_add(x: Array, i: Array, n: int) -> Array:
    out = np.zeros((n, x.shape[1]))
    np.add.at(out, i, x)
    return out


def moments(x: Array) -> tuple[Array, Array]:
    return x.mean(1), x.var(1)


def batch_norm(x: Array, g: Array, b: Array) -> tuple[Array, Array, Array]:
    shape = (1, -1, 1, 1)
    axes = (0, 2, 3)
    return normalize(x, axes) * g.reshape(shape) + b.reshape(shape), x.mean(axes), x.var(axes)


def pool(x: Array, k: int, s: int) -> Array:
    return windows(x, k, k, s, s)


I2, I3 = indices(11, 5, 3), indices(9, 5, 4)
MLP = ((5, 7), (3, 7), (3,), (9, 3), (9,), (4, 9), (4,), (6, 4), (6,))

CASES: dict[str, Case] = {
    "matmul": Case(((5, 7), (7, 3)), np.matmul),
    "transposed_matmul": Case(((5, 7), (3, 7)), lambda a, b: a @ b.T),
    "batched_matmul": Case(((3, 5, 7), (3, 7, 2)), np.matmul),
    "transposed_batched_matmul": Case(((3, 5, 7), (3, 2, 7)), lambda a, b: a @ b.transpose(0, 2, 1)),
    "c3": Case(((5, 7), (3, 7)), lambda a, b: a @ b.T),
    "matvec": Case(((5, 7), (7,)), np.matmul),
    "dot": Case(((7,), (7,)), np.dot),
    "outer": Case(((7,), (5,)), np.outer),
    "sgemm": Case((1.5, -0.5, (5, 7), (7, 3), (5, 3)), lambda p, q, a, b, c: p * (a @ b) + q * c),
    "tensordot": Case(((2, 3, 5, 3, 1), (2, 5, 4, 3, 1)), lambda a, b: np.einsum("nabhw,nbchw->nachw", a, b)),
    "kru1": Case(((3, 5), (7, 5)), lambda w, x: x @ w.T),
    "kru2": Case(((3, 5), (2, 3), (7, 5, 3)), lambda w, v, x: np.einsum("dn,ep,mnp->mde", w, v, x)),
    "kru3": Case(
        ((3, 5), (2, 3), (4, 3), (7, 5, 3, 3)), lambda w, v, u, x: np.einsum("dn,ep,fq,mnpq->mdef", w, v, u, x), 64
    ),
    "kronecker1": Case(((5, 3),), lambda a: a),
    "kronecker2": Case(((5, 3), (2, 7)), np.kron),
    "kronecker3": Case(((5, 3), (2, 3), (1, 2)), lambda a, b, c: np.kron(np.kron(a, b), c)),
    "min_distance": Case(((5, 3), (7, 3)), lambda x, y: distances(x, y).min(1)),
    "argmin_distance": Case(((5, 3), (7, 3)), lambda x, y: distances(x, y).argmin(1)),
    "fully_connected": Case(((5, 7), (3, 7), (3,)), lambda x, w, b: x @ w.T + b),
    "mlp1": Case(MLP[:3], mlp),
    "mlp2": Case(MLP[:5], mlp, 64),
    "mlp3": Case(MLP[:7], mlp, 128),
    "mlp4": Case(MLP, mlp, 256),
    "wavenet": Case(((2, 3, 9), (5, 3, 2), (5,), (5, 3, 2), (5,), (3, 5), (3,), (4, 5), (4,), 2), wavenet, 64),
    "attention": Case(((2, 1, 5, 3), (2, 1, 7, 3), (2, 1, 7, 4)), attention),
    "causal_attention": Case(((2, 1, 5, 3), (2, 1, 5, 3), (2, 1, 5, 4)), lambda q, k, v: attention(q, k, v, masked)),
    "lut1": Case(((11, 7), I2), lambda t, i: t[i].sum(1)),
    "lut2": Case(((11, 7), I2, (9, 7), I3), lambda t, i, u, j: (t[i].sum(1), u[j].sum(1))),
    "shifted_lookup": Case(((14, 7), I2, 3), lambda t, i, s: t[i + s].sum(1)),
    "gather": Case(((11,), I2), lambda x, i: x[i]),
    "gather_rows": Case(((11, 3), indices(11, 5)), lambda x, i: x[i]),
    "scatter_add": Case(((9, 5), indices(4, 9), 6), scatter_add),
    "one_hot": Case((indices(4, 7), 5), lambda i, n: np.eye(n)[i]),
    "conv1d": Case(((2, 3, 11), (4, 3, 5)), conv1d),
    "conv1d_strided": Case(((2, 3, 12), (4, 3, 5), 3), lambda x, w, s: conv1d(x, w, s=s)),
    "conv1d_dilated": Case(((2, 3, 12), (4, 3, 3), 4), lambda x, w, d: conv1d(x, w, d=d)),
    "conv2d": Case(((2, 3, 7, 9), (4, 3, 3, 2)), conv2d),
    "conv2d_bias": Case(((2, 3, 7, 9), (4, 3, 3, 2), (4,)), lambda x, w, b: conv2d(x, w) + b[:, None, None]),
    "conv2d_padded": Case(
        ((2, 3, 7, 9), (4, 3, 3, 2), 2), lambda x, w, p: conv2d(np.pad(x, ((0, 0), (0, 0), (p, p), (p, p))), w)
    ),
    "conv2d_strided": Case(((2, 3, 8, 9), (4, 3, 3, 2), 2, 3), lambda x, w, s, t: conv2d(x, w, sh=s, sw=t)),
    "conv2d_dilated": Case(((2, 3, 8, 9), (4, 3, 3, 2), 2, 3), lambda x, w, s, t: conv2d(x, w, dh=s, dw=t)),
    "conv2d_grouped": Case(
        ((2, 3, 2, 7, 5), (3, 4, 2, 3, 2)),
        lambda x, w: np.stack([conv2d(x[:, g], w[g]) for g in range(x.shape[1])], 1),
    ),
    "conv2d_depthwise": Case(
        ((2, 3, 7, 5), (3, 3, 2)), lambda x, w: np.einsum("nchwyx,cyx->nchw", windows(x, *w.shape[1:]), w)
    ),
    "conv2d_grad_input": Case(
        ((2, 4, 5, 6), (4, 3, 3, 2)),
        lambda g, w: grad_input(g, w, 1, 1, g.shape[2] + w.shape[2] - 1, g.shape[3] + w.shape[3] - 1),
    ),
    "conv2d_grad_weight": Case(((2, 4, 5, 6), (2, 3, 7, 7)), lambda g, x: grad_weight(g, x, 1, 1, 3, 2), 16),
    "conv2d_strided_grad_input": Case(((2, 4, 3, 2), (4, 3, 3, 2), 2, 3, 8, 7), grad_input),
    "conv2d_strided_grad_weight": Case(((2, 4, 3, 2), (2, 3, 8, 7), 2, 3, 3, 2), grad_weight),
    "max_pool2d": Case(((2, 3, 8, 9), 3, 2), lambda x, k, s: pool(x, k, s).max((-2, -1))),
    "avg_pool2d": Case(((2, 3, 8, 9), 3, 2), lambda x, k, s: pool(x, k, s).mean((-2, -1))),
    "softmax": Case(((5, 13),), softmax),
    "softmax_plain": Case(((5, 13),), softmax),
    "softmax_by_log": Case(((5, 13),), softmax),
    "log_softmax": Case(((5, 13),), lambda x: np.log(softmax(x))),
    "causal_softmax": Case(((7, 5),), lambda x: softmax(masked(x))),
    "moments": Case(((5, 13),), moments),
    "layer_norm": Case(((5, 13), (13,), (13,)), lambda x, g, b: normalize(x, (1,)) * g + b, 16),
    "rms_norm": Case(((5, 13), (13,)), lambda x, g: x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * g, 16),
    "batch_norm": Case(((3, 5, 2, 3), (5,), (5,)), batch_norm, 16),
    "batch_norm_inference": Case(
        ((3, 5, 2, 3), (5,), np.linspace(0.5, 2, 5), (5,), (5,)),
        lambda x, m, v, g, b: (
            (x - m[:, None, None]) / np.sqrt(v[:, None, None] + 1e-5) * g[:, None, None] + b[:, None, None]
        ),
        16,
    ),
    "group_norm": Case(
        ((3, 2, 5, 2, 3), (2, 5), (2, 5)),
        lambda x, g, b: normalize(x, (2, 3, 4)) * g[..., None, None] + b[..., None, None],
        16,
    ),
    "copy": Case(((5, 7),), lambda a: a),
    "cast_double": Case(((7,),), lambda a: a),
    "cast_half": Case(((7,),), lambda a: a.astype(np.float16)),
    "cast_bfloat16": Case(((7,),), lambda a: a.astype(to_numpy(bfloat16)).astype(np.float64)),
    "cast_int": Case((np.array([-2.5, 2.5, 0.0, 7.9]),), np.trunc),
    "add": Case(((5, 7), (5, 7)), np.add),
    "mul": Case(((5, 7), (5, 7)), np.multiply),
    "hadamard3": Case(((5, 7), (5, 7), (5, 7)), lambda a, b, c: a * b * c),
    "relu": Case(((13,),), lambda x: np.maximum(x, 0)),
    "sigmoid": Case(((13,),), sigmoid),
    "tanh": Case(((13,),), np.tanh),
    "gelu": Case(((13,),), lambda x: x * 0.5 * (1 + ERF(x * math.sqrt(0.5)))),
    "silu": Case(((13,),), lambda x: x * sigmoid(x)),
    "bias_gelu": Case(((5, 13), (13,)), lambda x, b: (x + b) * 0.5 * (1 + ERF((x + b) * math.sqrt(0.5)))),
    "transpose": Case(((5, 7),), np.transpose),
    "nchw_to_nhwc": Case(((2, 3, 5, 7),), lambda x: x.transpose(0, 2, 3, 1)),
    "concat": Case(((5,), (7,)), lambda a, b: np.concatenate([a, b])),
    "concat_columns": Case(((3, 5), (3, 7)), lambda a, b: np.concatenate([a, b], 1)),
    "sum_rows": Case(((5, 7),), lambda a: a.sum(1)),
    "sum_columns": Case(((5, 7),), lambda a: a.sum(0)),
    "sum_all": Case(((5, 7),), np.sum),
    "sum_planes": Case(((3, 5, 7),), lambda a: a.sum((1, 2))),
    "cumsum": Case(((5, 7),), lambda x: np.cumsum(x, 1)),
}


def make_argument(spec: Any, dtype: str, rng: np.random.Generator) -> Any:
    if isinstance(spec, tuple):
        return rng.standard_normal(spec).astype(to_numpy(parse_dtype(dtype)))
    if isinstance(spec, np.ndarray) and spec.dtype == np.float64:
        return spec.astype(to_numpy(parse_dtype(dtype)))
    return spec


def widened(argument: Any) -> Any:
    is_float = isinstance(argument, np.ndarray) and argument.dtype != np.int32
    return argument.astype(np.float64) if is_float else argument


def test_every_kernel_has_a_case() -> None:
    assert sorted(CASES) == library.names()


@pytest.mark.parametrize("dtype", sorted(EPSILON))
@pytest.mark.parametrize("name", sorted(CASES))
def test_matches_numpy(name: str, dtype: str) -> None:
    case = CASES[name]
    rng = np.random.default_rng(len(name))
    args = [make_argument(spec, dtype, rng) for spec in case.args]
    found = evaluate(library.program(name, dtype), args)
    wanted = case.reference(*map(widened, args))
    for got, want in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert got.shape == np.shape(want)
        scale = max(1.0, float(np.max(np.abs(want))))
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=0, atol=case.slack * EPSILON[dtype] * scale)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_outputs_have_the_element_type(dtype: str) -> None:
    for name in library.names():
        if name.startswith(("cast_", "argmin")):
            continue
        assert {str(o.dtype) for o in library.program(name, dtype).outputs} == {dtype}, name


def test_softmax_of_half_precision_does_not_overflow_on_the_way() -> None:
    x = np.full((1, 4096), 8.0, np.float16)
    (y,) = evaluate(library.program("softmax", "float16"), [x])
    np.testing.assert_array_equal(y, np.full((1, 4096), 2.0**-12, np.float16))


def test_kernels_of_no_elements() -> None:
    (c,) = evaluate(library.program("matmul"), [np.zeros((3, 0), np.float32), np.zeros((0, 2), np.float32)])
    np.testing.assert_array_equal(c, np.zeros((3, 2)))
    (y,) = evaluate(library.program("softmax"), [np.zeros((0, 5), np.float32)])
    assert y.shape == (0, 5)


def test_aliases_mean_the_same_program() -> None:
    for other, name in library.aliases().items():
        assert library.program(other) == library.program(name)


def test_source_brings_what_it_calls() -> None:
    text, file = library.source("mlp3")
    assert file == "layer.weft"
    assert text.index("def mlp1") < text.index("def mlp3")
    assert "accumulator" not in text


def test_unknown_kernel() -> None:
    with pytest.raises(ArgumentError, match="did you mean `softmax`"):
        library.source("sofmax")


def test_unknown_element_type() -> None:
    with pytest.raises(ArgumentError, match="use float16, bfloat16, float32 or float64"):
        library.source("softmax", "int8")
