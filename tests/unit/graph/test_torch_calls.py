"""Calls as programs make them: arguments in one memory, by name, from several threads, numbers that change, graph
breaks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import weft
from weft.graph.from_torch import backend as torch_backend

torch = pytest.importorskip("torch")
nn = torch.nn


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture
def compiled() -> Iterator[list[Any]]:
    """What `torch.compile` has compiled since."""
    torch._dynamo.reset()
    torch_backend.COMPILED.clear()
    yield torch_backend.COMPILED
    torch._dynamo.reset()


def fallbacks(models: list[Any]) -> list[str]:
    reports = [v.compiled.report for m in models for v in m.variants.values() if v.compiled is not None]
    return [call.call.target for report in reports for call in report.calls]


def writes_first(x: Any, y: Any) -> Any:
    x.add_(1)
    return x * y


@pytest.mark.filterwarnings("ignore:weft:UserWarning")
def test_an_input_that_is_written_is_seen_through_another_in_its_memory() -> None:
    fast = weft.compile(writes_first, (torch.zeros(4, 4), torch.ones(4, 4)))
    for pick in (lambda t: (t, t.clone()), lambda t: (t, t), lambda t: (t, t.mT), lambda t: (t, t[0])):
        ours, theirs = torch.rand(4, 4), torch.empty(4, 4)
        theirs.copy_(ours)
        torch.testing.assert_close(fast(*pick(ours)), writes_first(*pick(theirs)))
        torch.testing.assert_close(ours, theirs)


def test_inputs_written_apart_from_others_in_one_memory_stay_compiled() -> None:
    fast = weft.compile(writes_first, (torch.zeros(3), torch.ones(3)))
    rows = torch.rand(2, 3)
    expected = (rows[0] + 1) * rows[1]
    torch.testing.assert_close(fast(rows[0], rows[1]), expected)
    assert not [part for part in fast.parts.values() if isinstance(part, str)]


def test_arguments_by_name_are_example_inputs_too() -> None:
    def scaled(x: Any, *, by: Any, shift: float = 0.0) -> Any:
        return x * by + shift

    x = torch.rand(3)
    fast = weft.compile(scaled, x, kwargs={"by": torch.tensor(2.0), "shift": 1.0})
    assert len(fast.parts) == 1
    torch.testing.assert_close(fast(x, by=torch.tensor(3.0), shift=1.0), x * 3 + 1)
    assert len(fast.parts) == 1


def test_a_thread_calls_a_model_that_another_one_traces() -> None:
    """A module that is being traced has other tensors in it, which no call may see."""
    begun, ended = threading.Event(), threading.Event()

    class Slow(nn.Linear):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            if x.dim() == 3:
                begun.set()
                ended.wait(0.1)
            return super().forward(x)

    model, x, other = Slow(5, 3), torch.rand(2, 5), torch.rand(2, 4, 5)
    fast, expected = weft.compile(model, x), nn.functional.linear(other, *(p.clone() for p in model.parameters()))
    made: list[Any] = []
    tracing = threading.Thread(target=torch.no_grad()(lambda: made.append(fast(other))))
    tracing.start()
    begun.wait()
    torch.testing.assert_close(fast(x), nn.functional.linear(x, model.weight, model.bias))
    ended.set()
    tracing.join()
    torch.testing.assert_close(made[0], expected)


def test_a_number_that_changes_is_left_open_by_dynamo(compiled: list[Any]) -> None:
    def scaled(x: Any, by: float) -> Any:
        return (x * by).relu() + by / 3

    fast, x = torch.compile(scaled, backend=torch_backend.backend), torch.randn(7)
    for by in (0.5, 0.75, -2.0, 3.5):
        torch.testing.assert_close(fast(x, by), scaled(x, by))
    assert not [model.reason for model in compiled if model.reason]
    assert not fallbacks(compiled)


def test_sizes_that_a_part_gives_are_numbers(compiled: list[Any]) -> None:
    def broken(x: Any) -> Any:
        rows, h = x.shape[0], x * 2
        torch._dynamo.graph_break()
        return h + rows, rows

    fast = torch.compile(broken, backend=torch_backend.backend, dynamic=True)
    for n in (3, 5, 8):
        made, rows = fast(torch.ones(n, 2))
        assert torch.equal(made, torch.full((n, 2), 2.0 + n))
        assert rows == n
    variants = [v for model in compiled for v in model.variants.values()]
    assert variants
    assert not [v.reason for v in variants if v.reason]


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layers_that_torch_runs_whole_are_taken_apart(norm_first: bool, compiled: list[Any]) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True, norm_first=norm_first).eval()
    fast, x = torch.compile(layer, backend=torch_backend.backend), torch.randn(2, 5, 8)
    padding = torch.tensor([[False, False, True, True, True], [True] * 5])  # rows that look at nothing are NaN
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
    for masks in ({}, {"src_key_padding_mask": padding}, {"src_mask": causal, "src_key_padding_mask": padding}):
        torch.testing.assert_close(fast(x, **masks), layer(x, **masks), equal_nan=True)
    assert not fallbacks(compiled)


def test_shifts_are_divisions_and_products() -> None:
    def shifted(x: Any) -> Any:
        return x >> 3, x << 5, x.to(torch.int8) >> 2, x.to(torch.int8) << 3, x.to(torch.uint8) >> 1, x >> 63

    x = torch.randint(-(10**6), 10**6, (40,))
    fast = weft.compile(shifted, x)
    for made, expected in zip(fast(x), shifted(x)):
        assert torch.equal(made, expected)
    (part,) = fast.parts.values()
    assert fallbacks([part.model]) == ["aten.__rshift__.Scalar"]  # as many places as there are


def test_long_sums_are_rounded_like_short_ones() -> None:
    def sums(x: Any) -> Any:
        return x.sum(), x.var(), (x * x).mean(), x.view(2, -1).sum(1)

    x = torch.rand(1 << 22) + 0.1
    for made, expected in zip(weft.compile(sums, x)(x), sums(x.double())):
        torch.testing.assert_close(made.double(), expected, rtol=3e-7, atol=0)
