"""Axes of sums that are walked together become one, and mean the same; others stay."""

from __future__ import annotations

import numpy as np
import pytest

from weft.graph.graph import Shape, shape_of
from weft.graph.groups.merge_axes import merge_axes, reshaped_layout
from weft.graph.groups.split_axes import split_axes
from weft.ir.expr import Const, Var
from weft.ir.visit import loads
from weft.lang.parse import parse_programs
from weft.tensor.evaluate import evaluate
from weft.tensor.program import TensorProgram
from weft.tensor.specialize import specialize

SIZES = {"N": 2, "H": 3, "W": 4, "C": 5}
MEAN = "def f(float(N,H,W,C) X) -> (Y) { Y(n,c) +=! X(n,h,w,c) }"
#: What is added up is also a result: it has the merged axes too.
SHOWN = "def f(float(N,H,W,C) X) -> (T, Y) { T(n,h,w,c) = exp(X(n,h,w,c))  Y(n,c) +=! T(n,h,w,c) }"
#: Sums over three axes, and pixels that are weighted by where they are.
WHOLE = "def f(float(N,H,W,C) X) -> (Y) { Y(c) +=! X(n,h,w,c) }"
WEIGHTED = "def f(float(N,H,W,C) X, float(H,W) M) -> (Y) { Y(n,c) +=! X(n,h,w,c) * M(h,w) }"
TURNED = "def f(float(N,H,W,C) X, float(W,H) M) -> (Y) { Y(n,c) +=! X(n,h,w,c) * M(w,h) }"
ROWS = "def f(float(N,H,W,C) X, float(H) M) -> (Y) { Y(n,c) +=! X(n,h,w,c) * M(h) }"


def made(text: str) -> TensorProgram:
    program = parse_programs(text)["f"]
    return specialize(program, {v.name: SIZES[v.name] for v in program.sizes})


def shapes(program: TensorProgram) -> dict[str, Shape]:
    return {b.name: shape_of(b.shape) for b in (*program.inputs, *program.outputs)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MEAN, {"X": (2, 12, 5), "Y": (2, 5)}),
        (SHOWN, {"X": (2, 12, 5), "T": (2, 12, 5), "Y": (2, 5)}),
        (WHOLE, {"X": (24, 5), "Y": (5,)}),
        (WEIGHTED, {"X": (2, 12, 5), "M": (12,), "Y": (2, 5)}),
        (TURNED, {"X": (2, 3, 4, 5), "M": (4, 3), "Y": (2, 5)}),
        (ROWS, {"X": (2, 3, 4, 5), "M": (3,), "Y": (2, 5)}),
    ],
)
def test_sums_mean_the_same(text: str, expected: dict[str, Shape]) -> None:
    program = made(text)
    merged = merge_axes(program, {})
    assert shapes(merged) == expected
    random = np.random.default_rng(0)
    args = [random.standard_normal(shape_of(b.shape)).astype(np.float32) for b in program.inputs]
    right = evaluate(program, args)
    results = evaluate(merged, [a.reshape(shape_of(b.shape)) for a, b in zip(args, merged.inputs)])
    for ours, theirs in zip(results, right):
        np.testing.assert_allclose(ours.reshape(theirs.shape), theirs, rtol=1e-6)


def test_rows_that_are_apart_in_memory_stay_apart() -> None:
    """A part of a wider image: its rows do not follow one another."""
    assert shapes(merge_axes(made(MEAN), {"X": (90, 30, 5, 1)}))["X"] == (2, 3, 4, 5)
    assert shapes(merge_axes(made(MEAN), {"X": (60, 20, 5, 1)}))["X"] == (2, 12, 5)


def test_layouts_follow() -> None:
    assert reshaped_layout((1, 14, 14, 480), (94080, 6720, 480, 1), (1, 196, 480)) == ((1, 196, 480), (94080, 480, 1))
    assert reshaped_layout((1, 480, 14, 14), (94080, 1, 6720, 480), (1, 480, 196)) == ((1, 480, 196), (94080, 1, 480))
    assert reshaped_layout((2, 3), (3, 1), (2, 3)) == ((2, 3), (3, 1))
    assert reshaped_layout((196, 384), (384, 1), (14, 14, 384)) == ((14, 14, 384), (5376, 384, 1))
    assert reshaped_layout((2, 12, 5), (60, 5, 1), (4, 6, 5)) == ((4, 6, 5), (30, 5, 1))
    assert reshaped_layout((14, 1, 8), (8, 999, 1), (14, 8)) == ((14, 8), (8, 1))


#: Pixels in one formula, rows and columns in another, which reads its neighbour too in the third.
PIXELS = """def f(float(P,C) X) -> (Y) {
    T(p,c) = 2 * X(p,c) where p in 0:12
    S(y,x) +=! T(4 * y + x,c) where y in 0:3, x in 0:4
    Y(y,x,c) = T(4 * y + x,c) - S(y,x) where y in 0:3, x in 0:4 }"""
BACK = """def f(float(H,W,C) X) -> (Y) {
    T(p,c) = X(p / 4,p % 4,c) where p in 0:12
    Y(y,x) +=! T(4 * y + x,c) where y in 0:3, x in 0:4 }"""
NEIGHBOURS = """def f(float(P,C) X) -> (Y) {
    T(p,c) = X(p,c) + X(min(p + 1,11),c) where p in 0:12
    Y(y,x) +=! T(4 * y + x,c) where y in 0:3, x in 0:4 }"""


IMAGES = """def f(float(12,5) X) -> (float(2,3,2,5) Y) {
    T(p,c) = X(p,c) + 1.0
    Y(n,y,x,c) = T((n * 3 + y) * 2 + x,c) where n in 0:2, y in 0:3, x in 0:2, c in 0:5 }"""


def test_pixels_of_several_images_are_images_rows_and_columns() -> None:
    program = parse_programs(IMAGES)["f"]
    split = split_axes(program)
    assert shapes(split) == {"X": (2, 3, 2, 5), "Y": (2, 3, 2, 5)}
    x = np.random.default_rng(0).standard_normal((12, 5)).astype(np.float32)
    (right,), (made,) = evaluate(program, [x]), evaluate(split, [x.reshape(2, 3, 2, 5)])
    np.testing.assert_array_equal(made, right)


@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [
        (PIXELS, (12, 5), {"X": (3, 4, 5), "Y": (3, 4, 5)}),
        (BACK, (3, 4, 5), {"X": (3, 4, 5), "Y": (3, 4)}),
        (NEIGHBOURS, (12, 5), {"X": (12, 5), "Y": (3, 4)}),
    ],
)
def test_pixels_are_rows_and_columns_for_all(text: str, shape: Shape, expected: dict[str, Shape]) -> None:
    program = parse_programs(text)["f"]
    sizes = {v.name: n for v, n in zip(program.inputs[0].shape, shape)}  # type: ignore[attr-defined]
    program = specialize(program, sizes)
    split = split_axes(program)
    assert shapes(split) == expected
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    (right,), (made,) = evaluate(program, [x]), evaluate(split, [x.reshape(expected["X"])])
    np.testing.assert_allclose(made.reshape(right.shape), right, rtol=1e-6)
    if expected["X"] != (12, 5):
        subscripts = [i for s in split.statements for load in loads(s.value) for i in load.indices]
        assert all(isinstance(i, (Var, Const)) for i in subscripts)
