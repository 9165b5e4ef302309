"""Scaled dot-product attention, whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.graph.formulas.common import at, element, shape, working_type
from weft.graph.graph import Shape
from weft.tensor import python_api as w
from weft.tensor.python_api import Tensor, cast, compute, reduce_axis
from weft.tensor.value import call


def attention(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """``softmax(scale q kᵀ + mask) v`` over (batch, heads, rows, width), and the log-sum-exp of each row.

    After the three come a mask to add or to choose by, where there is one; whether there is, whether row s sees only
    the columns up to s, the scale, and how many heads of ``q`` share one of ``k``.
    """
    return _masked(q, k, v, *rest)


def attention_with_zeros(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """The same, with zeros in rows whose columns are all masked, as PyTorch's operator has them: as written above,
    which is how models write it out, such rows are NaN."""
    return _masked(q, k, v, *rest, has_zeros=True)


def causal_attention(q: Tensor, k: Tensor, v: Tensor, scale: float, shared: int) -> tuple[Tensor, Tensor]:
    """The same where row s sees the columns up to s alone, of which there are as many as rows or more: nothing is
    computed of those beyond."""
    sizes = (*shape(q)[:3], shape(k)[2])
    plain = compute(sizes, _product(q, k, shared), name="S", dtype=working_type(q.dtype), ends=lambda *i: {3: i[2] + 1})
    return _weighted(q, v, sizes, lambda *i: element(plain, *i) * scale, lambda s: s + 1, shared)


def _masked(q: Tensor, k: Tensor, v: Tensor, *rest: Any, has_zeros: bool = False) -> tuple[Tensor, Tensor]:
    *given, has_mask, causal, scale, shared = rest
    p = _scores(q, k, given[0] if has_mask else None, causal, scale, shared)
    return _weighted(q, v, shape(p), lambda *i: element(p, *i), lambda _: shape(p)[3], shared, has_zeros=has_zeros)


def _weighted(
    q: Tensor,
    v: Tensor,
    sizes: Shape,
    score: Callable[..., Any],
    end: Callable[[Any], Any],
    shared: int,
    *,
    has_zeros: bool = False,
) -> tuple[Tensor, Tensor]:
    """Rows of ``v`` added up by the softmax of scores, of which row s has those of the columns up to ``end(s)``; and
    the log-sum-exp of each row. With ``has_zeros`` a row without finite scores is zeros."""
    kind, outer = working_type(q.dtype), sizes[:3]

    def greatest(*i: Any) -> Any:
        t = reduce_axis(end(i[2]), "t")
        return w.max(score(*i, t), over=t)

    top = compute(outer, greatest, name="Top", dtype=kind)

    def weight(i: tuple[Any, ...], t: Any) -> Any:
        return call("exp", score(*i, t) - top[i])

    def add_up(*i: Any) -> Any:
        t = reduce_axis(end(i[2]), "t")
        return w.sum(weight(i, t), over=t)

    total = compute(outer, add_up, name="Total", dtype=kind)

    def mixed(b: Any, h: Any, s: Any, e: Any) -> Any:
        t = reduce_axis(end(s), "t")
        return w.sum(weight((b, h, s), t) * cast(kind, v[b, _shared(h, shared), t, e]), over=t)

    y = compute((*outer, shape(v)[3]), mixed, name="Y", dtype=kind)

    def whole(*i: Any) -> Any:
        made = y[i] / total[i[:3]]
        return w.select(top[i[:3]] <= cast(kind, float("-inf")), cast(kind, 0), made) if has_zeros else made

    result = compute(shape(y), whole, name="O", dtype=q.dtype)
    return result, compute(outer, lambda *i: top[i] + call("log", total[i]), name="Lse", dtype=kind)


def _shared(head: Any, by: int) -> Any:
    return head if by == 1 else head // by


def _product(q: Tensor, k: Tensor, shared: int) -> Callable[..., Any]:
    """What row s of ``q`` and row t of ``k`` have in common."""
    kind = working_type(q.dtype)

    def product(b: Any, h: Any, s: Any, t: Any) -> Any:
        d = reduce_axis(shape(q)[3], "d")
        return w.sum(cast(kind, q[b, h, s, d]) * cast(kind, k[b, _shared(h, shared), t, d]), over=d)

    return product


def _scores(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, scale: float, shared: int) -> Tensor:
    """What the weights of the columns are the softmax of."""
    kind, least = working_type(q.dtype), float("-inf")
    sizes = (*shape(q)[:3], shape(k)[2])

    plain = compute(sizes, _product(q, k, shared), name="S", dtype=kind)

    def masked(b: Any, h: Any, s: Any, t: Any) -> Any:
        value = plain[b, h, s, t] * scale
        if mask is not None:
            m = at(mask, (b, h, s, t))
            value = w.select(m, value, cast(kind, least)) if mask.dtype.is_bool else value + cast(kind, m)
        return w.select(t <= s, value, cast(kind, least)) if causal else value

    return compute(sizes, masked, name="P", dtype=kind)
