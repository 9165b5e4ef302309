"""Calls of recorded graphs by machine code, with the driver faked: nothing of them is done in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from tests.unit.graph import fake_cuda as fake
from tests.unit.graph.fake_cuda import FakeArrays
from weft.graph.from_torch import model as fx
from weft.graph.from_torch.backend import CompiledModel
from weft.graph.from_torch.backend import compile as compile_model
from weft.graph.from_torch.exported import ExportedModel
from weft.runtime.fastcall import fast_calls_available

Fake = Callable[..., FakeArrays]


@pytest.fixture(autouse=True)
def machine_code() -> None:
    if not fast_calls_available() or fx.state_fields() is None:
        pytest.skip("no fast calls here")


def compiled(monkeypatch: pytest.MonkeyPatch, arrays: FakeArrays, model: Any, x: torch.Tensor) -> CompiledModel:
    """``model`` for a GPU that is none, called often enough that machine code knows it."""
    monkeypatch.setattr(fx, "TorchArrays", lambda processor: arrays)
    fast = compile_model(model, (x,))
    for _ in range(3):
        fast(x)
    fake.asked.clear()
    return fast


def no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: Any) -> None:
        raise AssertionError("a call went the slow way")

    monkeypatch.setattr(CompiledModel, "_call_slowly", slow)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.relu(self.first(x))
        return torch.softmax(self.second(h), -1), h


@pytest.mark.parametrize("library", [(), ("aten.addmm.default",)])
def test_calls_are_right_and_results_are_kept(
    fake_cuda: Fake, monkeypatch: pytest.MonkeyPatch, library: tuple[str, ...]
) -> None:
    """Inputs and results are pointed at where kernels have them, and copied where libraries do."""
    model, xs = Net().eval(), [torch.randn(8, 16) for _ in range(5)]
    with torch.no_grad():
        fast = compiled(monkeypatch, fake_cuda(*library), model, xs[0])
        no_python(monkeypatch)
        results = [fast(x) for x in xs for _ in range(2)]
        for n, x in enumerate(xs):
            for made in results[2 * n : 2 * n + 2]:
                for ours, theirs in zip(made, model(x)):
                    torch.testing.assert_close(ours, theirs)
    assert fake.asked["launch"] == 10
    assert (fake.asked["copy"] > 0) == bool(library)


def test_only_what_moved_is_told_the_graph(fake_cuda: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(8, 16)
    fast = compiled(monkeypatch, fake_cuda(), lambda x: torch.softmax(x, -1).sort()[0] * 2, x)
    no_python(monkeypatch)
    torch.testing.assert_close(fast(x), torch.softmax(x, -1).sort()[0] * 2)
    fake.asked.clear()
    kept = fast(x)
    changed = fake.asked["change"]
    assert changed <= 1, "the result alone may be elsewhere"
    moved = x.clone()
    fast(moved)
    assert fake.asked["change"] >= changed + 1
    torch.testing.assert_close(kept, fast(x))


def test_weights_that_change_and_other_calls_go_to_python(fake_cuda: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = nn.Sequential(nn.Linear(16, 16), nn.ReLU()).eval(), torch.randn(8, 16)
    with torch.no_grad():
        fast = compiled(monkeypatch, fake_cuda(), model, x)
        before = fake.asked["launch"]
        model[0].weight.add_(1.0)
        torch.testing.assert_close(fast(x), model(x))
        assert fake.asked["launch"] == before
        torch.testing.assert_close(fast(torch.ones(3, 16)), model(torch.ones(3, 16)))


def test_a_graph_that_was_given_up_is_recorded_again(fake_cuda: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4, 4)
    with torch.no_grad():
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
        fast = compiled(monkeypatch, fake_cuda(), model, x)
        (part,) = fast.parts.values()
        assert isinstance(part, ExportedModel)
        part._variant.compiled.executable.forget()
        before = fake.asked["launch"]
        for _ in range(3):
            torch.testing.assert_close(fast(x), model(x))
        assert fake.asked["launch"] == before + 2
