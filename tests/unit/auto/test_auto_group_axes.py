"""Convolutions in groups of few channels: groups are an axis, and each is a contraction."""

from __future__ import annotations

import numpy as np
import pytest

import weft

TEXT = """
def grouped(float(C,H,W) I, float(F,G,3,3) K) -> (O) {
    O(f,y,x) +=! I((f / MADE) * GIVEN + c, y + ky, x + kx) * K(f,c,ky,kx)
        where f in 0:F, c in 0:GIVEN, y in 0:H - 2, x in 0:W - 2
}
"""


@pytest.mark.parametrize(("groups", "made", "given"), [(5, 8, 8), (3, 4, 6), (2, 16, 3)])
def test_groups_are_sums_of_their_own(groups: int, made: int, given: int) -> None:
    op = weft.define(TEXT.replace("MADE", str(made)).replace("GIVEN", str(given)))
    rng = np.random.default_rng(0)
    image = rng.standard_normal((groups * given, 9, 37), np.float32)
    weights = rng.standard_normal((groups * made, given, 3, 3), np.float32)
    parts = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), (3, 3), (1, 2))
    right = [
        np.einsum("cyxkl,fckl->fyx", parts[g * given : (g + 1) * given], weights[g * made : (g + 1) * made])
        for g in range(groups)
    ]
    np.testing.assert_allclose(op(image, weights), np.concatenate(right), rtol=1e-4, atol=1e-4)
    assert f"groups of {made} along dimension 0 are an axis" in op.explain(I=image.shape, K=weights.shape)


@pytest.mark.parametrize(("rows", "deep", "columns"), [(197, 20, 96), (13, 7, 33), (97, 64, 50), (29, 5, 16)])
def test_what_is_done_with_sums_joins_tiles_that_do_not_come_out_even(rows: int, deep: int, columns: int) -> None:
    op = weft.define("""
def layer(float(M,K) X, float(N,K) W, float(N) B, float(M,N) R) -> (O) {
    S(m,n) +=! X(m,k) * W(n,k)
    O(m,n) = S(m,n) + B(n) + R(m,n)
}
""")
    rng = np.random.default_rng(rows)
    shapes = (rows, deep), (columns, deep), (columns,), (rows, columns)
    x, w, b, r = (rng.standard_normal(s, np.float32) for s in shapes)
    right = x.astype(np.float64) @ w.T.astype(np.float64) + b + r
    np.testing.assert_allclose(op.bind(W=w, B=b)(x, r), right, rtol=1e-4, atol=1e-4)
