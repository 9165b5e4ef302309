"""Attention's backward pass from its formulas on a device, against float64."""

from __future__ import annotations

from typing import Any

import pytest

import weft

TEXT = """def f({type}(B,H,S,D) Q, {type}(B,H,T,D) K, {type}(B,H,T,E) V, {type}(B,H,S,E) O, {type}(B,H,S,E) G,
      float32(B,H,S) L) -> ({type}(B,H,S,D) dQ, {type}(B,H,T,D) dK, {type}(B,H,T,E) dV) {
    X(b,h,s,t) +=! float32(Q(b,h,s,d)) * float32(K(b,h,t,d))
    P(b,h,s,t) = {weight}
    R(b,h,s) +=! float32(G(b,h,s,e)) * float32(O(b,h,s,e))
    Y(b,h,s,t) +=! float32(G(b,h,s,e)) * float32(V(b,h,t,e))
    Z(b,h,s,t) = P(b,h,s,t) * (Y(b,h,s,t) - R(b,h,s))
    UV(b,h,t,e) +=! P(b,h,s,t) * float32(G(b,h,s,e))
    UK(b,h,t,d) +=! Z(b,h,s,t) * float32(Q(b,h,s,d))
    UQ(b,h,s,d) +=! Z(b,h,s,t) * float32(K(b,h,t,d))
    dV(b,h,t,e) = {type}(UV(b,h,t,e))
    dK(b,h,t,d) = {type}(UK(b,h,t,d) * 0.125)
    dQ(b,h,s,d) = {type}(UQ(b,h,s,d) * 0.125)
}"""
WEIGHT = "exp(X(b,h,s,t) * 0.125 - L(b,h,s))"
MASKS: dict[str, tuple[str, Any]] = {
    "plain": ("", None),
    "causal": ("s >= t", lambda s, t: s >= t),
    "window": ("s >= t && s - t < 100", lambda s, t: (s >= t) & (s - t < 100)),
    "after": ("t >= s", lambda s, t: t >= s),
}
#: Batches, heads, queries, keys, widths of keys and of values.
SIZES = [(2, 4, 256, 256, 64, 64), (1, 2, 384, 384, 128, 128), (2, 2, 1000, 1000, 128, 128), (1, 3, 200, 200, 96, 80),
         (1, 2, 77, 333, 64, 64), (1, 2, 300, 300, 256, 256)]  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", MASKS)
def test_backward(torch: Any, name: str, size: tuple[int, ...]) -> None:
    b, h, s, t, d, e = size
    mask, keep = MASKS[name]
    if mask and s != t:
        pytest.skip("every query has keys")
    dtype = "float16" if name == "after" else "bfloat16"
    weight = f"{mask} ? {WEIGHT} : 0.0" if mask else WEIGHT
    op = weft.define(TEXT.replace("{weight}", weight).replace("{type}", dtype))
    made = torch.Generator(device="cuda").manual_seed(0)
    q, k, v, g = (
        torch.randn(shape, device="cuda", dtype=getattr(torch, dtype), generator=made)
        for shape in ((b, h, s, d), (b, h, t, d), (b, h, t, e), (b, h, s, e))
    )
    wide = [x.double().requires_grad_(True) for x in (q, k, v)]
    rows, keys = torch.arange(s, device="cuda")[:, None], torch.arange(t, device="cuda")[None]
    scores = wide[0] @ wide[1].transpose(-1, -2) * 0.125
    if keep is not None:
        scores = scores.masked_fill(~keep(rows, keys), float("-inf"))
    out = scores.softmax(-1) @ wide[2]
    want = torch.autograd.grad(out, wide, g.double())
    logs = scores.detach().logsumexp(-1).float()
    got = op(q, k, v, out.detach().to(q.dtype), g, logs)
    for mine, exact in zip(got, want, strict=True):
        assert (mine.double() - exact).norm() / exact.norm() < 1.2e-2
