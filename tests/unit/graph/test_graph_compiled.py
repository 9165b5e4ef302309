"""Graphs built by hand: text and back, the evaluator, machine code, memory; views, joints and constants among them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from weft.graph.builder import GraphBuilder
from weft.graph.compile_graph import compile_graph
from weft.graph.evaluate import evaluate
from weft.graph.formulas import contraction, joints, normalization, pointwise, reductions, views
from weft.graph.graph import Call, Edge, Graph, Ref, check_graph
from weft.graph.run.memory import Life, pack
from weft.graph.text import parse_graph, print_graph
from weft.ir import dtype as dt
from weft.ir.errors import Error, InternalError, UnsupportedError


def values(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def layer() -> tuple[Graph, dict[str, Any]]:
    g = GraphBuilder("layer")
    x = g.input("x", "float32", (4, 32))
    constants = {"w": values(24, 32), "b": values(24, seed=1)}
    w, b = (g.constant(name, array) for name, array in constants.items())
    wt = g.formula("t", [w], views.permute, (1, 0))
    h = g.formula("mm", [x, wt], contraction.matmul)
    h = g.formula("add", [h, b], pointwise.binary, "add", dt.float32)
    h = g.formula("relu", [h], pointwise.same, "relu")
    v = g.formula("view", [h], views.reshape, (2, 2, 24))
    p = g.formula("perm", [v], views.permute, (2, 0, 1))
    s = g.formula("softmax", [v], normalization.softmax, 2, dt.float32, False)
    y = g.formula("mul", [s, v], pointwise.binary, "mul", dt.float32)
    j = g.formula("cat", [y, v], joints.join, 2, dt.float32)
    return g.finish([j, p, v]), constants


def agree(graph: Graph, args: list[Any], tolerance: float = 1e-5) -> Any:
    compiled = compile_graph(graph)
    for ours, meant in zip(compiled.executable.run(args), evaluate(graph, args, wide=True)):
        np.testing.assert_allclose(ours, meant, rtol=tolerance, atol=tolerance)
    return compiled


def test_a_layer_runs_as_the_evaluator_says_and_fuses() -> None:
    compiled = agree(layer()[0], [values(4, 32, seed=2)])
    assert [group.name for group, _ in compiled.report.groups] == ["matmul_add_relu_copied", "softmax_mul"]


def test_text_reads_back() -> None:
    graph, constants = layer()
    text = print_graph(graph)
    again = parse_graph(text, constants)
    assert print_graph(again) == text
    x = values(4, 32, seed=3)
    for ours, theirs in zip(evaluate(again, [x]), evaluate(graph, [x])):
        np.testing.assert_array_equal(ours, theirs)


def test_text_of_calls_and_numbers_reads_back() -> None:
    g = GraphBuilder("calls")
    x = g.input("x", "float32", ())
    y = g.formula("double", [x], pointwise.with_number, 2.0, "mul", dt.float32)
    call = Call("aten.foo.default", (Ref(y), (1, -1), float("inf"), None, "a"), (("dim", True),))
    (z, thing, nothing) = g.opaque("foo", call, [Edge("z", dt.int64, (3, 4), (4, 1)), "thing", None])
    assert z is not None
    assert nothing is None
    text = print_graph(g.finish([z, y], updates=[(x, y)]))
    assert print_graph(parse_graph(text)) == text
    assert f"{thing}, _ = call" in text


def test_outputs_that_are_views_share_memory() -> None:
    g = GraphBuilder("views")
    x = g.input("x", "float32", (3, 4))
    y = g.formula("neg", [x], pointwise.same, "neg")
    t = g.formula("t", [y], views.permute, (1, 0))
    part = g.formula("part", [t], views.cut, (1, 0), (2, 1), (2, 3))
    a, b, c, d = compile_graph(g.finish([y, t, part, x])).executable.run([array := values(3, 4)])
    assert np.shares_memory(a, b)
    assert np.shares_memory(a, c)
    assert d is array
    np.testing.assert_array_equal(c, -array.T[1::2])


def test_inputs_are_checked_and_rearranged() -> None:
    executable = compile_graph(layer()[0]).executable
    x = values(32, 4)
    np.testing.assert_allclose(executable.run([x.T])[0], executable.run([x.T.copy()])[0], rtol=1e-6)
    with pytest.raises(Error):
        executable.run([values(4, 31)])
    with pytest.raises(Error):
        executable.run([values(4, 32).astype(np.float64)])
    with pytest.raises(Error, match="takes 1 tensors"):
        executable.run([])


def test_updates_write_inputs_after_all_was_read() -> None:
    g = GraphBuilder("swap")
    x, y = g.input("x", "float32", (5,)), g.input("y", "float32", (5,))
    total = g.formula("sum", [x, y], pointwise.binary, "add", dt.float32)
    graph = g.finish([total], updates=[(x, y), (y, total)])
    a, b = values(5), values(5, seed=1)
    before_a, before_b = a.copy(), b.copy()
    (out,) = compile_graph(graph).executable.run([a, b])
    np.testing.assert_array_equal(out, before_a + before_b)
    np.testing.assert_array_equal(a, before_b)
    np.testing.assert_array_equal(b, before_a + before_b)


def test_equal_groups_have_one_program() -> None:
    g = GraphBuilder("twice")
    x = g.input("x", "float32", (8, 16))
    for n in range(3):
        w = g.constant(f"w{n}", values(16, 16, seed=n))
        x = g.formula("relu", [g.formula("mm", [x, w], contraction.matmul)], pointwise.same, "relu")
    compiled = agree(g.finish([x]), [values(8, 16)], 1e-3)
    assert len({k.program.program for _, k in compiled.report.groups}) == 1


def test_a_lookup_out_of_range_is_told() -> None:
    g = GraphBuilder("lookup")
    table, index = g.input("table", "float32", (5, 3)), g.input("index", "int64", (4,))
    graph = g.finish([g.formula("rows", [table, index], joints.rows)])
    agree(graph, [values(5, 3), np.array([0, 4, 2, 1])])
    with pytest.raises(Error):
        compile_graph(graph).executable.run([values(5, 3), np.array([0, 5, 2, 1])])


def test_tensors_without_elements_are_refused() -> None:
    g = GraphBuilder("empty")
    x = g.input("x", "float32", (0, 3))
    with pytest.raises(UnsupportedError, match="without elements"):
        g.formula("neg", [x], pointwise.same, "neg")


def test_graphs_are_checked() -> None:
    graph, _ = layer()
    with pytest.raises(InternalError, match="is not there yet"):
        check_graph(replace(graph, nodes=graph.nodes[::-1]))
    with pytest.raises(InternalError, match="nothing makes the output `gone`"):
        check_graph(replace(graph, outputs=("gone",)))
    with pytest.raises(InternalError, match="is made twice"):
        check_graph(replace(graph, nodes=(*graph.nodes, graph.nodes[-1])))


def test_memory_is_shared_by_what_never_lives_together() -> None:
    lives = [Life("a", 1000, 0, 1), Life("b", 1000, 1, 2), Life("c", 900, 2, 3), Life("d", 64, 0, 3)]
    arena = pack(lives)
    assert arena.size == 2 * 1024 + 64
    for one in lives:
        for other in lives:
            apart = one.last < other.first or other.last < one.first or one is other
            low, high = sorted((one, other), key=lambda t: arena.offsets[t.name])
            assert apart or arena.offsets[low.name] + low.size <= arena.offsets[high.name]


def test_a_group_that_is_read_twice_is_joined_once() -> None:
    g = GraphBuilder("rms")
    x, gain = g.input("x", "float32", (6, 16)), g.constant("gain", values(16))
    square = g.formula("square", [x], pointwise.same, "square")
    mean = g.formula("mean", [square], reductions.mean, (1,), True, dt.float32)
    shifted = g.formula("add", [mean], pointwise.with_number, 1e-5, "add", dt.float32)
    root = g.formula("rsqrt", [shifted], pointwise.unary, "rsqrt", dt.float32)
    scaled = g.formula("mul", [x, root], pointwise.binary, "mul", dt.float32)
    both = g.formula("more", [scaled, square], pointwise.binary, "add", dt.float32)
    compiled = agree(g.finish([g.formula("out", [both, gain], pointwise.binary, "mul", dt.float32)]), [values(6, 16)])
    assert [len(group.members) for group, _ in compiled.report.groups] == [7]


def test_rows_that_are_the_first_of_more_are_not_taken_for_all() -> None:
    g = GraphBuilder("queries")
    x = g.input("x", "float32", (4, 3, 8))  # queries, keys and values beside one another
    turned = g.formula("turned", [x], views.permute, (1, 0, 2))
    queries = g.formula("queries", [turned], views.cut, (0, 0, 0), (1, 1, 1), (1, 4, 8))
    h = g.formula("product", [queries, g.constant("w", values(8, 6))], contraction.matmul)
    agree(g.finish([g.formula("relu", [h], pointwise.same, "relu")]), [values(4, 3, 8)])
