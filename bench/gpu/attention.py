"""Attention from six formulas, against cuDNN's through PyTorch, and with formulas of scores that libraries lack against
FlexAttention, compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from bench.gpu.workloads import Workload, defined, normal

TEXT = """def attention(bfloat16(B,H,S,D) Q, bfloat16(B,H,T,D) K, bfloat16(B,H,T,D) V) -> (bfloat16(B,H,S,D) O) {{
    P(b,h,s,t) +=! float32(Q(b,h,s,d)) * float32(K(b,h,t,d))
    X(b,h,s,t) = {formula}
    M(b,h,s) max=! X(b,h,s,t)
    W(b,h,s,t) = exp(X(b,h,s,t) - M(b,h,s))
    L(b,h,s) +=! W(b,h,s,t)
    U(b,h,s,d) +=! W(b,h,s,t) * float32(V(b,h,t,d))
    O(b,h,s,d) = bfloat16(U(b,h,s,d) / L(b,h,s))
}}"""
#: Batches, heads, length: about the same work for each length.
LENGTHS = [(16, 16, 512), (8, 16, 1024), (4, 16, 2048), (4, 16, 4096), (2, 16, 8192), (1, 16, 16384)]
WIDTHS = (64, 128)
#: Lengths that are no multiple of a tile.
UNEVEN = [(4, 16, 1000), (2, 16, 3001)]
#: Of a score ``x`` that is scaled and positions ``s`` and ``t``: as formulas, and in PyTorch.
FORMULAS: dict[str, tuple[str, Callable[..., Any] | None, Callable[..., Any] | None]] = {
    "ALiBi": ("{x} + (t - s) * 0.0625", lambda x, b, h, s, t: x + (t - s) * 0.0625, None),
    "soft cap": ("20.0 * tanh({x} * 0.05)", lambda x, b, h, s, t: 20.0 * (x * 0.05).tanh(), None),
    "window": ("s >= t && s - t < 1024 ? {x} : -1e999", None, lambda b, h, s, t: (s >= t) & (s - t < 1024)),
}


def _formula(formula: str, width: int) -> str:
    return TEXT.format(formula=formula.format(x=f"P(b,h,s,t) * {width**-0.5:.10f}"))


def _cudnn(causal: bool) -> Callable[..., Any]:
    def run(t: Any, q: Any, k: Any, v: Any) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return run


def _exact(change: Callable[..., Any] | None, keep: Callable[..., Any] | None) -> Callable[..., Any]:
    """One head after the other in float64."""

    def run(t: Any, q: Any, k: Any, v: Any) -> Any:
        batches, heads, length, width = q.shape
        s, keys = t.arange(length, device=q.device)[:, None], t.arange(k.shape[2], device=q.device)[None]
        found = t.empty_like(q, dtype=t.float64)
        for b in range(batches):
            for h in range(heads):
                x = q[b, h].double() @ k[b, h].double().t() * width**-0.5
                x = x if change is None else change(x, b, h, s, keys)
                x = x if keep is None else x.masked_fill(~keep(b, h, s, keys), float("-inf"))
                found[b, h] = x.softmax(-1) @ v[b, h].double()
        return found

    return run


@cache
def _flex(t: Any) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return t.compile(flex_attention, dynamic=False)


def _flexed(name: str, length: int) -> Callable[..., Any]:
    _, change, keep = FORMULAS[name]
    masks: list[Any] = []

    def run(t: Any, q: Any, k: Any, v: Any) -> Any:
        from torch.nn.attention.flex_attention import create_block_mask

        if keep is not None and not masks:
            masks.append(create_block_mask(keep, None, None, length, length, device=q.device))
        return _flex(t)(q, k, v, score_mod=change, block_mask=masks[0] if masks else None)

    return run


def _plain(b: int, h: int, n: int, width: int, causal: bool) -> Workload:
    formula = "s >= t ? {x} : -1e999" if causal else "{x}"
    keep = (lambda b, h, s, t: s >= t) if causal else None
    return Workload(
        f"{'causal ' if causal else ''}{b}x{h}x{n}x{width}", "attention", defined(_formula(formula, width)),
        normal(*[(b, h, n, width)] * 3), _cudnn(causal), flops=4 * b * h * n * n * width // (2 if causal else 1),
        compiled=False, exact=_exact(None, keep),
    )  # fmt: skip


def _special(name: str, b: int, h: int, n: int, width: int) -> Workload:
    formula, change, keep = FORMULAS[name]
    return Workload(
        f"{name} {b}x{h}x{n}x{width}", "score formulas", defined(_formula(formula, width)),
        normal(*[(b, h, n, width)] * 3), _flexed(name, n), flops=4 * b * h * n * n * width,
        compiled=False, exact=_exact(change, keep),
    )  # fmt: skip


def attention() -> list[Workload]:
    even = [_plain(*shape, width, causal) for causal in (False, True) for width in WIDTHS for shape in LENGTHS]
    uneven = [_plain(*shape, 128, causal) for shape in UNEVEN for causal in (False, True)]
    special = [_special(name, *shape, 128) for name in FORMULAS for shape in ((4, 16, 2048), (2, 16, 8192))]
    return [*even, *uneven, *special]
