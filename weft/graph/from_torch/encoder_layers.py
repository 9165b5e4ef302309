"""Layers of a transformer that PyTorch runs as one operator of its own in inference, taken apart.

Dynamo meets them in `nn.TransformerEncoderLayer` and `nn.MultiheadAttention`, which choose these operators where no
gradients are wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def whole_layers_apart(torch: Any) -> dict[Any, Callable[..., Any]]:
    """How these operators are made of others, for a table of decompositions."""
    aten = torch.ops.aten
    functional = torch.nn.functional

    def hidden(mask: Any, mask_type: int | None) -> Any:
        """Where nothing is looked at, for each head; of type 1 is a mask of a batch's rows."""
        return mask.to(torch.bool)[:, None, None] if mask_type == 1 else mask.to(torch.bool)

    def heads(x: Any, weight: Any, bias: Any, number: int) -> Any:
        made = functional.linear(x, weight, bias)
        return made.view(*made.shape[:2], number, -1).transpose(1, 2)

    def attention(query: Any, key: Any, value: Any, width: int, number: int, weight: Any, bias: Any, out: Any,
                  out_bias: Any, mask: Any = None, need_weights: bool = True, average_attn_weights: bool = True,
                  mask_type: int | None = None) -> Any:  # fmt: skip
        parts = zip((query, key, value), weight.split(width), bias.split(width))
        q, k, v = (heads(x, w, b, number) for x, w, b in parts)
        if mask is None and not need_weights:
            p, rows = None, functional.scaled_dot_product_attention(q, k, v)
        else:  # a row that looks at nothing is NaN, which that operator has as zeros
            scores = (q * (width // number) ** -0.5) @ k.mT
            shown = scores if mask is None else scores.masked_fill(hidden(mask, mask_type), float("-inf"))
            p = shown.softmax(-1)
            rows = p @ v
        made = functional.linear(rows.transpose(1, 2).flatten(2), out, out_bias)
        if p is None or not need_weights:
            return made, made.new_empty(0)
        return made, p.mean(1) if average_attn_weights else p

    def layer(x: Any, width: int, number: int, weight: Any, bias: Any, out: Any, out_bias: Any, use_gelu: bool,
              norm_first: bool, eps: float, gain_1: Any, shift_1: Any, gain_2: Any, shift_2: Any, up: Any, up_bias: Any,
              down: Any, down_bias: Any, mask: Any = None, mask_type: int | None = None) -> Any:  # fmt: skip
        def first(y: Any) -> Any:
            return attention(y, y, y, width, number, weight, bias, out, out_bias, mask, False, mask_type=mask_type)[0]

        def second(y: Any) -> Any:
            h = functional.linear(y, up, up_bias)
            return functional.linear(functional.gelu(h) if use_gelu else functional.relu(h), down, down_bias)

        def norm_1(y: Any) -> Any:
            return functional.layer_norm(y, (width,), gain_1, shift_1, eps)

        def norm_2(y: Any) -> Any:
            return functional.layer_norm(y, (width,), gain_2, shift_2, eps)

        if norm_first:
            x = x + first(norm_1(x))
            return x + second(norm_2(x))
        x = norm_1(x + first(x))
        return norm_2(x + second(x))

    return {
        aten._transformer_encoder_layer_fwd.default: layer,
        aten._native_multi_head_attention.default: attention,
    }
