"""Empty tensors and empty ranges: reductions give the identity, and bounds still hold where it is written."""

from __future__ import annotations

import numpy as np
import pytest

import weft


def test_reductions_over_nothing_give_the_identity() -> None:
    x = np.zeros((3, 0), np.float32)
    for op, identity in {"+": 0, "*": 1, "min": np.inf, "max": -np.inf}.items():
        reduce = weft.define(f"def reduce(float(M,N) X) -> (Y) {{ Y(i) {op}=! X(i,j) }}")
        np.testing.assert_array_equal(reduce(x), np.full(3, identity))
        assert reduce(x.T).shape == (0,)


def test_elements_set_over_an_empty_reduction_are_in_bounds() -> None:
    # `Y` is set at every i+j, though there is no k to add up: i+j must stay inside.
    overlap = weft.define("def overlap(float(M,K) X, float(N,K) Y) -> (float(3) Z) { Z(i+j) +=! X(i,k) * Y(j,k) }")
    x = np.ones((9, 0), np.float32)
    with pytest.raises(weft.ShapeError, match=r"`Z\(i\+j\)` writes outside"):
        overlap(x, x[:1])
    np.testing.assert_array_equal(overlap(x[:2], x[:2]), np.zeros(3))
    np.testing.assert_array_equal(overlap(x, x[:0]), np.zeros(3))  # there is no j, so nothing is set


@pytest.mark.parametrize("name", ["softmax", "matmul", "transpose", "sum_rows", "cumsum"])
def test_the_library_takes_empty_tensors(name: str) -> None:
    op = getattr(weft.ops, name)
    for shape in ((0, 0), (3, 0), (0, 3)):
        x = np.zeros(shape, np.float32)
        arguments = (x, x.T) if name == "matmul" else (x,)
        expected = {"matmul": (shape[0], shape[0]), "transpose": shape[::-1], "sum_rows": shape[:1]}.get(name, shape)
        result = op(*arguments)
        assert result.shape == expected
        assert not result.any()
