"""Operators with some arguments fixed."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import weft

TEXT = """
def linear(float(M,K) X, float(N,K) W, float(N) b, float scale) -> (O) {
    T(k,n) = W(n,k) * scale
    Y(m,n) +=! X(m,k) * T(k,n)
    O(m,n) = Y(m,n) + b(n)
}"""
RNG = np.random.default_rng(0)
X, W, B = (RNG.standard_normal(s, np.float32) for s in ((5, 7), (3, 7), (3,)))
EXPECTED = X @ (W * 0.5).T + B


@pytest.mark.parametrize("schedule", ["naive", "auto"])
@pytest.mark.parametrize("bound", [("W",), ("W", "scale"), ("b", "scale"), ("W", "b", "scale")])
def test_bound_arguments_are_left_out_of_calls(schedule: str, bound: tuple[str, ...]) -> None:
    values = {"X": X, "W": W, "b": B, "scale": 0.5}
    op = weft.define(TEXT, schedule=schedule).bind(**{n: values[n] for n in bound})
    rest = [v for n, v in values.items() if n not in bound]
    for _ in range(3):  # the slow call, the one that makes calls fast, a fast one
        np.testing.assert_allclose(op(*rest), EXPECTED, rtol=1e-5, atol=1e-6)


def test_what_depends_on_bound_values_alone_is_computed_once() -> None:
    op = weft.define(TEXT, schedule="naive").bind(W=W, scale=0.5)
    op(X, B)
    (special,) = op._known.values()
    assert [m.nbytes for m in special.prepared] == [7 * 3 * 4]


def test_binding_copies() -> None:
    weights = W.copy()
    op = weft.define(TEXT).bind(W=weights, b=B, scale=0.5)
    weights[:] = 0
    np.testing.assert_allclose(op(X), EXPECTED, rtol=1e-5, atol=1e-6)


def test_binding_goes_on_and_copies_keep_it() -> None:
    op = weft.define(TEXT).bind(W=W).bind(b=B, scale=0.5)
    assert str(op.interface) == "linear(float32(M,K) X) -> (O)"
    for twin in (op, pickle.loads(pickle.dumps(op))):
        np.testing.assert_allclose(twin(X), EXPECTED, rtol=1e-5, atol=1e-6)


def test_views_and_torch_tensors_can_be_bound() -> None:
    torch = pytest.importorskip("torch")
    wide = np.repeat(W, 2, axis=1)
    op = weft.define(TEXT).bind(W=wide[:, ::2], b=torch.from_numpy(B), scale=0.5)
    np.testing.assert_allclose(op(X), EXPECTED, rtol=1e-5, atol=1e-6)


def test_a_bound_array_of_the_wrong_size_is_told_at_the_call() -> None:
    op = weft.define(TEXT).bind(W=W[:, :6].copy(), b=B, scale=0.5)
    with pytest.raises(weft.ShapeError, match="dimension 1 of W must be 7, got 6"):
        op(X)


def test_a_name_that_is_no_parameter() -> None:
    with pytest.raises(weft.ArgumentError) as caught:
        weft.define(TEXT).bind(Wt=W)
    assert str(caught.value) == (
        "error: linear has no parameter `Wt` to bind\n"
        "  why:   its parameters are X, W, b, scale\n"
        "  help:  did you mean `W`?"
    )
