"""Attention of sequences of any lengths, one after another in memory, told apart by offsets; and of queries, keys and
values in one array. Against FlexAttention, compiled, with a mask of documents, and FlashAttention-2's own kernel for
variable lengths through PyTorch."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from bench.gpu.attention import _cudnn, _flex
from bench.gpu.workloads import Workload, defined, normal

#: ``F`` has where each sequence begins, and where the last one ends.
TEXT = """def attention(bfloat16(N,H,D) Q, bfloat16(N,H,D) K, bfloat16(N,H,D) V, int32(C) F) -> (bfloat16(N,H,D) O) {{
    A(s) max=! F(c) <= s ? F(c) : 0 where s in 0:N
    E(s) min=! F(c) > s ? F(c) : N where s in 0:N
    P(h,s,t) +=! float32(Q(s,h,d)) * float32(K(t,h,d))
    X(h,s,t) = t >= A(s) && {last} ? P(h,s,t) * {scale} : -1e999
    M(h,s) max=! X(h,s,t)
    W(h,s,t) = exp(X(h,s,t) - M(h,s))
    L(h,s) +=! W(h,s,t)
    U(h,s,d) +=! W(h,s,t) * float32(V(t,h,d))
    O(s,h,d) = bfloat16(U(h,s,d) / L(h,s))
}}"""
PACKED = """def attention(bfloat16(B,S,3,H,D) A) -> (bfloat16(B,S,H,D) O) {{
    P(b,h,s,t) +=! float32(A(b,s,0,h,d)) * float32(A(b,t,1,h,d))
    X(b,h,s,t) = {formula}
    M(b,h,s) max=! X(b,h,s,t)
    W(b,h,s,t) = exp(X(b,h,s,t) - M(b,h,s))
    L(b,h,s) +=! W(b,h,s,t)
    U(b,h,s,d) +=! W(b,h,s,t) * float32(A(b,t,2,h,d))
    O(b,s,h,d) = bfloat16(U(b,h,s,d) / L(b,h,s))
}}"""
#: All rows, sequences, heads, width.
SHAPES = [(16384, 8, 16, 128), (16384, 32, 16, 128), (32768, 12, 16, 64)]


def _offsets(rows: int, count: int) -> list[int]:
    """Sequences whose lengths are drawn: some are short, some long."""
    drawn = random.Random(rows + count)
    parts = [drawn.random() + 0.1 for _ in range(count)]
    ends = [round(rows * sum(parts[: n + 1]) / sum(parts)) for n in range(count)]
    return [0, *ends[:-1], rows]


def _text(width: int, causal: bool) -> str:
    return TEXT.format(last="t <= s" if causal else "t < E(s)", scale=f"{width**-0.5:.10f}")


def _made(rows: int, count: int, heads: int, width: int) -> Callable[[Any], Sequence[Any]]:
    def make(t: Any) -> Sequence[Any]:
        matrices = (t.randn(rows, heads, width, device="cuda", dtype=t.bfloat16) for _ in range(3))
        return [*matrices, t.tensor(_offsets(rows, count), device="cuda", dtype=t.int32)]

    return make


def _of_documents(rows: int, causal: bool) -> Callable[..., Any]:
    masks: list[Any] = []

    def run(t: Any, q: Any, k: Any, v: Any, offsets: Any) -> Any:
        from torch.nn.attention.flex_attention import create_block_mask

        if not masks:
            of = t.searchsorted(offsets[1:].contiguous(), t.arange(rows, device=q.device, dtype=t.int32), right=True)
            same = (lambda b, h, s, k: (of[s] == of[k]) & (s >= k)) if causal else (lambda b, h, s, k: of[s] == of[k])
            masks.append(create_block_mask(same, None, None, rows, rows, device=q.device))
        turned = (x.transpose(0, 1)[None] for x in (q, k, v))
        return _flex(t)(*turned, block_mask=masks[0])[0].transpose(0, 1)

    return run


def _flash(longest: int, causal: bool) -> Callable[..., Any]:
    def run(t: Any, q: Any, k: Any, v: Any, offsets: Any) -> Any:
        made = t.ops.aten._flash_attention_forward(q, k, v, offsets, offsets, longest, longest, 0.0, causal, False)
        return made[0]

    return run


def _exact(causal: bool) -> Callable[..., Any]:
    """One sequence and head after the other in float64."""

    def run(t: Any, q: Any, k: Any, v: Any, offsets: Any) -> Any:
        found, ends = t.empty_like(q), offsets.tolist()
        for a, b in pairwise(ends):
            for h in range(q.shape[1]):
                x = q[a:b, h] @ k[a:b, h].t() * q.shape[-1] ** -0.5
                if causal:
                    x = x.masked_fill(t.ones_like(x, dtype=t.bool).triu(1), float("-inf"))
                found[a:b, h] = x.softmax(-1) @ v[a:b, h]
        return found

    return run


def _packed(b: int, h: int, n: int, width: int, causal: bool) -> Workload:
    score = f"P(b,h,s,t) * {width**-0.5:.10f}"
    formula = f"s >= t ? {score} : -1e999" if causal else score
    run = _cudnn(causal)

    def apart(t: Any, a: Any) -> Any:
        return run(t, *(x.transpose(1, 2) for x in a.unbind(2))).transpose(1, 2)

    def exact(t: Any, a: Any) -> Any:
        return t.stack([
            t.nn.functional.scaled_dot_product_attention(*(x.transpose(0, 1) for x in one.unbind(1)), is_causal=causal)
            .transpose(0, 1) for one in a
        ])  # fmt: skip

    return Workload(
        f"{'causal ' if causal else ''}packed {b}x{h}x{n}x{width}", "packed attention",
        defined(PACKED.format(formula=formula)), normal((b, n, 3, h, width)), apart,
        flops=4 * b * h * n * n * width // (2 if causal else 1), compiled=False, exact=exact,
    )  # fmt: skip


def variable_lengths() -> list[Workload]:
    found = []
    for causal in (False, True):
        for shape in SHAPES:
            rows, count, heads, width = shape
            ends = _offsets(rows, count)
            lengths = [b - a for a, b in pairwise(ends)]
            work = 4 * heads * width * sum(n * n for n in lengths) // (2 if causal else 1)
            for peer, run in (("flex", _of_documents(rows, causal)), ("flash", _flash(max(lengths), causal))):
                found.append(Workload(
                    f"{'causal ' if causal else ''}{count} of {rows}x{heads}x{width}, {peer}", "variable lengths",
                    defined(_text(width, causal)), _made(*shape), run, flops=work, compiled=False, exact=_exact(causal),
                ))  # fmt: skip
    return [*found, *(_packed(4, 16, n, 128, causal) for causal in (False, True) for n in (1024, 4096))]
