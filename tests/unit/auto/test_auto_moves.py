"""Transposes: squares that turn in registers, for any rank, short dimensions walked through together."""

from __future__ import annotations

import numpy as np
import pytest

import weft

PERMUTE = "def move(float(A,B,C,D) X) -> (O) { O(%s) = X(a,b,c,d) + 1 }"


def expected(x: np.ndarray, order: str) -> np.ndarray:  # type: ignore[type-arg]
    return np.einsum(f"abcd->{order.replace(',', '')}", x) + 1


@pytest.mark.parametrize("order", ["a,d,b,c", "d,c,b,a", "b,a,d,c", "a,c,b,d", "c,d,a,b"])
@pytest.mark.parametrize("shape", [(2, 5, 7, 33), (3, 16, 16, 16), (1, 40, 1, 17), (2, 3, 4, 5), (0, 3, 16, 16)])
def test_any_order(order: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    op = weft.define(PERMUTE % order, schedule="auto")
    np.testing.assert_array_equal(op(x), expected(x, order))


@pytest.mark.parametrize("dtype", ["uint8", "float64", "float16"])
def test_other_types(dtype: str) -> None:
    x = (np.random.default_rng(0).standard_normal((70, 90)) * 50).astype(dtype)
    op = weft.define(f"def t({dtype}(M,N) X) -> (O) {{ O(j,i) = X(i,j) }}", schedule="auto")
    np.testing.assert_array_equal(op(x), x.T)


def test_squares_turn_where_both_sides_are_long_enough() -> None:
    op = weft.define("def t(float(M,N) X) -> (O) { O(j,i) = X(i,j) }", schedule="auto")
    assert "turn in registers" in op.explain(X=(256, 256))
    assert "turn in registers" not in op.explain(X=(256, 3))
