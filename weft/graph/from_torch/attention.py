"""Entries of the table: attention as torch has it on NVIDIA GPUs, whole or by one of three libraries."""

from __future__ import annotations

import math
from typing import Any

from weft.graph.formulas import attention
from weft.graph.from_torch.known_values import mask_says
from weft.graph.from_torch.table import Site, lowers
from weft.graph.graph import Call, Edge, Fragment, Ref
from weft.graph.groups.mapping import view_of
from weft.graph.groups.partition import is_free
from weft.ir.errors import UnsupportedError
from weft.ir.expr import Axis, Binary, Expr, Var, idx
from weft.ir.visit import substitute
from weft.tensor.simplify_values import simplify_subscript
from weft.tensor.specialize import axis_ranges


def _attention(t: Site, q: Edge, k: Edge, v: Edge, bias: Any, dropout: float, causal: bool, scale: Any) -> str:
    if dropout or not q.dtype.is_float or len(q.shape) != 4:
        raise UnsupportedError("dropout" if dropout else "attention of integers, or without batch and heads")
    given = [q, k, v, *([] if bias is None else [bias])]
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    made = t.make_all(given, attention.attention, bias is not None, causal, factor, q.shape[1] // k.shape[1])[0]
    # Heads side by side in each row: joining them then costs nothing. Libraries give what they are given.
    for name in (made, q.name, k.name, v.name):
        maker = t.builder.producer(name)
        if isinstance(maker, Fragment) and not is_free(maker):
            _, heads, rows, width = t.edge(name).shape
            t.builder.wish_strides(name, (rows * heads * width, width, heads * width, 1))
    return made


@lowers("scaled_dot_product_attention")
def _whole(
    t: Site, q: Edge, k: Edge, v: Edge, mask: Any = None, dropout: float = 0.0, causal: bool = False, *,
    scale: Any = None, enable_gqa: bool = False, attn_mask: Any = None, is_causal: bool = False,
) -> str:  # fmt: skip
    """Masks that say nothing, or what "causal" says, are told so: libraries are faster then."""
    mask, causal = attn_mask if mask is None else mask, causal or is_causal
    keys, values = _with_fewer_heads(t, k), _with_fewer_heads(t, v)
    if keys is not None and values is not None and keys.shape[1] == values.shape[1]:
        k, v, enable_gqa = keys, values, True
    said = None if mask is None or causal else mask_says(t.builder, mask, q.shape[2], k.shape[2])
    if said is not None:
        mask, causal = None, said == "causal"
    named = (("is_causal", causal), ("scale", scale), ("enable_gqa", enable_gqa))
    refs = (Ref(q.name), Ref(k.name), Ref(v.name), None if mask is None else Ref(mask.name))
    t.call = Call(t.call.target, refs, named)
    return _attention(t, q, k, v, mask, dropout, causal, scale)


def _with_fewer_heads(t: Site, edge: Edge) -> Edge | None:
    """What ``edge`` is a copy of with each head repeated, where it is one: libraries read shared heads as they are."""
    names = [Var(f"a{d}") for d in range(len(edge.shape))]
    ranges = axis_ranges([Axis(v, idx(0), idx(n)) for v, n in zip(names, edge.shape)])
    axes: tuple[Expr, ...] = tuple(v if n > 1 else idx(0) for v, n in zip(names, edge.shape))
    places = axes
    node = t.builder.producer(edge.name)
    while isinstance(node, Fragment) and (view := view_of(node.program)) is not None:
        bound = dict(zip(view.axes, places))
        places = tuple(simplify_subscript(substitute(i, bound), ranges) for i in view.load.indices)
        source = t.edge(node.inputs[0])
        if len(source.shape) == 4 and source.shape[1] < edge.shape[1] and edge.shape[1] % source.shape[1] == 0:
            head = simplify_subscript(Binary("//", axes[1], idx(edge.shape[1] // source.shape[1])), ranges)
            if places == (axes[0], head, *axes[2:]):
                return source
        node = t.builder.producer(source.name)
    return None


@lowers("_scaled_dot_product_flash_attention")
def _flash(
    t: Site, q: Edge, k: Edge, v: Edge, dropout: float = 0.0, causal: bool = False, debug: bool = False, *,
    scale: Any = None,
) -> list[Any]:  # fmt: skip
    return [_attention(t, q, k, v, None, dropout, causal, scale), *[None] * (len(t.result) - 1)]


@lowers("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention")
def _biased(
    t: Site, q: Edge, k: Edge, v: Edge, bias: Any, log_sums: bool = False, dropout: float = 0.0, causal: bool = False,
    debug: bool = False, *, scale: Any = None,
) -> list[Any]:  # fmt: skip
    return [_attention(t, q, k, v, bias, dropout, causal, scale), *[None] * (len(t.result) - 1)]
