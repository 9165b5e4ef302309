"""Products and the windows that are read of their results: which may be one kernel, and that it computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.graph.builder import GraphBuilder
from weft.graph.compile_graph import compile_graph
from weft.graph.evaluate import evaluate
from weft.graph.formulas import contraction, pointwise, views, windows
from weft.graph.graph import Graph
from weft.graph.groups import choose_windows
from weft.graph.groups.partition import Group
from weft.graph.groups.storage import Storage
from weft.graph.groups.window_edges import find_pairs
from weft.ir import dtype as dt


def values(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def network(groups: int = 32, stride: int = 1, *, is_read_twice: bool = False, image: int = 11) -> Graph:
    """Pixels of an image multiplied, clamped, and 3x3 windows of the result."""
    g = GraphBuilder("net")
    x = g.input("x", "float32", (2 * image * image, 8))
    h = g.formula("expanded", [x, g.constant("a", values(8, 32))], contraction.matmul)
    h = g.formula("clamped", [h], pointwise.same, "relu")
    shown = g.formula("image", [h], views.reshape, (2, image, image, 32))
    shown = g.formula("channels", [shown], views.permute, (0, 3, 1, 2))
    k = g.constant("k", values(32, 32 // groups, 3, 3, seed=1))
    facts = (stride, stride), (1, 1), (1, 1), (1, 1), groups
    y = g.formula("window", [shown, k], windows.convolution_without_bias, *facts)
    y = g.formula("result", [y], pointwise.same, "relu")
    others = [g.formula("other", [h, h], pointwise.binary, "mul", dt.float32)] if is_read_twice else []
    return g.finish([y, *others])


def test_a_window_of_each_channel_is_found() -> None:
    storage = Storage(network())
    (pair,) = find_pairs(storage, 0)
    assert [m.outputs for m in pair.first.members] == [("expanded",), ("clamped",)]
    assert pair.edge == ("clamped", storage.graph.producers["window"].name)
    assert find_pairs(storage, storage.graph.edges["clamped"].nbytes + 1) == [], "what stays near anyway"


@pytest.mark.parametrize("graph", [network(groups=1), network(groups=4), network(is_read_twice=True)])
def test_sums_over_channels_and_second_readers_keep_them_apart(graph: Graph) -> None:
    assert find_pairs(Storage(graph), 0) == []


def test_a_joined_group_has_what_follows_the_window_too() -> None:
    graph = network(stride=2)
    storage = Storage(graph, windows=frozenset({("clamped", graph.producers["window"].name)}))
    (group,) = [item for item in storage.partition.items if isinstance(item, Group)]
    made = [name for m in group.members for name in m.outputs]
    assert made == ["expanded", "clamped", "image", "channels", "window", "result"]
    assert group.has_windows
    assert storage.outputs(group) == ["result"]


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("image", [11, 12])
@pytest.mark.parametrize("is_joined", [True, False])
def test_both_ways_compute_the_same(
    stride: int, image: int, is_joined: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(choose_windows, "find_pairs", lambda storage, _least: find_pairs(storage, 0))
    monkeypatch.setattr(choose_windows.WindowChooser, "_find_out", lambda *_: is_joined)
    graph = network(stride=stride, image=image)
    compiled = compile_graph(graph)
    x = values(*graph.edges["x"].shape, seed=9)
    ((made,), (right,)) = compiled.executable.run([x]), evaluate(graph, [x], wide=True)
    np.testing.assert_allclose(made, right, rtol=2e-5, atol=2e-5)
    assert [g.has_windows for g, _ in compiled.report.groups].count(True) == is_joined
