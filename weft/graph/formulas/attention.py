"""Scaled dot-product attention, whole."""

from __future__ import annotations

from typing import Any

from weft.graph.formulas.common import at, shape, working_type
from weft.tensor import python_api as w
from weft.tensor.python_api import Tensor, cast, compute, reduce_axis
from weft.tensor.value import call


def attention(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """``softmax(scale q kᵀ + mask) v`` over (batch, heads, rows, width), and the log-sum-exp of each row.

    After the three come a mask to add or to choose by, where there is one; whether there is, whether row s sees only
    the columns up to s, the scale, and how many heads of ``q`` share one of ``k``.
    """
    *given, has_mask, causal, scale, shared = rest
    mask = given[0] if has_mask else None
    batch, heads, rows, width = shape(q)
    columns, kind = shape(k)[2], working_type(q.dtype)

    def head(h: Any) -> Any:
        return h if shared == 1 else h // shared

    def product(b: Any, h: Any, s: Any, t: Any) -> Any:
        d = reduce_axis(width, "d")
        return w.sum(cast(kind, q[b, h, s, d]) * cast(kind, k[b, head(h), t, d]), over=d)

    scores = compute((batch, heads, rows, columns), product, name="S", dtype=kind)
    least = float("-inf")

    def masked(b: Any, h: Any, s: Any, t: Any) -> Any:
        value = scores[b, h, s, t] * scale
        if mask is not None:
            m = at(mask, (b, h, s, t))
            value = w.select(m, value, cast(kind, least)) if mask.dtype.is_bool else value + cast(kind, m)
        return w.select(t <= s, value, cast(kind, least)) if causal else value

    p = compute((batch, heads, rows, columns), masked, name="P", dtype=kind)

    def greatest(b: Any, h: Any, s: Any) -> Any:
        t = reduce_axis(columns, "t")
        return w.max(p[b, h, s, t], over=t)

    top = compute((batch, heads, rows), greatest, name="Top", dtype=kind)

    def weight(b: Any, h: Any, s: Any, t: Any) -> Any:
        return call("exp", p[b, h, s, t] - top[b, h, s])

    def add_up(b: Any, h: Any, s: Any) -> Any:
        t = reduce_axis(columns, "t")
        return w.sum(weight(b, h, s, t), over=t)

    total = compute((batch, heads, rows), add_up, name="Total", dtype=kind)

    def mixed(b: Any, h: Any, s: Any, e: Any) -> Any:
        t = reduce_axis(columns, "t")
        return w.sum(weight(b, h, s, t) * cast(kind, v[b, head(h), t, e]), over=t)

    y = compute((batch, heads, rows, shape(v)[3]), mixed, name="Y", dtype=kind)
    result = compute(shape(y), lambda b, h, s, e: y[b, h, s, e] / total[b, h, s], name="O", dtype=q.dtype)
    lse = compute(shape(top), lambda b, h, s: top[b, h, s] + call("log", total[b, h, s]), name="Lse", dtype=kind)
    return result, lse
