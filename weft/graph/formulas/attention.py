"""Scaled dot-product attention, whole."""

from __future__ import annotations

from typing import Any

from weft.graph.formulas.common import at, element, shape, working_type
from weft.tensor import python_api as w
from weft.tensor.python_api import Tensor, cast, compute, reduce_axis
from weft.tensor.value import call


def attention(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """``softmax(scale q kᵀ + mask) v`` over (batch, heads, rows, width), and the log-sum-exp of each row.

    After the three come a mask to add or to choose by, where there is one; whether there is, whether row s sees only
    the columns up to s, the scale, and how many heads of ``q`` share one of ``k``.
    """
    *given, has_mask, causal, scale, shared = rest
    p = _scores(q, k, given[0] if has_mask else None, causal, scale, shared)
    kind, (batch, heads, rows, columns) = working_type(q.dtype), shape(p)
    outer = (batch, heads, rows)

    def greatest(*i: Any) -> Any:
        t = reduce_axis(columns, "t")
        return w.max(element(p, *i, t), over=t)

    top = compute(outer, greatest, name="Top", dtype=kind)

    def weight(i: tuple[Any, ...], t: Any) -> Any:
        return call("exp", element(p, *i, t) - top[i])

    def add_up(*i: Any) -> Any:
        t = reduce_axis(columns, "t")
        return w.sum(weight(i, t), over=t)

    total = compute(outer, add_up, name="Total", dtype=kind)

    def mixed(b: Any, h: Any, s: Any, e: Any) -> Any:
        t = reduce_axis(columns, "t")
        return w.sum(weight((b, h, s), t) * cast(kind, v[b, _shared(h, shared), t, e]), over=t)

    y = compute((*outer, shape(v)[3]), mixed, name="Y", dtype=kind)
    result = compute(shape(y), lambda *i: y[i] / total[i[:3]], name="O", dtype=q.dtype)
    return result, compute(outer, lambda *i: top[i] + call("log", total[i]), name="Lse", dtype=kind)


def _shared(head: Any, by: int) -> Any:
    return head if by == 1 else head // by


def _scores(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, scale: float, shared: int) -> Tensor:
    """What the weights of the columns are the softmax of."""
    kind, least = working_type(q.dtype), float("-inf")
    sizes = (*shape(q)[:3], shape(k)[2])

    def product(b: Any, h: Any, s: Any, t: Any) -> Any:
        d = reduce_axis(shape(q)[3], "d")
        return w.sum(cast(kind, q[b, h, s, d]) * cast(kind, k[b, _shared(h, shared), t, d]), over=d)

    plain = compute(sizes, product, name="S", dtype=kind)

    def masked(b: Any, h: Any, s: Any, t: Any) -> Any:
        value = plain[b, h, s, t] * scale
        if mask is not None:
            m = at(mask, (b, h, s, t))
            value = w.select(m, value, cast(kind, least)) if mask.dtype.is_bool else value + cast(kind, m)
        return w.select(t <= s, value, cast(kind, least)) if causal else value

    return compute(sizes, masked, name="P", dtype=kind)
