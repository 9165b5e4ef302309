"""Models of torch that are called with one size after another: traced twice, right for each size."""

from __future__ import annotations

import pytest

import weft
from weft.graph.from_torch import backend

torch = pytest.importorskip("torch")


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each tracing left sizes open."""
    made: list[bool] = []
    export = backend.export

    def counted(model: object, args: object, named: object, dims: list[frozenset[int]] = []) -> object:  # noqa: B006
        made.append(any(dims))
        return export(model, args, named, dims)

    monkeypatch.setattr(backend, "export", counted)
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


def test_dynamo_with_symbolic_sizes() -> None:
    model = Reshapes().eval()
    torch._dynamo.reset()
    fast = torch.compile(model, backend="weft", dynamic=True)
    for batch, length in ((2, 5), (3, 7), (4, 9)):
        check(model, fast, batch, length, 8)


def test_weights_that_change_are_seen_at_all_sizes() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
    fast = weft.compile(model, (torch.rand(2, 8),))
    for rows in (2, 3, 4):
        check(model, fast, rows, 8)
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


def test_few_of_many_sizes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "MOST_KEPT", 3)
    model = torch.nn.ReLU()
    fast = weft.compile(model, (torch.rand(2, 8),))
    for rows in (2, 3, 4, 5, 6, 2, 3):
        check(model, fast, rows, 8)
        assert len(fast.parts) <= 3
