"""Convolutions of 3x3 windows as products of sums of pixels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from weft.graph.builder import GraphBuilder
from weft.graph.compile_graph import compile_graph
from weft.graph.evaluate import evaluate
from weft.graph.formulas import pointwise, windows
from weft.graph.graph import Graph, check_graph
from weft.graph.rewrites.costs import Costs
from weft.graph.rewrites.winograd import winograd
from weft.graph.run.arrays import NumpyArrays
from weft.tensor.program import TensorProgram

SAME = ((1, 1), (1, 1), (1, 1), (1, 1), 1)


class Said(Costs):
    """Costs by which products take half as long as windows."""

    def seconds(self, program: TensorProgram, constants: frozenset[str]) -> float:
        return 1.0 if len(program.outputs[0].shape) == 3 else 2.0


def values(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def network(image: tuple[int, int], facts: tuple[Any, ...], taps: tuple[int, int] = (3, 3)) -> Graph:
    """Two convolutions of one image, one with a bias, and their sum."""
    g = GraphBuilder("net")
    x = g.input("x", "float32", (2, 5, *image))
    groups = facts[-1]
    weights = [g.constant(f"w{n}", values(10, 5 // groups, *taps, seed=n)) for n in range(2)]
    a = g.formula("a", [x, weights[0]], windows.convolution_without_bias, *facts)
    b = g.formula("b", [x, weights[1], g.constant("bias", values(10))], windows.convolution, *facts)
    return g.finish([g.formula("y", [a, b], pointwise.binary, "add", g.edges[a].dtype)])


def run(graph: Graph) -> Any:
    (made,) = evaluate(graph, [values(*graph.edges["x"].shape, seed=9)])
    return made


def rewritten(graph: Graph) -> Graph:
    return check_graph(winograd(graph, Said(NumpyArrays())))


@pytest.mark.parametrize(
    ("image", "before", "after"),
    [((8, 6), (1, 1), (1, 1)), ((7, 5), (1, 1), (1, 1)), ((6, 7), (0, 0), (0, 0)), ((5, 5), (2, 0), (1, 2)),
     ((3, 3), (0, 0), (0, 0)), ((1, 1), (1, 1), (1, 1))],
)  # fmt: skip
def test_results_are_those_of_windows(image: Any, before: Any, after: Any) -> None:
    graph = network(image, ((1, 1), before, after, (1, 1), 1))
    made = rewritten(graph)
    assert made is not graph
    assert [n.name for n in made.nodes].count("x_tiles_node") == 1, "both convolutions read the same sums"
    np.testing.assert_allclose(run(made), run(graph), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("facts", "taps"),
    [(((2, 2), (1, 1), (1, 1), (1, 1), 1), (3, 3)), (((1, 1), (2, 2), (2, 2), (2, 2), 1), (3, 3)),
     (((1, 1), (1, 1), (1, 1), (1, 1), 5), (3, 3)), (((1, 1), (1, 0), (1, 0), (1, 1), 1), (3, 1)),
     (((1, 1), (2, 2), (2, 2), (1, 1), 1), (5, 5))],
    ids=["strides", "dilation", "groups", "one column", "five rows"],
)  # fmt: skip
def test_others_stay(facts: Any, taps: Any) -> None:
    graph = network((9, 9), facts, taps)
    assert rewritten(graph) is graph


def test_weights_that_are_no_constants_stay() -> None:
    graph = network((8, 8), SAME)
    given = replace(graph, inputs=(*graph.inputs, "w0", "w1"), constants={"bias": graph.constants["bias"]})
    assert rewritten(given) is given


def test_tiles_that_no_cache_holds_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = network((8, 8), SAME)
    monkeypatch.setattr("weft.graph.run.processor.Cpu.cached_bytes", 16 * 2 * 16 * (5 + 10) * 4 - 1)
    assert rewritten(graph) is graph


def test_a_model_is_compiled_so_where_that_is_asked_for() -> None:
    g = GraphBuilder("net")
    x = g.input("x", "float32", (1, 256, 15, 14))
    y = g.formula("y", [x, g.constant("w", values(256, 256, 3, 3))], windows.convolution_without_bias, *SAME)
    graph = g.finish([g.formula("z", [y], pointwise.same, "relu")])
    array = values(1, 256, 15, 14, seed=1)
    asked = compile_graph(replace(graph, numerics="winograd"))
    assert any("product" in str(node.inputs) for node in asked.executable.graph.nodes)
    (made,) = asked.executable.run([array])
    (exact,) = evaluate(graph, [array.astype(np.float64)])
    np.testing.assert_allclose(made, exact, rtol=1e-4, atol=1e-4)
    plain = compile_graph(graph)
    assert not any("product" in str(node.inputs) for node in plain.executable.graph.nodes)
