"""A transposed convolution by the taps that reach each place, against one of an image with zeros between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.graph.builder import GraphBuilder
from weft.graph.compile_graph import compile_graph
from weft.graph.evaluate import evaluate
from weft.graph.formulas import joints, views, windows


def values(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("kernel", "steps", "around", "extra"),
    [((2, 2), (2, 2), (0, 0), (0, 0)), ((4, 4), (2, 2), (2, 2), (0, 0)), ((3, 4), (3, 2), (0, 0), (0, 0)),
     ((2, 3), (1, 1), (0, 1), (0, 0)), ((2, 2), (2, 2), (0, 0), (2, 0))],
)  # fmt: skip
def test_spread_is_the_convolution_of_a_stretched_image(
    kernel: tuple[int, int], steps: tuple[int, int], around: tuple[int, int], extra: tuple[int, int]
) -> None:
    x, weight, bias = values(2, 3, 5, 4), values(3, 6, *kernel, seed=1), values(6, seed=2)
    assert windows.spreads_evenly((5, 4), kernel, (steps, around, (1, 1), extra))
    sizes = windows.spread_sizes((5, 4), kernel, steps, around, extra)
    g = GraphBuilder("net")
    a, w, b = g.input("x", "float32", x.shape), g.constant("w", weight), g.constant("b", bias)
    made = g.formula("spread", [a, w, b], windows.spread, steps, around, sizes)
    y = g.formula("y", [made], views.reshape, (2, 6, *sizes))
    before = tuple(k - 1 - p for k, p in zip(kernel, around))
    wide = g.formula("wide", [a], windows.stretched, steps, before, tuple(n + e for n, e in zip(before, extra)))
    turned = g.formula("turned", [g.formula("t", [w], views.permute, (1, 0, 2, 3))], joints.flip, (2, 3))
    z = g.formula("z", [wide, turned, b], windows.convolution, (1, 1), (0, 0), (0, 0), (1, 1), 1)
    graph = g.finish([y, z])
    ours, meant = evaluate(graph, [x], wide=True)
    np.testing.assert_allclose(ours, meant, rtol=1e-6, atol=1e-6)
    for found in compile_graph(graph).executable.run([x]):
        np.testing.assert_allclose(found, meant, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("kernel", "steps", "around", "extra"),
    [((3, 3), (2, 2), (1, 1), (1, 1)), ((4, 5), (2, 2), (1, 2), (0, 1)), ((3, 2), (1, 2), (1, 0), (0, 0)),
     ((5, 3), (3, 2), (1, 1), (0, 1)), ((2, 1), (3, 2), (0, 0), (1, 1))],
)  # fmt: skip
@pytest.mark.parametrize("with_bias", [True, False])
def test_gathered_is_the_convolution_of_a_stretched_image(
    kernel: tuple[int, int], steps: tuple[int, int], around: tuple[int, int], extra: tuple[int, int], with_bias: bool
) -> None:
    x, weight, bias = values(2, 3, 5, 4), values(3, 6, *kernel, seed=1), values(6, seed=2)
    sizes = windows.spread_sizes((5, 4), kernel, steps, around, extra)
    assert windows.gathers_evenly(sizes, (steps, (1, 1)))
    g = GraphBuilder("net")
    a, w = g.input("x", "float32", x.shape), g.constant("w", weight)
    b = [g.constant("b", bias)] if with_bias else []
    fn = windows.gathered if with_bias else windows.gathered_without_bias
    y = g.formula("y", [a, w, *b], fn, steps, around, sizes)
    before = tuple(k - 1 - p for k, p in zip(kernel, around))
    wide = g.formula("wide", [a], windows.stretched, steps, before, tuple(n + e for n, e in zip(before, extra)))
    turned = g.formula("turned", [g.formula("t", [w], views.permute, (1, 0, 2, 3))], joints.flip, (2, 3))
    plain = windows.convolution if with_bias else windows.convolution_without_bias
    z = g.formula("z", [wide, turned, *b], plain, (1, 1), (0, 0), (0, 0), (1, 1), 1)
    graph = g.finish([y, z])
    ours, meant = evaluate(graph, [x], wide=True)
    np.testing.assert_allclose(ours, meant, rtol=1e-6, atol=1e-6)
    for found in compile_graph(graph).executable.run([x]):
        np.testing.assert_allclose(found, meant, rtol=1e-4, atol=1e-4)


def test_sizes_that_strides_do_not_divide_are_stretched() -> None:
    assert not windows.gathers_evenly((9, 8), ((2, 2), (1, 1)))
    assert not windows.gathers_evenly((8, 8), ((2, 2), (2, 1)))
    assert not windows.gathers_evenly((0, 8), ((2, 2), (1, 1)))


def test_strides_that_do_not_divide_are_said_otherwise() -> None:
    assert not windows.spreads_evenly((5, 4), (3, 3), ((2, 2), (1, 1), (1, 1), (1, 1)))
    assert not windows.spreads_evenly((5, 4), (4, 4), ((2, 2), (1, 1), (1, 1), (0, 0)))
    assert not windows.spreads_evenly((5, 4), (2, 2), ((2, 2), (0, 0), (2, 2), (0, 0)))
