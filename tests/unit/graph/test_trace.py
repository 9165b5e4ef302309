"""Models that are walked once, those that `torch.export` is asked for instead, and that none is changed by it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

import weft
from weft.graph.from_torch import trace as tracing
from weft.graph.from_torch.edge import export, trace_functional

torch = pytest.importorskip("torch")
nn = torch.nn


class Counts(nn.Module):  # type: ignore[misc, name-defined]
    """Writes to a buffer, in place or by assignment."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.register_buffer("count", torch.zeros(3))
        self.seen: list[Any] = []
        self.last: Any = None
        self.table = torch.arange(3.0)
        self.calls = 0

    def forward(self, x: Any) -> Any:
        if self.how == "counted":
            self.calls += 1
        elif self.how == "in place":
            self.count.add_(x)
        elif self.how == "assigned":
            self.count = self.count + x
        elif self.how == "list":
            self.seen.append(x * 2)
        elif self.how == "attribute":
            self.last = x * 2
        elif self.how == "plain tensor":
            self.table.add_(1)
        return self.count * 2 + self.table + x


def operators(gm: Any) -> list[str]:
    gm.graph.eliminate_dead_code()
    return [str(node.target) for node in gm.graph.nodes if node.op == "call_function"]


def walk(model: Any, *args: Any) -> tracing.Traced:
    with torch.no_grad():
        return tracing._Walk(model, args, {}).walk()


@pytest.mark.parametrize("how", ["in place", "assigned", "list", "attribute", "counted", "plain tensor", "nothing"])
def test_the_model_is_left_as_it_was(how: str) -> None:
    model = Counts(how)
    before = {**model.__dict__}, dict(model._buffers)
    try:
        walk(model, torch.ones(3))
        is_walked = True
    except Exception:
        is_walked = False
    assert is_walked == (how in ("in place", "plain tensor", "nothing"))
    assert all(model.__dict__[name] is value for name, value in before[0].items())
    assert all(model._buffers[name] is value for name, value in before[1].items())
    assert (model.seen, model.calls, model.table.tolist()) == ([], 0, [0.0, 1.0, 2.0])


@pytest.mark.parametrize("how", ["in place", "assigned", "plain tensor"])
def test_buffers_that_are_written_to(how: str) -> None:
    model, other, x = Counts(how), Counts(how), torch.ones(3)
    with torch.no_grad():
        fast = weft.compile(model, (x,))
        for _ in range(3):
            torch.testing.assert_close(fast(x), other(x))
            torch.testing.assert_close((model.count, model.table), (other.count, other.table))


def test_a_write_that_another_input_sees() -> None:
    def model(a: Any, b: Any) -> Any:
        a.add_(1)
        return a + b

    x = torch.zeros(4)
    with pytest.raises(Exception, match="share"):
        walk(model, x[:3], x[1:])


def test_tied_weights_that_are_parted() -> None:
    class Tied(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
            self.b.weight = self.a.weight

        def forward(self, x: Any) -> Any:
            return self.b(self.a(x).relu())

    model, x = Tied(), torch.randn(2, 4)
    with torch.no_grad():
        fast = weft.compile(model, (x,))
        torch.testing.assert_close(fast(x), model(x))
        model.a.weight = nn.Parameter(torch.randn(4, 4))
        torch.testing.assert_close(fast(x), model(x))


def test_what_is_given_and_what_comes_back() -> None:
    @dataclass
    class Made:
        sums: Any
        rest: Any

    def model(x: Any, pairs: dict[str, Any], *, scale: Any = None, power: int = 2) -> Any:
        total = x + pairs["a"] + (0 if scale is None else scale)
        return Made(total**power, {"same": x, "size": x.shape[0], "none": None, "made": torch.tensor([1.0, 2.0])})

    x, pairs = torch.randn(2, 2), {"a": torch.randn(2), "unused": torch.randn(1)}
    fast = weft.compile(model, (x, pairs))
    for given in ({}, {"power": 3, "scale": torch.ones(2)}):
        made, right = fast(x, pairs, **given), model(x, pairs, **given)
        torch.testing.assert_close(made.sums, right.sums)
        assert made.rest["same"].data_ptr() == x.data_ptr()
        assert (made.rest["size"], made.rest["none"], made.rest["made"].tolist()) == (2, None, [1.0, 2.0])
    names = [n.name for n in walk(model, x, pairs).gm.graph.nodes if n.op == "placeholder"]
    assert names[:3] == ["x", "pairs_0", "pairs_1"]


def test_the_same_operators_as_exported() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    model = nn.Sequential(model, nn.Linear(8, 4), nn.LayerNorm(4), nn.Softmax(-1)).eval()
    x = torch.randn(2, 3, 8, 8)
    assert operators(walk(model, x).gm) == operators(tracing.read_program(export(model, (x,), {}), model).gm)


def test_attention_that_stays_whole() -> None:
    whole = [torch.ops.aten.scaled_dot_product_attention.default]
    q = torch.randn(1, 2, 5, 4)

    def attend(given: list[Any]) -> Any:
        made = torch.nn.functional.scaled_dot_product_attention(*(g.tensor for g in given), is_causal=True)
        return tracing.plain_of(made)

    kept = operators(trace_functional(attend, [q, q, q], whole))
    assert kept == ["aten.scaled_dot_product_attention.default"]
    assert kept != operators(trace_functional(attend, [q, q, q]))


def test_tracing_asks_neither_the_exporter_nor_the_compiler_of_torch() -> None:
    """Which lines operators come from is recorded without: these modules take tens of megabytes."""
    program = """
import sys, torch, weft
model, x = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval(), torch.randn(1, 3, 8, 8)
with torch.no_grad():
    model(x)
before = set(sys.modules)
fast = weft.compile(model, x)
names = ("torch.export._trace", "torch._functorch.aot_autograd", "torch._inductor.codecache", "networkx.algorithms")
print([name for name in names if name in set(sys.modules) - before])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("model", [nn.Sequential(nn.Linear(4, 4)), lambda x: torch.nn.functional.linear(x, x)])
def test_operators_know_the_innermost_line_outside_of_torch(model: Any) -> None:
    traced = tracing.trace(model, (torch.randn(4, 4),), {})
    (stack,) = {n.stack_trace for n in traced.gm.graph.nodes if n.op == "call_function"}
    assert ("test_trace.py" in stack) is not isinstance(model, nn.Module)
