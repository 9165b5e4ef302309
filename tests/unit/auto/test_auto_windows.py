"""Stencils: a few rows at a time, cheap stages in between never stored."""

from __future__ import annotations

import numpy as np
import pytest

import weft

BLUR = """
def blur(float(H,W) A) -> (B) {
    T(y,x) = (A(y,x) + A(y,x+1) + A(y,x+2)) / 3
    B(y,x) = (T(y,x) + T(y+1,x) + T(y+2,x)) / 3
}"""
COSTLY = """
def costly(float(H,W) A) -> (B) {
    T(y,x) = exp(A(y,x)) / (1 + log(1 + A(y,x+1)))
    B(y,x) = T(y,x) + T(y+1,x) + T(y,x+1) + T(y+1,x+1)
}"""
PLANES = "def heat(float(D,H,W) A) -> (B) { B(z,y,x) = A(z,y+1,x+1) + A(z+2,y+1,x+1) + A(z+1,y,x+1) + A(z+1,y+2,x+1) }"


@pytest.mark.parametrize("text", [BLUR, COSTLY])
@pytest.mark.parametrize("shape", [(3, 3), (40, 50), (37, 131), (64, 64), (200, 18)])
def test_results_are_those_of_the_plain_loops(text: str, shape: tuple[int, int]) -> None:
    a = np.random.default_rng(0).random(shape, np.float32)
    expected = weft.define(text, schedule="naive")(a)
    np.testing.assert_allclose(weft.define(text, schedule="auto")(a), expected, rtol=1e-5)


def test_three_dimensions() -> None:
    a = np.random.default_rng(0).random((9, 20, 40), np.float32)
    expected = weft.define(PLANES, schedule="naive")(a)
    np.testing.assert_allclose(weft.define(PLANES, schedule="auto")(a), expected, rtol=1e-5)


def test_a_cheap_stage_is_inlined_and_rows_share_it() -> None:
    told = weft.define(BLUR, schedule="auto").explain(A=(512, 512))
    assert "T: inlined into its reader, never stored" in told
    assert "rows of `vy` at a time" in told


def test_a_costly_stage_is_not_computed_again() -> None:
    assert "never stored" not in weft.define(COSTLY, schedule="auto").explain(A=(512, 512))
