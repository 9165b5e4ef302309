"""Models that are called with one size after another: few kernels for all of them, and right results for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from tests.unit.graph.onnx_models import mlp
from weft.graph.builder import GraphBuilder
from weft.graph.compile_graph import compile_graph
from weft.graph.compiled import Compiled
from weft.graph.evaluate import evaluate
from weft.graph.formulas import contraction, pointwise, reductions, views
from weft.graph.graph import Graph
from weft.graph.groups import group_code
from weft.graph.groups.open_sizes import OpenSizes, _generalize, _Text
from weft.ir.dtype import float32


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each task that was compiled left sizes open."""
    seen: list[bool] = []
    compile_task = group_code.compile_task

    def counted(task: group_code.Task) -> Any:
        seen.append(bool(task.symbolic))
        return compile_task(task)

    monkeypatch.setattr(group_code, "compile_task", counted)
    monkeypatch.setenv("WEFT_CACHE", "off")
    return seen


def network(n: int, batch: int = 1) -> Graph:
    rng, g = np.random.default_rng(0), GraphBuilder("net")
    x = g.input("x", "float32", (batch, n, 8))
    h = g.formula("linear", [x, g.constant("w", rng.standard_normal((12, 8), "f"))], contraction.linear)
    h = g.formula("relu", [h], pointwise.same, "relu")
    r = g.formula("rows", [h], views.reshape, (batch * n * 3, 4))
    s = g.formula("sum", [r], reductions.total, (1,), False, float32)
    return g.finish([h, s])


def check(graph: Graph, compiled: Compiled) -> None:
    x = np.random.default_rng(1).standard_normal(graph.edges["x"].shape, "f")
    for ours, expected in zip(compiled.executable.run([x]), evaluate(graph, [x], wide=True)):
        assert np.allclose(ours, expected, atol=1e-4)


def test_from_the_third_size_on_nothing_is_compiled(compilations: list[bool]) -> None:
    sizes = OpenSizes()
    for n in (6, 10, 7, 31, 2):
        compilations.clear()
        graph = network(n)
        check(graph, compile_graph(graph, sizes=sizes))
        if n == 6:
            assert compilations
            assert not any(compilations)
        elif n == 10:
            assert all(compilations)
        else:
            assert not compilations


def test_a_first_size_comes_back_to_its_own_kernels(compilations: list[bool]) -> None:
    sizes = OpenSizes()
    for n in (6, 10, 6):
        graph = network(n)
        compiled = compile_graph(graph, sizes=sizes)
        check(graph, compiled)
    assert not any(k.code.params[-1][0].endswith("_open") for k in compiled.executable.kernels)


def test_two_sizes_that_change_at_once_are_still_right() -> None:
    sizes = OpenSizes()
    for n, batch in ((6, 1), (10, 2), (7, 3), (7, 2), (12, 2), (1, 1)):
        graph = network(n, batch)
        check(graph, compile_graph(graph, sizes=sizes))


def test_packed_weights_are_one_copy_for_all_sizes() -> None:
    sizes, weight = OpenSizes(), np.ones((64, 32), "f")
    memory = []
    for n in (48, 64, 80):
        g = GraphBuilder("net")
        h = g.formula("linear", [g.input("x", "float32", (n, 32)), g.constant("w", weight)], contraction.linear)
        graph = g.finish([h])
        compiled = compile_graph(graph, sizes=sizes)
        check(graph, compiled)
        memory.append(compiled.executable.kernels[0].fixed[0])
    assert memory[1] == memory[2] != weight.ctypes.data  # the first size may have an order of its own


def test_numbers_follow_from_few_sizes() -> None:
    first, second = _Text.of("f(4,16) + 2.5e3 * X1"), _Text.of("f(6,36) + 2.5e3 * X1")
    assert first.numbers == (4, 16)
    mean = _generalize([_Text.of("x(4) / 4.0 + 1.0"), _Text.of("x(6) / 6.0 + 1.0")])
    assert str(mean) == "x(n0_open) / float32(n0_open) + 1.0"
    squares = _generalize([first, second])
    assert squares is not None
    assert str(squares) == "f(n0_open,(n0_open * n0_open)) + 2.5e3 * X1"
    assert squares.fits(_Text.of("f(8,64) + 2.5e3 * X1"))
    assert not squares.fits(_Text.of("f(8,56) + 2.5e3 * X1"))
    assert not squares.fits(_Text.of("f(8,64) + 2.5e4 * X1"))
    # Two sizes that change at once look like one, until a third tells them apart.
    texts = [_Text.of(f"f({b},{n},{b * n},{64 * b + 1})", [("X", (64 * n, 1))]) for b, n in ((2, 16), (3, 33), (4, 40))]
    assert not _generalize(texts[:2]).fits(texts[2])  # type: ignore[union-attr]
    both = _generalize(texts)
    assert str(both) == "f(n0_open,n1_open,(n0_open * n1_open),(64 * n0_open + 1))"
    assert both.fits(_Text.of("f(7,19,133,449)", [("X", (64 * 19, 1))]))  # type: ignore[union-attr]
    assert not both.fits(_Text.of("f(7,19,133,449)", [("X", (64 * 18, 1))]))  # type: ignore[union-attr]


def heads(batch: int, n: int) -> Graph:
    """Tensors whose strides follow from the sizes, and sizes that are products of these."""
    g = GraphBuilder("net")
    x = g.input("x", "float32", (n, batch, 24))
    split = g.formula("split", [x], views.reshape, (n, batch, 3, 2, 4))
    turned = g.formula("turned", [split], views.permute, (2, 1, 3, 0, 4))
    h = g.formula("half", [turned], pointwise.same, "relu")
    rows = g.formula("rows", [h], views.reshape, (3 * batch * 2 * n, 4))
    s = g.formula("sum", [rows], reductions.total, (1,), False, float32)
    m = g.formula("mean", [turned], reductions.mean, (3,), False, float32)
    return g.finish([h, s, m])


def test_strides_that_follow_from_sizes(compilations: list[bool]) -> None:
    sizes = OpenSizes()
    for n, (batch, length) in enumerate(((2, 5), (2, 7), (2, 9), (3, 8), (4, 11), (5, 3), (7, 12))):
        compilations.clear()
        graph = heads(batch, length)
        check(graph, compile_graph(graph, sizes=sizes))
        assert not compilations or n in (0, 1, 3, 4)


def test_onnx_sizes_by_name(compilations: list[bool]) -> None:
    net = weft.load_onnx(mlp())
    rng = np.random.default_rng(0)
    for n in (3, 5, 4, 9):
        compilations.clear()
        x = rng.standard_normal((n, 2, 4), "f")
        other = weft.load_onnx(mlp())(x) if n == 9 else None
        count = len(compilations)
        made = net(x)
        assert n < 6 or np.allclose(made, other, atol=1e-5)
        assert n not in (4, 9) or len(compilations) == count


def test_torch_models_of_other_lengths() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16)).eval()
    fast = weft.compile(model, (torch.randn(2, 5, 8),))
    with torch.no_grad():
        for n in (5, 7, 9, 30):
            x = torch.randn(2, n, 8)
            assert torch.allclose(fast(x), model(x), atol=1e-5)
        model[0].weight.mul_(2)
        for n in (9, 5, 30):
            x = torch.randn(2, n, 8)
            assert torch.allclose(fast(x), model(x), atol=1e-5), "weights that changed"


def test_a_size_that_only_strides_have_is_no_size_of_an_equal_program() -> None:
    torch = pytest.importorskip("torch")

    def both(x: Any, y: Any) -> Any:
        return x * 2, y * 2

    def given(n: int, wide: int) -> tuple[Any, Any]:
        return torch.randn(n, 6), torch.randn(n, wide)[:, :6]

    with torch.no_grad():
        fast = weft.compile(both, given(3, 7))
        for n, wide in ((3, 7), (4, 9), (5, 30), (6, 8)):
            arguments = given(n, wide)
            for ours, theirs in zip(fast(*arguments), both(*arguments)):
                assert torch.equal(ours, theirs)
