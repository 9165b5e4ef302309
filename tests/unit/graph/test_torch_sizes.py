"""Models of torch that are called with one size after another: traced twice, right for each size."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import weft
from weft.graph import compile_graph
from weft.graph.from_torch import backend
from weft.graph.from_torch import model as fx_model
from weft.graph.groups import price_program
from weft.graph.run import arenas
from weft.graph.run.background import BACKGROUND

torch = pytest.importorskip("torch")


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each tracing left sizes open."""
    made: list[bool] = []
    trace = backend.trace

    def counted(model: object, args: object, named: object, dims: list[frozenset[int]] = []) -> object:  # noqa: B006
        made.append(any(dims))
        return trace(model, args, named, dims)

    monkeypatch.setattr(backend, "trace", counted)
    return made


class Branches(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x):  # type: ignore[no-untyped-def]
        return torch.tanh(x) if x.shape[1] > 40 else x.softmax(-1)


class Reshapes(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x):  # type: ignore[no-untyped-def]
        batch, length, _ = x.shape
        heads = x.reshape(batch, length, 2, 4).transpose(1, 2)
        scores = torch.tril(torch.ones(length, length)) * (heads @ heads.transpose(2, 3))
        return (scores @ heads).transpose(1, 2).reshape(batch, length, 8) + torch.arange(length)[:, None]


def check(model: object, fast: object, *shape: int) -> None:
    x = torch.rand(shape)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)  # type: ignore[operator]


def test_a_third_size_is_not_traced(exports: list[bool]) -> None:
    model = Reshapes().eval()
    fast = weft.compile(model, (torch.rand(2, 5, 8),))
    for length in (5, 7, 9, 12):
        check(model, fast, 2, length, 8)
    assert exports == [False, True]


def test_two_sizes_that_change(exports: list[bool]) -> None:
    model = Reshapes().eval()
    fast = weft.compile(model, (torch.rand(2, 5, 8),))
    for batch, length in ((2, 7), (3, 7), (4, 9), (2, 11)):
        check(model, fast, batch, length, 8)
    assert exports == [False, True, True]


def test_a_size_that_the_model_asks_about_is_traced_again(exports: list[bool]) -> None:
    model = Branches().eval()
    fast = weft.compile(model, (torch.rand(2, 5),))
    for length in (6, 7, 50, 8, 60):
        check(model, fast, 2, length)
    assert exports == [False, True, False, False]


def test_one_element_and_other_strides_are_traced_for_themselves(exports: list[bool]) -> None:
    model = Reshapes().eval()
    fast = weft.compile(model, (torch.rand(2, 5, 8),))
    for length in (6, 1):
        check(model, fast, 2, length, 8)
    x = torch.rand(7, 2, 8).transpose(0, 1)
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    assert exports == [False, True, False, False]


def test_sizes_among_the_results(exports: list[bool]) -> None:
    fast = weft.compile(lambda x: (x.shape[0], None, torch.relu(x), 2 * x.shape[1]), (torch.rand(2, 3),))
    for rows in (2, 3, 5):
        x = torch.rand(rows, 3) - 0.5
        first, nothing, made, last = fast(x)
        assert (first, nothing, last) == (rows, None, 6)
        assert torch.equal(made, torch.relu(x))


def test_dynamo_with_symbolic_sizes() -> None:
    model = Reshapes().eval()
    torch._dynamo.reset()
    fast = torch.compile(model, backend="weft", dynamic=True)
    for batch, length in ((2, 5), (3, 7), (4, 9)):
        check(model, fast, batch, length, 8)


def layer_of_three_sizes() -> tuple[Any, Any]:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
    fast = weft.compile(model, (torch.rand(2, 8),))
    for rows in (2, 3, 4):
        check(model, fast, rows, 8)
    return model, fast


def test_weights_that_change_are_seen_at_all_sizes() -> None:
    model, fast = layer_of_three_sizes()
    with torch.no_grad():
        model[0].weight.mul_(2)
    for rows in (2, 3, 4, 5):
        check(model, fast, rows, 8)
    model[0].load_state_dict({"weight": torch.rand(8, 8), "bias": torch.rand(8)})
    for rows in (2, 3, 4, 5):
        check(model, fast, rows, 8)
    model[0].weight.data = torch.rand(8, 8)
    for rows in (3, 5):
        check(model, fast, rows, 8)


def test_nothing_is_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices that layouts are chosen by, and choices between kernels and libraries, are those of the first size."""
    monkeypatch.setenv("WEFT_CACHE", "off")
    priced, chosen = [], []
    price, choose = price_program.run_task, compile_graph._Compilation._choice
    monkeypatch.setattr(price_program, "run_task", lambda *args: priced.append(1) or price(*args))
    monkeypatch.setattr(compile_graph._Compilation, "_choice", lambda *args: chosen.append(1) or choose(*args))
    model = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3)).eval()
    fast = weft.compile(model, (torch.rand(2, 4, 9, 9),))
    assert priced
    assert chosen
    priced.clear()
    chosen.clear()
    for batch in (3, 5, 6):
        check(model, fast, batch, 4, 9, 9)
    assert not priced
    assert not chosen


def variant_of(fast: Any, model: Any, *shape: int) -> Any:
    part, leaves = fast.find((torch.rand(shape),), {})
    return part.model.find(part.arguments(leaves))


def test_a_new_size_after_weights_changed() -> None:
    model, fast = layer_of_three_sizes()
    with torch.no_grad():
        model[0].weight.mul_(2)
    check(model, fast, 7, 8)
    model[0].weight = torch.nn.Parameter(torch.rand(8, 8))
    check(model, fast, 9, 8)


@pytest.mark.parametrize("has_call", [False, True])
def test_hot_sizes_get_code_of_their_own(monkeypatch: pytest.MonkeyPatch, has_call: bool) -> None:
    """Where calls go through machine code alone, and where they need Python."""
    monkeypatch.setattr(fx_model, "HOT_CALLS", 5)

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)

        def forward(self, x):  # type: ignore[no-untyped-def]
            y = torch.relu(self.layer(x))
            return torch.sort(y, 0)[0] if has_call else y

    model = Net().eval()
    fast = weft.compile(model, (torch.rand(20, 8),))
    for rows in (20, 30, 40, 50):
        check(model, fast, rows, 8)
    assert variant_of(fast, model, 50, 8).compiled.is_open
    for _ in range(7):
        check(model, fast, 50, 8)
    BACKGROUND.wait()
    assert not variant_of(fast, model, 50, 8).compiled.is_open
    assert variant_of(fast, model, 40, 8).compiled.is_open
    for rows in (50, 40, 50):
        check(model, fast, rows, 8)
    with torch.no_grad():
        model.layer.weight.mul_(2)
    for rows in (50, 40, 50):
        check(model, fast, rows, 8)


def test_another_thread_asks_first_for_code_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the question whether calls are counted and the counting."""
    count = fx_model.FxModel._count

    def count_late(self: fx_model.FxModel, variant: Any, args: Any) -> None:
        variant.calls = None
        count(self, variant, args)

    monkeypatch.setattr(fx_model.FxModel, "_count", count_late)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).eval()
    fast = weft.compile(model, (torch.rand(20, 8),))
    for rows in (30, 40, 40):
        check(model, fast, rows, 8)


def test_threads_that_call_while_a_size_gets_code_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fx_model, "HOT_CALLS", 10)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).eval()
    fast = weft.compile(model, (torch.rand(20, 8),))
    check(model, fast, 30, 8)

    def call(rows: int) -> None:
        for n in range(40):
            check(model, fast, rows + n % 3, 8)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(call, (31, 40, 31)))
    BACKGROUND.wait()
    check(model, fast, 31, 8)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_after_several_sizes() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).eval()
    before = weft.get_num_threads(), torch.get_num_threads()
    weft.set_num_threads(1)  # no runtime of threads survives a fork
    torch.set_num_threads(1)
    try:
        fast = weft.compile(model, (torch.rand(20, 8),))
        for rows in (20, 30, 40):
            check(model, fast, rows, 8)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for rows in (40, 20, 50):
                    check(model, fast, rows, 8)
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        weft.set_num_threads(before[0])
        torch.set_num_threads(before[1])


def test_sizes_share_the_memory_between_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arenas, "SPARE", 0)
    layers = [part for _ in range(3) for part in (torch.nn.Linear(64, 64), torch.nn.Softmax(-1))]
    model = torch.nn.Sequential(*layers).eval()
    fast = weft.compile(model, (torch.rand(20, 64),))
    executables = []
    for rows in (20, 50, 40, 30, 50, 20):
        check(model, fast, rows, 64)
        executables.append(variant_of(fast, model, rows, 64).compiled.executable)
    distinct = {id(e): e for e in executables}.values()
    assert len(distinct) == 4
    largest = max(e.arena.size for e in distinct)
    assert 0 < sum(e.held_bytes for e in distinct) <= largest


def test_few_of_many_sizes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "MOST_KEPT", 3)
    model = torch.nn.ReLU()
    fast = weft.compile(model, (torch.rand(2, 8),))
    for rows in (2, 3, 4, 5, 6, 2, 3):
        check(model, fast, rows, 8)
        assert len(fast.parts) <= 3
