"""Entries of the table of ONNX's operators: reductions, normalizations, products."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from weft.graph.formulas import contraction, joints, normalization, pointwise, reductions, views
from weft.graph.formulas.common import axes, axis
from weft.graph.from_onnx.pointwise import float_only
from weft.graph.from_onnx.shapes import permute, reshape
from weft.graph.from_onnx.table import Site, Term, attributes_or, lowers
from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.errors import UnsupportedError


def _over(t: Site, x: Term, given: Term | None) -> tuple[tuple[int, ...], bool]:
    """Which axes a reduction is over, and whether they stay."""
    numbers = attributes_or(t, "axes", given)
    keep = bool(t.get("keepdims", 1))
    if not numbers and t.get("noop_with_empty_axes", 0):
        return (), keep
    return axes(numbers, x.rank), keep


@dataclass(frozen=True)
class _Reduction:
    """One of the family: what it makes of elements, and what of none; with ``floats``, only of floats."""

    make: Callable[[Site, Term, tuple[int, ...], bool], Term]
    of_none: float
    floats: bool = False


def _total(t: Site, x: Term, over: tuple[int, ...], keep: bool) -> Term:
    return t.make([x], reductions.total, over, keep, x.dtype)


def _extreme(t: Site, x: Term, over: tuple[int, ...], keep: bool) -> Term:
    which = t.op[-3:].lower()
    if x.dtype.is_bool:
        return t.make([x], reductions.any_of if which == "max" else reductions.all_of, over, keep, x.dtype)
    return t.make([x], reductions.extreme, which, over, keep)


def _log_of_sum(t: Site, x: Term, over: tuple[int, ...], keep: bool) -> Term:
    return t.make([_total(t, x, over, keep)], pointwise.unary, "log", x.dtype)


def _sum_of_squares(t: Site, x: Term, over: tuple[int, ...], keep: bool) -> Term:
    return _total(t, t.make([x], pointwise.same, "square"), over, keep)


def _norm(order: float) -> Callable[[Site, Term, tuple[int, ...], bool], Term]:
    return lambda t, x, over, keep: t.make([x], reductions.norm, order, over, keep, x.dtype)


_REDUCTIONS = {
    "ReduceSum": _Reduction(_total, 0),
    "ReduceMean": _Reduction(
        lambda t, x, over, keep: t.make([x], reductions.mean, over, keep, x.dtype), math.nan, floats=True
    ),
    "ReduceProd": _Reduction(lambda t, x, over, keep: t.make([x], reductions.product, over, keep, x.dtype), 1),
    "ReduceMax": _Reduction(_extreme, -math.inf),
    "ReduceMin": _Reduction(_extreme, math.inf),
    "ReduceL1": _Reduction(_norm(1.0), 0),
    "ReduceL2": _Reduction(_norm(2.0), 0, floats=True),
    "ReduceSumSquare": _Reduction(_sum_of_squares, 0),
    "ReduceLogSum": _Reduction(_log_of_sum, -math.inf, floats=True),
    "ReduceLogSumExp": _Reduction(
        lambda t, x, over, keep: t.make([x], reductions.log_sum_exp, over, keep), -math.inf, floats=True
    ),
}


@lowers(*_REDUCTIONS)
def _reduce(t: Site, x: Term, given: Term | None = None) -> Term:
    kind, (over, keep) = _REDUCTIONS[t.op], _over(t, x, given)
    if kind.floats:
        float_only(x)
    left = tuple(1 if d in over else n for d, n in enumerate(x.shape) if keep or d not in over)
    if 0 in x.shape and 0 not in left:
        return t.make([], pointwise.filled, left, _of_none(x.dtype, kind.of_none), x.dtype)
    return kind.make(t, x, over, keep)


def _of_none(dtype: DType, value: float) -> float | int | bool:
    """``value`` in a type, which may have no infinities."""
    if dtype.is_float:
        return value
    if math.isinf(value):
        return value > 0 if dtype.is_bool else dtype.max_value if value > 0 else dtype.min_value
    return int(value)


@lowers("ArgMax", "ArgMin")
def _place(t: Site, x: Term) -> Term:
    d, keep = axis(t.get("axis", 0), x.rank), bool(t.get("keepdims", 1))
    which = t.op[3:].lower()
    if not t.get("select_last_index", 0):
        return t.make([x], reductions.place_of_extreme, which, d, keep)
    place = t.make([t.make([x], joints.flip, (d,))], reductions.place_of_extreme, which, d, keep)
    return t.make([place], pointwise.with_number, x.shape[d] - 1, "sub", dt.int64, True)


@lowers("CumSum", "CumProd")
def _running(t: Site, x: Term, over: Term) -> Term:
    d, which = axis(int(t.known(over).item()), x.rank), t.op[3:].lower()
    backwards = bool(t.get("reverse", 0))
    x = t.make([x], joints.flip, (d,)) if backwards else x
    if t.get("exclusive", 0):
        ahead, none = [0] * x.rank, (0,) * x.rank
        ahead[d] = 1
        shorter, neutral = tuple(n - (k == d) for k, n in enumerate(x.shape)), 0 if which == "sum" else 1
        if x.shape[d] < 2:  # nothing is before the only one
            return t.make([], pointwise.filled, x.shape, neutral, x.dtype)
        x = t.make([x], views.cut, none, (1,) * x.rank, shorter)
        x = t.make([x], joints.pad, tuple(ahead), none, neutral)
    made = t.make([x], reductions.running, d, which, x.dtype)
    return t.make([made], joints.flip, (d,)) if backwards else made


def _as_matrix(t: Site, x: Term) -> tuple[Term, int]:
    """How old versions see what softmax is along: all axes from one on, as one."""
    d = t.get("axis", -1 if t.opset >= 13 else 1)
    d = d + x.rank if d < 0 else d
    if t.opset >= 13:
        return x, axis(d, x.rank)
    return reshape(t, x, (prod(x.shape[:d]), prod(x.shape[d:]))), 1


@lowers("Softmax", "LogSoftmax")
def _softmax(t: Site, x: Term) -> Term:
    rows, d = _as_matrix(t, x)
    return reshape(t, t.make([rows], normalization.softmax, d, x.dtype, t.op == "LogSoftmax"), x.shape)


@lowers("Hardmax")
def _hardmax(t: Site, x: Term) -> Term:
    rows, d = _as_matrix(t, x)
    place = t.make([rows], reductions.place_of_extreme, "max", d, False)
    hot = t.make([place], joints.one_hot, rows.shape[d], x.dtype)
    order = (*range(d), rows.rank - 1, *range(d, rows.rank - 1))
    return reshape(t, permute(t, hot, order), x.shape)


@lowers("BatchNormalization")
def _batch_norm(t: Site, x: Term, gain: Term, shift: Term, mean: Term, variance: Term) -> Term:
    if t.get("training_mode", 0) or len([o for o in t.node.outputs if o]) > 1:
        raise UnsupportedError("statistics of the batch", help="export the model for inference")
    if not t.get("spatial", 1):
        raise UnsupportedError("statistics that are not by channel")
    return t.make([x, mean, variance, gain, shift], normalization.batch_norm, True, True, t.get("epsilon", 1e-5))


@lowers("LayerNormalization")
def _layer_norm(t: Site, x: Term, gain: Term, shift: Term | None = None) -> tuple[Term | None, ...]:
    count = x.rank - axis(t.get("axis", -1), x.rank)
    given = [_expanded(t, g, x.shape[x.rank - count :]) for g in (gain, shift) if g is not None]
    made = t.make_all([x, *given], normalization.layer_norm, True, shift is not None, count, t.get("epsilon", 1e-5))
    return made[: len(t.node.outputs)]


def _expanded(t: Site, x: Term, sizes: tuple[int, ...]) -> Term:
    if x.shape == sizes:
        return x
    if x.rank > len(sizes):
        x = reshape(t, x, x.shape[x.rank - len(sizes) :])
    return t.make([x], views.expand, sizes)


@lowers("RMSNormalization")
def _rms_norm(t: Site, x: Term, gain: Term) -> Term:
    count = x.rank - axis(t.get("axis", -1), x.rank)
    if gain.dtype != x.dtype:
        raise UnsupportedError(f"a gain of {gain.dtype} for {x.dtype}")
    given = _expanded(t, gain, x.shape[x.rank - count :])
    return t.make([x, given], normalization.rms_norm, True, count, t.get("epsilon", 1e-5))


@lowers("InstanceNormalization")
def _instance_norm(t: Site, x: Term, gain: Term, shift: Term) -> Term:
    return _group_norm_by(t, x, gain, shift, x.shape[1])


@lowers("GroupNormalization")
def _group_norm(t: Site, x: Term, gain: Term, shift: Term) -> Term:
    groups = t.get("num_groups")
    if groups < 1 or x.shape[1] % groups:
        raise UnsupportedError(f"{x.shape[1]} channels in {groups} groups")
    if t.opset < 21:
        each = x.shape[1] // groups
        gain, shift = (_spread(t, g, each) for g in (gain, shift))
    return _group_norm_by(t, x, gain, shift, groups)


def _spread(t: Site, x: Term, each: int) -> Term:
    """One value a group as one a channel."""
    column = reshape(t, x, (x.shape[0], 1))
    return reshape(t, t.make([column], views.expand, (x.shape[0], each)), (x.shape[0] * each,))


def _group_norm_by(t: Site, x: Term, gain: Term, shift: Term, groups: int) -> Term:
    facts = (True, True, groups, t.get("epsilon", 1e-5))
    return t.make_all([x, gain, shift], normalization.group_norm, *facts)[0]


@lowers("LpNormalization")
def _unit_length(t: Site, x: Term) -> Term:
    float_only(x)
    size = t.make([x], reductions.norm, float(t.get("p", 2)), (axis(t.get("axis", -1), x.rank),), True, x.dtype)
    is_zero = t.make([size], pointwise.compare_number, 0, "eq", x.dtype)
    quotient = t.make([x, size], pointwise.binary, "div", x.dtype)
    zero = t.make([], pointwise.filled, (), 0, x.dtype)
    return t.make([is_zero, zero, quotient], pointwise.where, x.dtype)


@lowers("LRN")
def _local_response(t: Site, x: Term) -> Term:
    facts = (t.get("size"), t.get("alpha", 1e-4), t.get("beta", 0.75), t.get("bias", 1.0))
    return t.make([x], normalization.local_response, *facts)


@lowers("MatMul")
def _matmul(t: Site, a: Term, b: Term) -> Term:
    return t.make([a, b], contraction.matmul)


@lowers("Gemm")
def _gemm(t: Site, a: Term, b: Term, c: Term | None = None) -> Term:
    a = permute(t, a, (1, 0)) if t.get("transA", 0) else a
    b = permute(t, b, (1, 0)) if t.get("transB", 0) else b
    alpha, beta = t.get("alpha", 1.0), t.get("beta", 1.0)
    if not a.dtype.is_float:
        if alpha != int(alpha) or beta != int(beta):
            raise UnsupportedError("integers scaled by fractions")
        alpha, beta = int(alpha), int(beta)
    if c is None:
        product = t.make([a, b], contraction.matmul)
        return product if alpha == 1 else t.make([product], pointwise.with_number, alpha, "mul", a.dtype)
    return t.make([c, a, b], contraction.add_product, beta, alpha)


@lowers("Einsum")
def _einsum(t: Site, *terms: Term) -> Term:
    equation = t.get("equation").replace(" ", "")
    inputs, arrow, output = equation.partition("->")
    parts = inputs.split(",")
    if len(parts) != len(terms):
        raise UnsupportedError(f"{equation} of {len(terms)} tensors")
    named = [_letters(p, x.rank) for p, x in zip(parts, terms)]
    dots = max((n for n in named), key=lambda n: sum(c.isdigit() for c in n))
    batch = "".join(c for c in dots if c.isdigit())
    if not arrow:
        every = "".join(named)
        output = "..." + "".join(sorted(c for c in {*every} if every.count(c) == 1 and c.isalpha()))
    result = output.replace("...", batch)
    return t.make(list(terms), contraction.einsum, tuple(named), result)


def _letters(part: str, rank: int) -> str:
    """Subscripts with digits for what dots stand for, the last axis of which is 0."""
    count = rank - len(part.replace("...", ""))
    if count < 0 or count > 10 or ("..." not in part and count):
        raise UnsupportedError(f"subscripts {part} for {rank} dimensions")
    return part.replace("...", "".join(str(n) for n in reversed(range(count))))


@lowers("TopK")
def _top(t: Site, x: Term, count: Term | None = None) -> tuple[Term, Term]:
    d, k = axis(t.get("axis", -1), x.rank), t.get("k") if count is None else t.ints(count)[0]
    compared = prod(x.shape) * x.shape[d]  # each element with each
    if k > x.shape[d] or (x.shape[d] > 1024 and compared > 1 << 26):
        raise UnsupportedError(f"the first {k} of {x.shape[d]} elements")
    if k == 0:
        raise UnsupportedError("none of the elements")
    made = t.make_all([x], reductions.ranked, d, k, bool(t.get("largest", 1)))
    return made[0], made[1]
