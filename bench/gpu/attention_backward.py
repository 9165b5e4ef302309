"""Attention's backward pass from its formulas, against cuDNN's through PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.gpu.workloads import Workload, defined

TEXT = """def backward(bfloat16(B,H,S,D) Q, bfloat16(B,N,T,D) K, bfloat16(B,N,T,D) V, bfloat16(B,H,S,D) O,
      bfloat16(B,H,S,D) G, float32(B,H,S) L) -> (bfloat16(B,H,S,D) dQ, bfloat16(B,N,T,D) dK, bfloat16(B,N,T,D) dV) {{
    X(b,h,s,t) +=! float32(Q(b,h,s,d)) * float32(K(b,h/{each},t,d))
    P(b,h,s,t) = {weight}
    R(b,h,s) +=! float32(G(b,h,s,d)) * float32(O(b,h,s,d))
    Y(b,h,s,t) +=! float32(G(b,h,s,d)) * float32(V(b,h/{each},t,d))
    Z(b,h,s,t) = P(b,h,s,t) * (Y(b,h,s,t) - R(b,h,s))
    UV(b,n,t,d) +=! P(b,n*{each}+r,s,t) * float32(G(b,n*{each}+r,s,d)) where r in 0:{each}
    UK(b,n,t,d) +=! Z(b,n*{each}+r,s,t) * float32(Q(b,n*{each}+r,s,d)) where r in 0:{each}
    UQ(b,h,s,d) +=! Z(b,h,s,t) * float32(K(b,h/{each},t,d))
    dV(b,n,t,d) = bfloat16(UV(b,n,t,d))
    dK(b,n,t,d) = bfloat16(UK(b,n,t,d) * {scale})
    dQ(b,h,s,d) = bfloat16(UQ(b,h,s,d) * {scale})
}}"""
#: Batches, heads, heads that share keys, length, width.
SHAPES = [(4, 16, 1, 4096, 128), (2, 16, 1, 2048, 128), (4, 16, 1, 1000, 128), (16, 16, 1, 512, 64),
          (16, 16, 1, 512, 128), (4, 16, 1, 4096, 64), (2, 16, 1, 8192, 128), (2, 32, 4, 4096, 128),
          (4, 32, 8, 2048, 128), (8, 16, 2, 1024, 64), (2, 16, 1, 2048, 192), (2, 16, 1, 2048, 256)]  # fmt: skip


def _text(each: int, width: int, causal: bool) -> str:
    scale = f"{width**-0.5:.10f}"
    weight = f"exp(X(b,h,s,t) * {scale} - L(b,h,s))"
    text = TEXT.format(weight=f"s >= t ? {weight} : 0.0" if causal else weight, scale=scale, each=each)
    return text if each > 1 else text.replace("h/1", "h").replace("n*1+r", "n").replace(" where r in 0:1", "")


def _made(b: int, h: int, each: int, n: int, width: int, causal: bool) -> Callable[[Any], Sequence[Any]]:
    """Queries, keys, values, results, their gradient, and logarithms of sums of exponentials."""

    def make(t: Any) -> Sequence[Any]:
        q, k, v, g = (
            t.randn(b, heads, n, width, device="cuda", dtype=t.bfloat16) for heads in (h, h // each, h // each, h)
        )
        out, logs = t.empty_like(q), t.empty(b, h, n, device="cuda")
        for i in range(b):
            wide = [x[i].float().repeat_interleave(each, 0) for x in (k, v)]
            scores = q[i].float() @ wide[0].transpose(-1, -2) * width**-0.5
            if causal:
                scores = scores.masked_fill(t.ones(n, n, device="cuda", dtype=t.bool).triu(1), float("-inf"))
            logs[i] = scores.logsumexp(-1)
            out[i] = (scores.softmax(-1) @ wide[1]).bfloat16()
        return [q, k, v, out, g, logs]

    return make


def _torch(causal: bool, width: int) -> Callable[..., Any]:
    """The backward pass alone, cuDNN's where it has one: what the forward one gives is kept."""
    forward: dict[int, tuple[Any, ...]] = {}

    def run(t: Any, q: Any, k: Any, v: Any, out: Any, g: Any, logs: Any) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        if q.data_ptr() not in forward:
            own = tuple(x.detach().requires_grad_(True) for x in (q, k, v))
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION if width <= 128 else SDPBackend.FLASH_ATTENTION):
                made = t.nn.functional.scaled_dot_product_attention(
                    *own, is_causal=causal, enable_gqa=q.shape != k.shape
                )
            forward[q.data_ptr()] = (made, own)
        made, own = forward[q.data_ptr()]
        return t.autograd.grad(made, own, g, retain_graph=True)

    return run


def _exact(causal: bool) -> Callable[..., Any]:
    """One head after the other in float64."""

    def run(t: Any, q: Any, k: Any, v: Any, out: Any, g: Any, logs: Any) -> Any:
        found = tuple(t.zeros_like(x) for x in (q, k, v))
        for b in range(q.shape[0]):
            for h in range(q.shape[1]):
                places = (h, *[h * k.shape[1] // q.shape[1]] * 2)
                own = [x[b, i].clone().requires_grad_(True) for x, i in zip((q, k, v), places)]
                scores = own[0] @ own[1].t() * q.shape[-1] ** -0.5
                if causal:
                    scores = scores.masked_fill(t.ones_like(scores, dtype=t.bool).triu(1), float("-inf"))
                for to, i, made in zip(found, places, t.autograd.grad(scores.softmax(-1) @ own[2], own, g[b, h])):
                    to[b, i] += made
        return found

    return run


def attention_backward() -> list[Workload]:
    return [
        Workload(
            f"{'causal ' if causal else ''}backward {b}x{h}{f'/{each}' if each > 1 else ''}x{n}x{width}",
            "attention backward", defined(_text(each, width, causal)), _made(b, h, each, n, width, causal),
            _torch(causal, width),
            flops=10 * b * h * n * n * width // (2 if causal else 1), compiled=False, exact=_exact(causal),
            recorded=False,
        )
        for causal in (False, True) for b, h, each, n, width in SHAPES
    ]  # fmt: skip
