"""Attention from its formulas on a device, against float64."""

from __future__ import annotations

from typing import Any

import pytest

import weft

TEXT = """def f({type}(B,H,S,D) Q, {type}(B,G,T,D) K, {type}(B,G,T,E) V) -> ({type}(B,H,S,E) O) {
    P(b,h,s,t) +=! float32(Q(b,h,s,d)) * float32(K(b,h/{heads},t,d))
    X(b,h,s,t) = {formula}
    M(b,h,s) max=! X(b,h,s,t)
    W(b,h,s,t) = exp(X(b,h,s,t) - M(b,h,s))
    L(b,h,s) +=! W(b,h,s,t)
    U(b,h,s,e) +=! W(b,h,s,t) * float32(V(b,h/{heads},t,e))
    O(b,h,s,e) = {type}(U(b,h,s,e) / L(b,h,s))
}"""
SCORE = "P(b,h,s,t) * 0.125"
FORMULAS: dict[str, tuple[str, Any]] = {
    "plain": (SCORE, lambda t, x, s, k: x),
    "causal": (f"s >= t ? {SCORE} : -1e999", lambda t, x, s, k: x.masked_fill(s < k, float("-inf"))),
    "window": (
        f"s >= t && s - t < 100 ? {SCORE} : -1e999",
        lambda t, x, s, k: x.masked_fill((s < k) | (s - k >= 100), float("-inf")),
    ),
    "alibi": (f"{SCORE} + (t - s) * 0.0625", lambda t, x, s, k: x + (k - s) * 0.0625),
    "soft cap": ("20.0 * tanh(P(b,h,s,t) * 0.00625)", lambda t, x, s, k: 20 * t.tanh(x / 20)),
}
#: Batches, heads, groups of them, queries, keys, widths of keys and of values.
SIZES = [
    (2, 4, 4, 256, 256, 64, 64), (1, 8, 2, 384, 512, 128, 128), (2, 2, 1, 1000, 1000, 128, 128),
    (1, 2, 2, 77, 333, 96, 80), (2, 6, 3, 38, 81, 128, 128), (20, 32, 4, 1, 300, 64, 64), (3, 4, 1, 5, 200, 64, 64),
    (1, 2, 2, 200, 130, 192, 128), (1, 2, 2, 300, 300, 256, 256),
]  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", FORMULAS)
def test_attention(torch: Any, name: str, size: tuple[int, ...]) -> None:
    b, h, g, s, t, d, e = size
    if name in ("causal", "window") and s != t:
        pytest.skip("every query has keys")
    formula, same = FORMULAS[name]
    dtype = "float16" if name == "alibi" else "bfloat16"
    text = TEXT.replace("{heads}", str(h // g)).replace("{formula}", formula)
    op = weft.define(text.replace("{type}", dtype))
    made = torch.Generator(device="cuda").manual_seed(0)
    q, k, v = (
        torch.randn(shape, device="cuda", dtype=getattr(torch, dtype), generator=made)
        for shape in ((b, h, s, d), (b, g, t, d), (b, g, t, e))
    )
    wide_k, wide_v = (x.double().repeat_interleave(h // g, 1) for x in (k, v))
    rows, keys = torch.arange(s, device="cuda")[:, None], torch.arange(t, device="cuda")[None]
    scores = same(torch, q.double() @ wide_k.transpose(-1, -2) * 0.125, rows, keys)
    want = scores.softmax(-1) @ wide_v
    error = (op(q, k, v).double() - want).norm() / want.norm()
    assert error < (1e-3 if dtype == "float16" else 6e-3)


def test_rows_that_are_masked_whole(torch: Any) -> None:
    """They are no numbers, as in two passes; others are what they should be."""
    text = TEXT.replace("{heads}", "1").replace("{formula}", f"s >= t + 50 ? {SCORE} : -1e999")
    q, k, v = (torch.randn(1, 2, 256, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    got = weft.define(text.replace("{type}", "bfloat16"))(q, k, v)
    rows, keys = torch.arange(256, device="cuda")[:, None], torch.arange(256, device="cuda")[None]
    scores = (q.double() @ k.double().transpose(-1, -2) * 0.125).masked_fill(rows < keys + 50, float("-inf"))
    want = scores.softmax(-1) @ v.double()
    assert bool(got[:, :, :50].isnan().all())
    torch.testing.assert_close(got[:, :, 50:].double(), want[:, :, 50:], rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize(
    "weights",
    [
        "A(b,h,s,t) = W(b,h,s,t) / L(b,h,s)\n    U(b,h,s,e) +=! A(b,h,s,t)",
        "R(b,h,s) = 1.0 / L(b,h,s)\n A(b,h,s,t) = {type}(W(b,h,s,t) * R(b,h,s))\n U(b,h,s,e) +=! float32(A(b,h,s,t))",
    ],
    ids=["divided", "multiplied and rounded"],
)
def test_weights_that_are_normalized_first(torch: Any, weights: str) -> None:
    text = TEXT.replace("U(b,h,s,e) +=! W(b,h,s,t)", weights).replace("U(b,h,s,e) / L(b,h,s)", "U(b,h,s,e)")
    op = weft.define(text.replace("{heads}", "1").replace("{formula}", SCORE).replace("{type}", "bfloat16"))
    q, k, v = (torch.randn(2, 3, 300, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    want = (q.double() @ k.double().transpose(-1, -2) * 0.125).softmax(-1) @ v.double()
    assert (op(q, k, v).double() - want).norm() / want.norm() < 6e-3
