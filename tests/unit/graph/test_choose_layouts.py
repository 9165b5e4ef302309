"""Layouts over a graph: which axes are features, which answers cost least, and the meaning, which stays."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from weft.graph.builder import GraphBuilder
from weft.graph.compile_graph import compile_graph
from weft.graph.evaluate import evaluate
from weft.graph.formulas import contraction, joints, pointwise, views, windows
from weft.graph.graph import Call, Graph, Opaque, Ref, check_graph, shape_of
from weft.graph.groups.compile_group import prepare_group
from weft.graph.groups.group_program import group_program
from weft.graph.groups.partition import Group
from weft.graph.groups.storage import Storage
from weft.graph.rewrites.choose_layouts import choose_layouts
from weft.graph.rewrites.costs import Costs
from weft.graph.rewrites.feature_axes import feature_axes
from weft.graph.rewrites.least_cost import Cost, least_cost
from weft.graph.rewrites.library_epilogues import with_call
from weft.graph.rewrites.reorder import last, reorder_program
from weft.graph.run.arrays import NumpyArrays
from weft.graph.text import parse_graph, print_graph
from weft.ir import dtype as dt
from weft.tensor.program import TensorProgram


def values(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def network() -> Graph:
    """Convolutions that a residual, a pool, a concatenation and a depthwise convolution lie between."""
    g = GraphBuilder("net")
    x = g.input("x", "float32", (2, 3, 9, 8))
    w1, w2, w3 = (
        g.constant(f"w{n}", values(*s, seed=n)) for n, s in enumerate(((8, 3, 3, 3), (8, 8, 1, 1), (8, 1, 3, 3)), 1)
    )
    around = ((1, 1), (1, 1), (1, 1), (1, 1))
    a = g.formula("a", [x, w1], convolution, *around, 1, library=Call("aten.conv", (Ref(x), Ref(w1))))
    b = g.formula("b", [a, w2], convolution, (1, 1), (0, 0), (0, 0), (1, 1), 1, library=Call("aten.conv", (Ref(a),)))
    c = g.formula("c", [a, b], pointwise.binary, "add", dt.float32)
    d = g.formula("d", [c, w3], convolution, *around, 8)
    e = g.formula("e", [d, c], joints.join, 1, dt.float32)
    p = g.formula("p", [e], windows.average_pool, (2, 2), (2, 2), (0, 0), (0, 0), False, True, None)
    f = g.formula("f", [p], views.reshape, (2, 16 * 4 * 4))
    w4 = g.constant("w4", values(16 * 4 * 4, 5, seed=4))
    return g.finish([g.formula("y", [f, w4], contraction.matmul), p])


def convolution(x: Any, weight: Any, *facts: Any) -> Any:
    return windows.convolution(x, weight, None, *facts)


def fast_when_last(program: TensorProgram) -> float:
    """A time model that likes features, of which there are more than places, at the end of what is written."""
    sizes = shape_of(program.outputs[0].shape)
    return 0.1 if len(sizes) == 4 and sizes[-2] in (8, 4) else 1.0


class Said(Costs):
    """Costs that a test says; a library that is for features last, if it is told so."""

    def __init__(self, seconds: Callable[[TensorProgram], float], for_last: bool = False) -> None:
        super().__init__(NumpyArrays())
        object.__setattr__(self, "seconds", lambda program, _constants: seconds(program))
        object.__setattr__(self, "conversion", lambda nbytes: 2 * nbytes / 1e9)
        object.__setattr__(self, "is_for_last", lambda _call: for_last)


ORDER = (0, 2, 3, 1)


def test_features_are_what_weights_are_subscripted_with() -> None:
    axes = feature_axes(network()).axes
    assert {name: list(axes[name]) for name in "abcdep"} == {name: [1] for name in "abcdep"}
    assert len({axes[name][1] for name in "abcde"}) == 1, "a residual and a concatenation make them one"
    assert list(axes["x"]) == [1]
    assert axes["x"][1] != axes["a"][1]


def test_axes_along_which_a_constant_is_repeated_are_no_features() -> None:
    """torch's attention writes a linear layer as a batch of products with one matrix."""
    g = GraphBuilder("net")
    x, w = g.input("x", "float32", (5, 8, 16)), g.constant("w", values(16, 24))
    many = g.formula("many", [w], views.expand, (5, 16, 24))
    graph = g.finish([g.formula("y", [x, many], contraction.matmul)])
    axes = feature_axes(graph).axes
    assert (list(axes["x"]), list(axes["y"])) == ([2], [2])


def test_reordered_programs_mean_the_same() -> None:
    graph = network()
    a = graph.fragments[0]
    x, w = values(2, 3, 9, 8), graph.constants["w1"]
    (plain,) = evaluate_program(a.program, x, w)
    names = [b.name for b in (*a.program.inputs, *a.program.outputs)]
    moved = reorder_program(a.program, {names[0]: last(4, 1), names[2]: last(4, 1)})
    (turned,) = evaluate_program(moved, x.transpose(0, 2, 3, 1), w)
    np.testing.assert_allclose(turned.transpose(0, 3, 1, 2), plain, rtol=1e-5, atol=1e-5)


def evaluate_program(program: TensorProgram, *args: Any) -> Any:
    from weft.tensor.evaluate import evaluate as run

    return run(program, [np.ascontiguousarray(a) for a in args])


def test_layouts_keep_the_meaning() -> None:
    graph = network()
    x = values(2, 3, 9, 8)
    changed = check_graph(choose_layouts(graph, Said(fast_when_last)))
    assert changed.edges["a"].order == ORDER
    assert changed.edges["a"].strides == (576, 1, 64, 8)
    assert changed.edges["p"].order is None, "what others see stays as it is"
    for ours, meant in zip(evaluate(changed, [x]), evaluate(graph, [x])):
        np.testing.assert_allclose(ours, meant, rtol=1e-4, atol=1e-4)
    slow_when_last = choose_layouts(graph, Said(lambda program: 1.1 - fast_when_last(program)))
    assert slow_when_last is graph, "nothing moves where that takes longer"
    assert choose_layouts(graph, Said(lambda _: 1.0)).edges["a"].order == ORDER, "but on a tie"


def test_a_library_that_converts_counts() -> None:
    """A call for features last is worth what converting its tensors costs: images of 2 * 8 * 72 floats."""

    def nearly_as_fast(program: TensorProgram) -> float:
        return (1e-4 if fast_when_last(program) < 1 else 0.94e-4) / 10

    graph = network()
    assert choose_layouts(graph, Said(nearly_as_fast)) is graph
    assert choose_layouts(graph, Said(nearly_as_fast, for_last=True)).edges["a"].order == ORDER


def test_kernels_see_tensors_in_the_order_of_memory() -> None:
    changed = choose_layouts(network(), Said(fast_when_last))
    storage = Storage(changed)
    groups = [i for i in storage.partition.items if isinstance(i, Group)]
    b = next(g for g in groups if any("b" in m.outputs for m in g.members))
    program = group_program(changed, b.members, storage.outputs(b), storage.source, "b")
    assert [shape_of(o.shape) for o in program.program.outputs] == [(2, 9, 8, 8)]
    prepared = prepare_group(changed, storage, program, NumpyArrays())
    assert prepared.signature.outputs == (), "dense, so nothing is said about it"


def test_compiled_with_layouts_as_the_evaluator_says() -> None:
    graph = network()
    x = values(2, 3, 9, 8)
    for ours, meant in zip(compile_graph(graph).executable.run([x]), evaluate(graph, [x], wide=True)):
        np.testing.assert_allclose(ours, meant, rtol=1e-4, atol=1e-4)


def test_a_library_call_reads_and_makes_what_the_framework_names() -> None:
    changed = choose_layouts(network(), Said(fast_when_last))
    b = next(n for n in changed.fragments if n.outputs == ("b",))
    assert b.library is not None
    called = check_graph(with_call(changed, [b], b.library, "a test"))
    call = next(n for n in called.nodes if isinstance(n, Opaque))
    for name in (*call.inputs, *call.outputs):
        assert name is not None
        assert called.edges[name].shape == (2, 8, 9, 8)
        found = Storage(called).find(name)
        assert found is not None
        assert found.layout.strides == (576, 1, 64, 8), "features last in memory, under the framework's subscripts"


@pytest.mark.parametrize("seed", range(20))
def test_least_cost_is_least(seed: int) -> None:
    rng = np.random.default_rng(seed)
    questions = [f"q{n}" for n in range(7)]
    costs = []
    for _ in range(9):
        asks = tuple(rng.choice(questions, int(rng.integers(1, 4)), replace=False).tolist())
        costs.append(Cost(asks, {k: float(rng.random()) for k in product((False, True), repeat=len(asks))}))

    def total(answers: dict[str, bool]) -> float:
        return sum(c.at(answers) for c in costs)

    best = min(total(dict(zip(questions, k))) for k in product((False, True), repeat=7))
    assert total(least_cost(questions, costs)) == pytest.approx(best)


def test_costs_that_ask_too_much_are_answered_one_by_one() -> None:
    questions = [f"q{n}" for n in range(14)]
    table = {k: float(sum(not a for a in k)) for k in product((False, True), repeat=14)}
    assert all(least_cost(questions, [Cost(tuple(questions), table)]).values())


def test_graphs_with_layouts_print_and_read_back() -> None:
    changed = choose_layouts(network(), Said(fast_when_last))
    text = print_graph(changed)
    assert "layout a order (0,2,3,1)" in text
    assert parse_graph(text, changed.constants).edges["a"] == changed.edges["a"]
