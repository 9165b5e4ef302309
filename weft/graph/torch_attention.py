"""Entries of the table: attention as torch does it on NVIDIA GPUs, by one of three libraries."""

from __future__ import annotations

import math
from typing import Any

from weft.graph.formulas import attention
from weft.graph.graph import Edge
from weft.graph.torch_table import Site, lowers
from weft.ir.errors import UnsupportedError


def _attention(t: Site, q: Edge, k: Edge, v: Edge, bias: Any, dropout: float, causal: bool, scale: Any) -> list[Any]:
    """The result and the log-sum-exp of rows, which only gradients ask for; the rest of what torch gives, nobody."""
    if dropout or not q.dtype.is_float:
        raise UnsupportedError("dropout" if dropout else "attention of integers")
    given = [q, k, v, *([] if bias is None else [bias])]
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    made = t.make_all(given, attention.attention, bias is not None, causal, factor, q.shape[1] // k.shape[1])
    t.builder.wish_strides(made[0], tuple(int(s) for s in t.result[0].stride()))
    return [made[0], *[None] * (len(t.result) - 1)]


@lowers("_scaled_dot_product_flash_attention")
def _flash(
    t: Site, q: Edge, k: Edge, v: Edge, dropout: float = 0.0, causal: bool = False, debug: bool = False, *,
    scale: Any = None,
) -> list[Any]:  # fmt: skip
    return _attention(t, q, k, v, None, dropout, causal, scale)


@lowers("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention")
def _biased(
    t: Site, q: Edge, k: Edge, v: Edge, bias: Any, log_sums: bool = False, dropout: float = 0.0, causal: bool = False,
    debug: bool = False, *, scale: Any = None,
) -> list[Any]:  # fmt: skip
    return _attention(t, q, k, v, bias, dropout, causal, scale)
