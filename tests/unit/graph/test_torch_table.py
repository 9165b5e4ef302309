"""Every entry of the table from aten to formulas: what the evaluator makes of it is what eager torch gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from tests.retrace import retrace
from weft.graph.evaluate import evaluate
from weft.graph.from_torch.translate import translate
from weft.graph.graph import Fragment, Graph
from weft.ir.errors import UnsupportedError

torch = pytest.importorskip("torch")
F = torch.nn.functional


def graph_of(fn: Callable[..., Any], args: list[Any]) -> Graph:
    def several(*given: Any) -> tuple[Any, ...]:
        made = fn(*given)
        return tuple(made) if isinstance(made, (tuple, list)) else (made,)

    with torch.no_grad():
        return translate(retrace(several, args), args, {})


def close(ours: Any, theirs: Any, tolerance: float = 1e-5) -> None:
    expected = theirs.double().numpy() if theirs.is_floating_point() else theirs.numpy()
    np.testing.assert_allclose(np.asarray(ours, expected.dtype), expected, rtol=tolerance, atol=tolerance)


def check(fn: Callable[..., Any], *args: Any) -> Graph:
    graph = graph_of(fn, list(args))
    calls = [f"{n.call.target}: {n.reason}" for n in graph.nodes if not isinstance(n, Fragment)]
    assert not calls
    wide = [a.double() if a.is_floating_point() else a for a in args]
    expected = fn(*wide)
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    for ours, theirs in zip(evaluate(graph, [a.numpy() for a in args], wide=True), expected):
        close(ours, theirs)
    return graph


def floats(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.rand(shape, generator=generator) * (high - low) + low


def ints(*shape: int, low: int = 0, high: int = 5, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randint(low, high, shape, generator=generator)


UNARY = {
    "abs": torch.abs, "neg": torch.neg, "sign": torch.sign, "relu": torch.relu, "exp": torch.exp, "sin": torch.sin,
    "cos": torch.cos, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "erf": torch.erf, "floor": torch.floor,
    "ceil": torch.ceil, "trunc": torch.trunc, "round": torch.round, "isnan": torch.isnan, "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "mish": F.mish, "elu": F.elu,
    "softplus": F.softplus, "leaky_relu": F.leaky_relu, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid,
    "hardtanh": F.hardtanh, "relu6": F.relu6, "clamp": lambda x: x.clamp(-0.5, 0.75), "square": torch.square,
    "clamp_min": lambda x: x.clamp_min(0.1), "clamp_max": lambda x: x.clamp_max(0.1), "cube": lambda x: x**3,
    "reciprocal": torch.reciprocal, "expm1": torch.expm1, "atan": torch.atan, "sinh": torch.sinh,
    "logical_not": torch.logical_not, "clone": torch.clone,
    "rsub": lambda x: 2 - x, "rdiv": lambda x: 2 / x, "scalar_add": lambda x: x + 1.5, "compare": lambda x: x > 0.25,
    "where": lambda x: torch.where(x > 0, x, x * 0.1), "masked_fill": lambda x: x.masked_fill(x < 0, 7.0),
    "tril": torch.tril, "triu": lambda x: torch.triu(x, 1), "fmod": lambda x: torch.fmod(x, 0.7),
    "remainder": lambda x: torch.remainder(x, 0.7), "bool": lambda x: x.bool(), "double": lambda x: x.double(),
    "log_softmax": lambda x: F.log_softmax(x, -1), "softmax_first": lambda x: torch.softmax(x, 0),
    "cumsum": lambda x: x.cumsum(1), "cumprod": lambda x: x.cumprod(0), "flip": lambda x: x.flip(0, 1),
    "roll": lambda x: x.roll(2, 1), "repeat": lambda x: x.repeat(2, 1, 3), "stack": lambda x: torch.stack([x, x], 1),
    "cat": lambda x: torch.cat([x, x[:, :2], x], 1), "unbind": lambda x: x.unbind(0)[1] + x.unbind(0)[2],
    "split": lambda x: [a * 2 for a in x.split(2, 1)], "pad": lambda x: F.pad(x, (1, 2, 0, 1), value=3.0),
    "pad_and_cut": lambda x: F.pad(x, (-2, 1, 3, -1), value=3.0),
    "fill_nothing": lambda x: torch.slice_scatter(x, x[:, :0], 1, 2, 2),
    "diagonal": lambda x: x.diagonal(1), "unfold": lambda x: x.unfold(1, 3, 2), "norm": lambda x: x.norm(dim=1),
    "norm_1": lambda x: torch.linalg.vector_norm(x, 1, dim=0), "logsumexp": lambda x: torch.logsumexp(x, 1),
    "sum": lambda x: x.sum(), "sum_rows": lambda x: x.sum(1, keepdim=True), "mean": lambda x: x.mean((0, 1)),
    "var": lambda x: x.var(1), "std": lambda x: x.std(0), "var_mean": lambda x: torch.var_mean(x, 1, correction=0),
    "amax": lambda x: x.amax(1), "amin": lambda x: x.amin((0, 1)), "argmax": lambda x: x.argmax(1),
    "max_dim": lambda x: x.max(1), "any": lambda x: (x > 1).any(1), "all": lambda x: (x > -3).all(),
    "prod": lambda x: x.prod(1), "view": lambda x: x.view(2, -1), "transposed_reshape": lambda x: x.t().reshape(-1, 2),
    "select": lambda x: x[:, 2], "slice": lambda x: x[1:3, ::2], "expand": lambda x: x[:1].expand(3, -1),
    "unsqueeze": lambda x: x.unsqueeze(1) + x.unsqueeze(0), "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5),
    "lerp": lambda x: torch.lerp(x, x * 2, torch.full((), 0.25, dtype=x.dtype)), "ones_like": torch.ones_like,
    "slice_scatter": lambda x: torch.slice_scatter(x, x[:, :2] * 0, 1, 1, 5, 2),
    "select_scatter": lambda x: torch.select_scatter(x, x[0] * 3, 0, 2), "arange": lambda x: x + torch.arange(6),
    "layer_norm": lambda x: F.layer_norm(x, (6,)), "sort": lambda x: x.sort(1),
    "argmax_of_all": lambda x: x.argmax(), "fmax": lambda x: torch.fmax(x, x.flip(0)),
    "lerp_by": lambda x: x.lerp(x * 2, 0.3),
    "masked_fill_by": lambda x: x.masked_fill(x < 0, x.sum()), "as_strided": lambda x: x.as_strided((3, 2), (2, 5), 1),
    "as_strided_of_turned": lambda x: (x * 2).mT.as_strided((5, 3, 2), (4, 1, 2), 1),
    "as_strided_of_rows": lambda x: (x * 2)[1:].as_strided((3, 2), (4, 1)),
    "fill_part": lambda x: torch.slice_scatter(x, torch.full((), 2.0, dtype=x.dtype).expand(4, 2), 1, 1, 3),
    "nothing": lambda x: x[:, 3:3].exp(), "join_nothing": lambda x: torch.cat([x[:0], x]),
    "pow": lambda x: torch.pow(x.abs() + 0.1, 1.7), "rsqrt": lambda x: (x.abs() + 0.1).rsqrt(),
    "number_to_power": lambda x: torch.pow(2.0, x), "log": lambda x: (x.abs() + 0.1).log(),
    "minimum": lambda x: torch.minimum(x, x.flip(0)),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_one_tensor(name: str) -> None:
    check(UNARY[name], floats(4, 6))


INTEGERS = {
    "add": lambda a, b: a + b, "floor_divide": lambda a, b: a // (b + 1), "remainder": lambda a, b: a % (b + 1),
    "true_divide": lambda a, b: a / (b + 1), "compare": lambda a, b: a <= b, "bitwise": lambda a, b: (a & b) | (a ^ 3),
    "not": lambda a, b: ~a, "trunc": lambda a, b: torch.div(a - 3, b + 1, rounding_mode="trunc"),
    "sum": lambda a, b: a.sum(1), "mixed": lambda a, b: a * 0.5 + b, "logical": lambda a, b: (a > 1) & (b > 1),
    "maximum": torch.maximum, "cumsum": lambda a, b: a.cumsum(0), "gather": lambda a, b: a.gather(0, b % 3),
    "index": lambda a, b: a[b[:, 0] % 3], "index_two": lambda a, b: a[b % 3, -1 - a % 4],
    "index_apart": lambda a, b: a.unsqueeze(1).expand(3, 2, 4)[b[:, 0] % 3, :, b[:, 1] % 4],
    "index_select": lambda a, b: a.index_select(1, b[0] % 4), "bool_sum": lambda a, b: (a > b).sum(0),
    "where": lambda a, b: torch.where(a > b, a, 0), "bool_product": lambda a, b: (a > 1) * (b > 1),
    "clamp_tensor": lambda a, b: a.clamp(b, b + 1), "to_int": lambda a, b: (a * 0.7 - b).to(torch.int32),
}  # fmt: skip


@pytest.mark.parametrize("name", INTEGERS)
def test_two_tensors_of_integers(name: str) -> None:
    check(INTEGERS[name], ints(3, 4), ints(3, 4, seed=1))


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (torch.matmul, [(3, 4), (4, 5)]),
        (torch.matmul, [(2, 3, 4), (2, 4, 5)]),
        (torch.matmul, [(2, 2, 3, 4), (4, 5)]),
        (torch.matmul, [(3, 4), (4,)]),
        (torch.dot, [(7,), (7,)]),
        (F.linear, [(2, 3, 4), (5, 4), (5,)]),
        (lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2), [(2, 3, 5), (2, 3, 4), (2, 4, 5)]),
        (lambda q, k, v: torch.einsum("bhd,bkd,bke->bhe", q, k, v), [(2, 3, 4), (2, 5, 4), (2, 5, 6)]),
        (lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), [(2, 4, 7, 8), (6, 4, 3, 3), (6,)]),
        (lambda x, w: F.conv2d(x, w, padding=2, dilation=2, groups=2), [(1, 4, 7, 6), (6, 2, 3, 3)]),
        (lambda x, w: F.conv2d(x, w, padding=1, groups=4), [(1, 4, 6, 6), (4, 1, 3, 3)]),
        (lambda x, w: F.conv2d(x, w, padding=9, dilation=9), [(1, 2, 5, 30), (3, 2, 3, 3)]),
        (lambda x, w: F.conv2d(x, w, stride=2, padding=8, dilation=5), [(1, 2, 4, 6), (3, 2, 4, 4)]),
        (lambda x, w: F.conv1d(x, w, padding="same"), [(2, 3, 9), (4, 3, 3)]),
        (lambda x, w: F.conv3d(x, w, stride=(1, 2, 1)), [(1, 2, 4, 5, 6), (3, 2, 2, 2, 2)]),
        (lambda x: F.max_pool2d(x, 3, 2, 1), [(1, 2, 7, 8)]),
        (lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True, return_indices=True), [(1, 2, 7, 5)]),
        (lambda x: F.avg_pool2d(x, 3, 2, 1), [(1, 2, 7, 8)]),
        (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False, ceil_mode=True), [(1, 2, 7, 8)]),
        (lambda x: F.adaptive_avg_pool2d(x, 2), [(1, 2, 6, 8)]),
        (lambda x: F.adaptive_avg_pool2d(x, (4, 3)), [(1, 2, 7, 5)]),
        (lambda x: F.adaptive_avg_pool2d(x, (4, 3)), [(1, 2, 3, 2)]),
        (lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True), [(1, 2, 7, 5)]),
        (lambda x: F.interpolate(x, scale_factor=2), [(1, 2, 3, 4)]),
        (lambda x: F.interpolate(x, size=(7, 3)), [(1, 2, 3, 4)]),
        (lambda x: F.interpolate(x, scale_factor=1.7), [(1, 2, 5, 4)]),
        (lambda x: F.interpolate(x, size=7, mode="nearest-exact"), [(1, 2, 3)]),
        (lambda x: F.interpolate(x, size=(7, 3), mode="bilinear"), [(1, 2, 3, 4)]),
        (lambda x: F.interpolate(x, size=(7, 3), mode="bilinear", align_corners=True), [(1, 2, 3, 4)]),
        (lambda x: F.interpolate(x, scale_factor=1.7, mode="bicubic"), [(1, 2, 5, 4)]),
        (lambda x: F.interpolate(x, size=(2, 7, 3), mode="trilinear"), [(1, 2, 3, 3, 4)]),
        (lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1), [(1, 4, 3, 4), (4, 3, 3, 3), (3,)]),
        (lambda x, w: F.conv_transpose1d(x, w, None, 3, 2, 2, 2, 2), [(2, 4, 5), (4, 3, 3)]),
        (lambda x, g: F.grid_sample(x, g, align_corners=False), [(1, 2, 4, 5), (1, 3, 3, 2)]),
        (lambda a, b: torch.cdist(a, b), [(2, 5, 3), (2, 4, 3)]),
        (lambda c, a, b: torch.addbmm(c, a, b, beta=0.5), [(3, 5), (2, 3, 4), (2, 4, 5)]),
        (lambda x: F.pad(x, (1, 2), mode="reflect"), [(2, 3, 6)]),
        (lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate"), [(2, 3, 6, 5)]),
        (lambda x, g, b: F.layer_norm(x, (4, 5), g, b), [(2, 3, 4, 5), (4, 5), (4, 5)]),
        (lambda x, g, b: F.group_norm(x, 2, g, b), [(2, 4, 3, 3), (4,), (4,)]),
        (lambda x, g, b: F.instance_norm(x, None, None, g, b), [(2, 4, 3, 3), (4,), (4,)]),
        (lambda x, m, v, g, b: F.batch_norm(x, m, v.abs(), g, b), [(2, 4, 3, 3), (4,), (4,), (4,), (4,)]),
        (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [(1, 2, 5, 4), (1, 2, 6, 4), (1, 2, 6, 4)]),
        (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            [(1, 2, 5, 4), (1, 2, 5, 4), (1, 2, 5, 4)],
        ),
        (
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
            [(1, 2, 5, 4), (1, 2, 6, 4), (1, 2, 6, 4), (5, 6)],
        ),
    ],
)  # fmt: skip
def test_contractions_windows_and_norms(fn: Callable[..., Any], shapes: list[tuple[int, ...]]) -> None:
    check(fn, *(floats(*s, seed=n) for n, s in enumerate(shapes)))


def test_taps_that_never_meet_the_image_are_left_out() -> None:
    graph = check(lambda x, w: F.conv2d(x, w, padding=9, dilation=9), floats(1, 2, 5, 30), floats(3, 2, 3, 3, seed=1))
    assert [graph.edges[n].shape[2:] for n in graph.edges if graph.edges[n].shape[:2] == (3, 2)] == [(3, 3), (1, 3)]


def test_embedding() -> None:
    check(lambda i, w: F.embedding(i, w), ints(2, 3), floats(5, 4))


def test_bfloat16_rounds_once_as_eager_does() -> None:
    x = floats(4, 8).bfloat16()
    graph = graph_of(lambda x: F.gelu(x) + x, [x])
    (ours,) = evaluate(graph, [x.float().numpy()])
    theirs = F.gelu(x) + x
    np.testing.assert_allclose(np.asarray(ours, np.float32), theirs.float().numpy(), rtol=2**-7, atol=1e-6)


def test_what_has_no_formula_is_a_call_with_the_reason() -> None:
    graph = graph_of(lambda x: torch.mode(x.relu())[0] + 1, [floats(3, 4)])
    (call,) = [n for n in graph.nodes if not isinstance(n, Fragment)]
    assert call.call.target == "aten.mode.default"
    assert call.reason == "no formula for it"


def test_places_of_what_is_not_a_number_sort_last() -> None:
    nan = float("nan")
    x = torch.tensor([[1.0, nan, -1.0, nan, 0.5], [2.0, 2.0, nan, 1.0, float("inf")]])
    for fn in (lambda x: x.sort(1), lambda x: x.sort(0, descending=True)):
        check(fn, x)


def test_places_in_memory_that_torch_alone_knows_are_refused_whole() -> None:
    """A call of torch would look for them in the memory of what Weft made, where other values lie."""
    with pytest.raises(UnsupportedError, match="has gaps there"):
        graph_of(lambda x: (x * 2)[:, 1:].as_strided((3, 4), (6, 1), 0), [floats(4, 6)])


def test_numbers_among_the_results_are_refused_whole() -> None:
    x = floats(3, 4)
    traced = retrace(lambda x: (x * 2,), [x])
    (output,) = (node for node in traced.graph.nodes if node.op == "output")
    output.args = ((*output.args[0], 3),)
    with pytest.raises(UnsupportedError, match="not a tensor"):
        translate(traced, [x], {})


def test_what_writes_to_its_arguments_is_refused_whole() -> None:
    x = floats(3, 4)
    traced = retrace(lambda x: (x.mul_(2),), [x])
    with pytest.raises(UnsupportedError, match=r"copy_\.default writes to its arguments"):
        translate(traced, [x], {})


def _write(x: Any, mask: Any, value: Any) -> Any:
    made = x.clone()
    made[mask] = value
    return made


WRITES = {
    "a number": lambda x, mask: _write(x, mask, 3.0),
    "a tensor of one element": lambda x, mask: _write(x, mask, x[:1, 0, 0]),
    "a row for each": lambda x, mask: _write(x, mask[:, :, 0], x[0, 0]),
    "along a later axis": lambda x, mask: _write(x, (slice(None), mask[0]), x.sum().reshape(1)),
    "added": lambda x, mask: x.index_put((mask,), torch.tensor(2.0, dtype=x.dtype), accumulate=True),
    "in order": lambda x, mask: x.masked_scatter(mask, -x),
    "in order, by a smaller mask": lambda x, mask: x.masked_scatter(mask[:, :, :1], x * 2),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_where_a_mask_says(name: str) -> None:
    x = floats(3, 4, 5)
    mask = floats(3, 4, 5, seed=1) > 0.3
    check(WRITES[name], x, mask)
    fast = weft.compile(WRITES[name], (x, mask))
    torch.testing.assert_close(fast(x, mask), WRITES[name](x, mask))


def test_the_greatest_values_and_buckets() -> None:
    x = floats(3, 9)
    x[1, 2] = float("nan")
    check(lambda x: x.topk(4)[0], x)
    check(lambda x: x.topk(2, 0, largest=False)[0], x)
    bounds = torch.tensor([-1.0, 0.0, 0.0, 1.5])
    for right in (False, True):
        check(
            lambda x, b, right=right: torch.bucketize(x, b, right=right), torch.cat([x, bounds.expand(3, 4)], 1), bounds
        )
