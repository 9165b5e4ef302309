"""Executables for GPUs, with the driver faked: memory, copies, what is recorded and what is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from tests.unit.graph.fake_cuda import FakeArrays
from weft.graph.compile_graph import compile_graph
from weft.graph.compiled import Compiled
from weft.graph.explain import explain
from weft.graph.from_torch.exported import ExportedModel
from weft.graph.from_torch.model import Options, place_of
from weft.graph.from_torch.trace import trace
from weft.graph.from_torch.translate import translate
from weft.graph.run import cuda_executable
from weft.ir.errors import UnsupportedError

Fake = Callable[..., FakeArrays]


def compile_for(arrays: FakeArrays, model: Any, *args: Any) -> tuple[Compiled, Callable[..., list[Any]]]:
    """``model`` compiled, and a call of it with tensors."""
    part = ExportedModel(trace(model, args, {}), Options())
    given = part.arguments(args)
    constants = {n: given[n] for n in part.model.static}
    graph = translate(part.model.gm, given, constants, updates=part.model.updates)
    compiled = compile_graph(graph, arrays)
    places = [n for n, a in enumerate(given) if n not in constants]

    def call(*now: Any) -> list[Any]:
        every = part.arguments(now)
        made: list[Any] = compiled.executable.run_checked([every[n] for n in places])
        return made

    return compiled, call


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = torch.relu(self.first(x))
        sorted_h = h.sort(dim=-1)[0]
        y = torch.softmax(self.second(sorted_h), -1) + x
        return y, y.t(), x, h[1:]


@pytest.mark.parametrize("library", [(), ("aten.addmm.default",)])
def test_results_of_every_call_are_right_and_kept(fake_cuda: Fake, library: tuple[str, ...]) -> None:
    model = Net().eval()
    xs = [torch.randn(8, 16) for _ in range(5)]
    compiled, call = compile_for(fake_cuda(*library), model, xs[0])
    assert any(c.call.target == "aten.addmm.default" for c in compiled.report.calls) == bool(library)
    with torch.no_grad():
        results = [call(x) for x in xs]
        for x, made in zip(xs, results):
            for ours, theirs in zip(made, model(x)):
                torch.testing.assert_close(ours, theirs)
                assert ours.stride() == theirs.stride()
    assert compiled.executable.reason is None
    assert compiled.executable._recorded is not None
    assert results[3][2].data_ptr() == xs[3].data_ptr()  # an input that is a result is the caller's own
    assert results[3][0].data_ptr() == results[3][1].data_ptr()


def test_inputs_that_the_model_writes(fake_cuda: Fake) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = nn.Buffer(torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(x)
            return self.count * 2

    model = Counter().eval()
    _, call = compile_for(fake_cuda(), model, torch.ones(4))
    model.count.zero_()
    for n in range(1, 5):
        (y,) = call(torch.ones(4))
        torch.testing.assert_close(y, torch.full((4,), 2.0 * n))
        torch.testing.assert_close(model.count, torch.full((4,), float(n)))


def test_large_results_are_made_after_the_graph(fake_cuda: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_executable, "LARGE", 1024)
    model = nn.Sequential(nn.Linear(8, 8), nn.Softmax(-1), nn.Linear(8, 512)).eval()
    xs = [torch.randn(4, 8) for _ in range(4)]
    compiled, call = compile_for(fake_cuda("aten.addmm.default"), model, xs[0])
    steps = compiled.executable._steps
    assert len(steps.steps) - steps.following == 1
    with torch.no_grad():
        results = [call(x)[0] for x in xs]
        for x, y in zip(xs, results):
            torch.testing.assert_close(y, model(x))


def test_what_cannot_be_recorded_runs_in_order(fake_cuda: Fake) -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + torch.bernoulli(torch.sigmoid(x))

    x = torch.randn(64)
    compiled, call = compile_for(fake_cuda(), noisy, x)
    torch.manual_seed(3)
    ours = [call(x)[0] for _ in range(3)]
    torch.manual_seed(3)
    for y in ours:
        torch.testing.assert_close(y, noisy(x))
    assert "random" in str(compiled.executable.reason)
    assert "launches in order: aten.bernoulli.default draws random" in explain(compiled)


def test_graphs_called_longest_ago_are_given_up(fake_cuda: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_executable, "MOST_RECORDED", 2)
    model = nn.Linear(4, 4).eval()
    several = [compile_for(fake_cuda(), model, torch.randn(n, 4)) for n in (1, 2, 3)]
    with torch.no_grad():
        for _ in range(2):
            for n, (_, call) in enumerate(several, 1):
                for _ in range(2):
                    x = torch.randn(n, 4)
                    torch.testing.assert_close(call(x)[0], model(x))
    kept = [c.executable._recorded is not None for c, _ in several]
    assert kept == [False, True, True]


def test_kernels_read_and_write_what_the_caller_has(fake_cuda: Fake) -> None:
    """Nothing is copied where kernels alone have it, and nothing of a call before is seen."""

    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.softmax(x, -1)
        return y, torch.special.bessel_j1(y) + 1

    xs = [torch.randn(8, 16) for _ in range(6)]
    compiled, call = compile_for(fake_cuda(), model, xs[0])
    results = [call(x) for x in xs]
    for x, (soft, last) in zip(xs, results):
        torch.testing.assert_close(soft, model(x)[0])
        torch.testing.assert_close(last, model(x)[1])
    recorded = compiled.executable._recorded
    assert recorded is not None
    assert recorded.places == [], "the input is read where it is"
    assert len(recorded.copied) == 1, "what torch's own function reads is in the graph's memory"
    assert len(recorded.patched_results) == 1


def test_profile_of_a_gpu(fake_cuda: Fake) -> None:
    model = Net().eval()
    compiled, _ = compile_for(fake_cuda("aten.addmm.default"), model, torch.randn(8, 16))
    with torch.no_grad():
        spans = compiled.executable.run_timed([torch.randn(8, 16)])
    assert [step for step, _, _ in spans] == list(compiled.executable.steps)
    assert all(begin <= end for _, begin, end in spans)


def test_constants_of_the_cpu_go_to_the_gpu_of_the_others() -> None:
    cpu, gpu, other = torch.device("cpu"), torch.device("cuda:0"), torch.device("cuda:1")
    assert place_of([(gpu, True), (cpu, True), (gpu, False)]) == gpu
    assert place_of([(cpu, True), (cpu, False)]) == cpu
    assert place_of([(cpu, True)]) == cpu
    for mixed in ([(gpu, True), (cpu, False)], [(gpu, True), (other, False)]):
        with pytest.raises(UnsupportedError, match="graphs run on CPUs or on one NVIDIA GPU"):
            place_of(mixed)


def test_recurrent_layers_are_kernels(fake_cuda: Fake) -> None:
    model, x = nn.GRU(3, 4, bidirectional=True, batch_first=True).eval(), torch.randn(2, 5, 3)
    compiled, call = compile_for(fake_cuda(), model, x)
    assert "0 calls of the framework" in explain(compiled)
    for made, right in zip(call(x), model(x)):
        torch.testing.assert_close(made, right)
