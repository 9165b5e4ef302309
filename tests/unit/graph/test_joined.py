"""Joined tensors: parts are written in their place, and the results are those of copying."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.graph.builder import GraphBuilder
from weft.graph.compile_graph import compile_graph
from weft.graph.evaluate import evaluate
from weft.graph.explain import explain_compiled
from weft.graph.formulas import contraction, joints, normalization, pointwise, reductions, views
from weft.graph.graph import Graph, Shape
from weft.ir import dtype as dt


class _Drawing:
    """A graph of joins of whatever is there: parts of the same size but along one axis, and what reads the whole."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.g = GraphBuilder(f"joins_{seed}")
        self.names: list[str] = []
        self.args: list[Any] = []

    def shape(self, name: str) -> Shape:
        return self.g.edges[name].shape

    def array(self, shape: Shape) -> Any:
        return self.rng.uniform(-1, 1, shape).astype(np.float32)

    def given(self, shape: Shape) -> str:
        if self.rng.random() < 0.8:
            self.args.append(self.array(shape))
            return self.g.input("x", "float32", shape)
        return self.g.constant("c", self.array(shape))

    def made(self, shape: Shape) -> str:
        """A tensor of this shape, one that is there where there is one: computed, a view or given."""
        alike = [n for n in self.names if self.shape(n) == shape]
        kind = int(self.rng.integers(9))
        if alike and kind < 3:
            return str(self.rng.choice(alike))
        x = str(self.rng.choice(alike)) if alike and kind < 6 else self.given(shape)
        match kind:
            case 3 | 4:
                return self.g.formula("act", [x], pointwise.same, "relu")
            case 5:
                return self.g.formula("soft", [x], normalization.softmax, len(shape) - 1, dt.float32, False)
            case 6 if len(shape) > 1:
                w = self.g.constant("w", self.array((shape[-1], shape[-1])) / 4)
                return self.g.formula("product", [x], pointwise.same, "relu") if shape[-1] == 1 else self.g.formula(
                    "product", [x, w], contraction.matmul
                )  # fmt: skip
            case 7:
                order = tuple(map(int, self.rng.permutation(len(shape))))
                turned = tuple(int(n) for n in np.array(shape)[list(np.argsort(order))])
                y = self.g.formula("act", [self.given(turned)], pointwise.same, "relu")
                return self.g.formula("turned", [y], views.permute, order)
            case 8:
                y = self.g.formula("act", [self.given((int(np.prod(shape)),))], pointwise.same, "relu")
                return self.g.formula("shaped", [y], views.reshape, shape)
        return x

    def join(self) -> None:
        like = self.shape(str(self.rng.choice(self.names)))
        if int(np.prod(like)) > 20_000:
            return
        axis, parts = int(self.rng.integers(len(like))), list[str]()
        for _ in range(int(self.rng.integers(2, 5))):
            size = like[axis] if self.rng.random() < 0.5 else int(self.rng.choice([1, 2, 3, 5, 16, 17, 32]))
            parts.append(self.made((*like[:axis], size, *like[axis + 1 :])))
            self.names.append(parts[-1])
        whole = self.g.formula("join", parts, joints.join, axis, dt.float32)
        self.names.append(whole)
        if self.rng.random() < 0.4:  # what is there so far, and more
            parts.append(self.made(like))
            self.names += [parts[-1], self.g.formula("join", parts, joints.join, axis, dt.float32)]
        self.read(str(self.rng.choice(self.names[-2:])))

    def read(self, name: str) -> None:
        shape = self.shape(name)
        match int(self.rng.integers(5)):
            case 0:
                self.names.append(self.g.formula("act", [name], pointwise.same, "relu"))
            case 1:
                w = self.g.constant("w", self.array((shape[-1], int(self.rng.integers(1, 20)))) / 4)
                if len(shape) > 1:
                    self.names.append(self.g.formula("product", [name, w], contraction.matmul))
            case 2:
                starts = tuple(int(self.rng.integers(n)) for n in shape)
                left = tuple(n - s for n, s in zip(shape, starts))
                self.names.append(self.g.formula("cut", [name], views.cut, starts, (1,) * len(shape), left))
            case 3 if len(shape) > 1:
                axis = int(self.rng.integers(len(shape)))
                self.names.append(self.g.formula("mean", [name], reductions.mean, (axis,), True, dt.float32))

    def graph(self) -> tuple[Graph, list[Any]]:
        rank = int(self.rng.integers(1, 5))
        self.names.append(self.given(tuple(int(self.rng.choice([1, 2, 3, 7, 16])) for _ in range(rank))))
        for _ in range(int(self.rng.integers(1, 5))):
            self.join()
        shown = {str(n) for n in self.rng.choice(self.names, size=min(3, len(self.names)), replace=False)}
        return self.g.finish([self.names[-1], *sorted(shown)]), self.args


@pytest.mark.parametrize("number", range(30))
def test_random_joins_are_as_the_evaluator_says(number: int, first_seed: int) -> None:
    graph, args = _Drawing(first_seed + number).graph()
    _check(graph, args)


def _check(graph: Graph, args: list[Any]) -> Any:
    compiled = compile_graph(graph)
    for _ in range(2):  # memory of the first call is full of its values in the second
        for ours, meant in zip(compiled.executable.run(args), evaluate(graph, args, wide=True)):
            np.testing.assert_allclose(ours, meant, rtol=1e-4, atol=1e-4)
    return compiled


def _dense_block(layers: int, grows: int = 16) -> tuple[Graph, list[Any]]:
    """Each layer reads all that is there, and adds to it."""
    rng, g = np.random.default_rng(7), GraphBuilder("block")
    first = g.formula("first", [g.input("x", "float32", (20, 32))], pointwise.same, "relu")
    parts = [first]
    for n in range(layers):
        whole = g.formula(f"so_far{n}", parts, joints.join, 1, dt.float32) if n else first
        active = g.formula("active", [whole], pointwise.same, "relu")
        weights = rng.uniform(-1, 1, (g.edges[whole].shape[1], grows)).astype(np.float32) / 8
        parts.append(g.formula(f"layer{n}", [active, g.constant("w", weights)], contraction.matmul))
    whole = g.formula("all", parts, joints.join, 1, dt.float32)
    last = g.formula("last", [whole], pointwise.unary, "tanh", dt.float32)
    return g.finish([last]), [rng.uniform(-1, 1, (20, 32)).astype(np.float32)]


def test_a_dense_block_is_one_memory() -> None:
    graph, args = _dense_block(4)
    compiled = _check(graph, args)
    storage = compiled.executable.storage
    assert {storage.find(f"so_far{n}").root for n in range(1, 4)} == {"all"}
    assert {storage.find(f"layer{n}").root for n in range(4)} == {"all"}
    assert not any("join" in group.name for group, _ in compiled.report.groups)
    assert "in place in all" in explain_compiled(compiled)


def test_what_somebody_sees_stays_apart() -> None:
    graph, args = _dense_block(3)
    shown = Graph(graph.name, graph.edges, graph.inputs, graph.constants, graph.nodes, (*graph.outputs, "layer0"))
    compiled = _check(shown, args)
    assert compiled.executable.storage.find("layer0").root == "layer0"


def _pair(axis: int, shape: Shape, fn: Any = contraction.matmul) -> Any:
    """A product of what is joined of an input and of what is computed."""
    g = GraphBuilder("pair")
    x, y = g.input("x", "float32", shape), g.input("y", "float32", shape)
    whole = g.formula("both", [x, g.formula("act", [y], pointwise.same, "relu")], joints.join, axis, dt.float32)
    w = g.constant("w", np.ones((g.edges[whole].shape[-1], 8), np.float32))
    graph = g.finish([g.formula("product", [whole, w], fn)])
    rng = np.random.default_rng(3)
    return _check(graph, [rng.uniform(-1, 1, shape).astype(np.float32) for _ in range(2)])


def test_an_input_is_copied_beside_what_is_written_in_place() -> None:
    compiled = _pair(1, (24, 16))
    assert compiled.executable.storage.find("act").root == "both"
    assert sorted(group.name for group, _ in compiled.report.groups) == ["copied", "matmul", "relu"]


def test_parts_shorter_than_a_vector_are_copied_together() -> None:
    compiled = _pair(1, (24, 3))
    assert compiled.executable.storage.find("act").root != "both"


def test_along_the_first_axis_any_part_is_a_row() -> None:
    compiled = _pair(0, (3, 24))
    assert compiled.executable.storage.find("act").root == "both"


def test_a_join_of_a_join_is_one_memory() -> None:
    g = GraphBuilder("nested")
    given = [g.input(name, "float32", (4, 16, 5)) for name in "abc"]
    a, b, c = (g.formula(f"act{n}", [x], pointwise.unary, "tanh", dt.float32) for n, x in enumerate(given))
    inner = g.formula("inner", [a, b], joints.join, 1, dt.float32)
    read = g.formula("read", [inner], reductions.mean, (1,), True, dt.float32)
    outer = g.formula("outer", [c, inner], joints.join, 1, dt.float32)
    rng = np.random.default_rng(5)
    graph = g.finish([outer, read])
    compiled = _check(graph, [rng.uniform(-1, 1, (4, 16, 5)).astype(np.float32) for _ in range(3)])
    assert {compiled.executable.storage.find(n).root for n in (a, b, c, "inner")} == {"outer"}
    assert not any("join" in group.name for group, _ in compiled.report.groups)
