"""Small models as people write them who have not read how they are compiled: each call is as eager's, or refused."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft

torch = pytest.importorskip("torch")
nn = torch.nn
F = nn.functional


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what runs in parts
        yield


class Made(nn.Module):  # type: ignore[misc,name-defined]
    """A model of a function that gets it."""

    def __init__(self, fn: Callable[..., Any], **had: Any) -> None:
        super().__init__()
        for name, value in had.items():
            setattr(self, name, value)
        self.fn = fn

    def forward(self, *args: Any, **named: Any) -> Any:
        return self.fn(self, *args, **named)


def calls(model: Any, change: Callable[[Any, int], None], *given: Any) -> None:
    """Each of the calls by Weft and in eager, each after a ``change`` to the model; results and the model's state."""
    eager, fast = copy.deepcopy(model), weft.compile(model, copy.deepcopy(given[0]))
    for n, args in enumerate(given):
        for one in (model, eager):
            torch.manual_seed(n)
            change(one, n)
        ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
        made, expected = fast(*ours), eager(*theirs)
        torch.testing.assert_close(leaves(made), leaves(expected), rtol=1e-4, atol=1e-5, equal_nan=True)
        torch.testing.assert_close(leaves(ours), leaves(theirs))
        torch.testing.assert_close(model.state_dict(), eager.state_dict())


def leaves(value: Any) -> list[Any]:
    if dataclasses.is_dataclass(value):
        value = [getattr(value, f.name) for f in dataclasses.fields(value)]
    if isinstance(value, dict):
        value = [one for pair in value.items() for one in pair]
    if isinstance(value, (list, tuple)):
        return [len(value), *(leaf for one in value for leaf in leaves(one))]
    return [torch.tensor(ord(value[0])) if isinstance(value, str) else torch.as_tensor(float("nan"))
            if value is None else value]  # fmt: skip


def rows(count: int, *shape: int) -> list[Any]:
    return [(torch.randn(shape),) for _ in range(count)]


def nothing(model: Any, n: int) -> None:
    pass


def _counts(self: Any, x: Any) -> Any:
    self.calls += 1
    return x * self.calls, self.calls


def _remembers(self: Any, x: Any) -> Any:
    self.seen = x if self.seen is None else torch.cat([self.seen, x])
    return self.seen.sum(0)


def _lists(self: Any, x: Any) -> Any:
    self.seen.append(x.shape[0])
    return x + len(self.seen)


def _notes(self: Any, x: Any) -> Any:
    self.last_size = x.shape[0]
    return x * 2


@pytest.mark.parametrize(
    "model",
    [
        lambda: Made(_counts, calls=0),
        lambda: Made(_remembers, seen=None),
        lambda: Made(_lists, seen=[]),
    ],
)
def test_models_that_change_themselves(model: Callable[[], Any]) -> None:
    calls(model(), nothing, *rows(4, 2, 3))


def test_what_a_call_leaves_in_an_attribute() -> None:
    model = Made(_notes)
    fast = weft.compile(model, torch.ones(2, 3))
    for size in (2, 2, 5, 2):
        assert float(fast(torch.ones(size, 3)).sum()) == 6 * size
        assert model.last_size == size


def _number(model: Any, n: int) -> None:
    model.factor = float(n)


def _sign(model: Any, n: int) -> None:
    model.factor = (0.0, -0.0, 0.0)[n % 3]


def _new_name(model: Any, n: int) -> None:
    if n == 2:
        model.shift = 3.0


def _function(model: Any, n: int) -> None:
    model.act = (torch.relu, torch.tanh)[n // 2 % 2]


def _in_containers(model: Any, n: int) -> None:
    if n == 1:
        model.rows[0] = torch.full((3,), 5.0)
    if n == 2:
        model.rows[0].add_(1)
    if n == 3:
        model.table["k"]["deep"] = 4
    if n == 4:
        model.rows.insert(0, torch.zeros(3))


def _by_all(self: Any, x: Any) -> Any:
    y = self.act(x * self.factor + getattr(self, "shift", 0.0))
    return y * self.rows[0] * self.table["k"]["deep"] + (1.0 / torch.tensor(1.0) * self.factor) * len(self.rows)


def _hooks(model: Any, n: int) -> None:
    if n == 1:
        model.hook = model.inner.register_forward_hook(lambda _m, _a, made: made * 3)
    if n == 2:
        model.hook.remove()
    if n == 3:
        model.hook = model.inner.register_forward_pre_hook(lambda _m, args: (args[0] + 1,))
    if n == 4:
        model.hook.remove()


def _other_parts(model: Any, n: int) -> None:
    if n == 1:
        model.inner[1] = nn.Tanh()
    if n == 2:
        model.inner.append(nn.Linear(3, 3))
    if n == 4:
        model.inner[0].bias = None


@pytest.mark.parametrize("change", [_number, _sign, _new_name, _function, _in_containers, _hooks, _other_parts])
def test_models_that_somebody_changes_between_calls(change: Callable[[Any, int], None]) -> None:
    inner = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    had = {"factor": 1.0, "act": torch.relu, "rows": [torch.ones(3)], "table": {"k": {"deep": 2}}, "inner": inner}
    model = Made(lambda self, x: _by_all(self, self.inner(x)), **had)
    given = rows(1, 2, 3) * 6  # the second of equal calls may be machine code's alone
    calls(model, change, *given)


def test_an_attribute_that_is_another_in_each_call_is_not_traced_for_ever() -> None:
    model = Made(lambda self, x: x * self.factor, factor=0.5)
    fast = weft.compile(model, torch.ones(3))
    for n in range(14):
        model.factor = 0.5 + n
        for _ in range(2):
            assert fast(torch.ones(3)).tolist() == [0.5 + n] * 3
    assert fast._turns == 9


@dataclasses.dataclass
class Result:
    y: Any
    size: int
    z: Any = None


def _branches(self: Any, x: Any) -> Any:
    return self.a(x) if x.sum() > 0 else self.a(x).relu()


def _in_place(self: Any, x: Any, y: Any) -> Any:
    x.add_(1)
    y[0] = 7
    return x * 2


def _running(self: Any, x: Any) -> Any:
    self.mean.mul_(0.9).add_(x.mean(0) * 0.1)
    return x - self.mean


PROGRAMS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "a dict": (lambda self, d: {"y": d["a"] @ d["b"], "n": d["a"].shape[0], "s": "text"},
               [({"a": torch.ones(n, 5), "b": torch.ones(5, n + 1)},) for n in (1, 3)]),
    "a branch": (_branches, [(torch.ones(3, 7),), (-torch.ones(3, 7),), (torch.ones(2, 7),)]),
    "nested": (lambda self, p: [p[0][0] + p[0][1], (p[1], {"d": p[1] * 2, "none": None})],
               [(((torch.ones(n), torch.ones(n)), torch.ones(1)),) for n in (3, 1)]),
    "a dataclass": (lambda self, x: Result(x + 1, x.shape[0]), rows(1, 3) + rows(1, 5)),
    "in place": (_in_place, [(torch.zeros(n), torch.zeros(2, n)) for n in (3, 5)]),
    "shared memory": (_in_place, [((b := torch.zeros(6))[:4], b[2:].view(2, 2)), (b[:4], b[2:].view(2, 2))]),
    "buffers": (_running, rows(3, 4, 7)),
    "strides": (lambda self, x: x.sum(0), [(torch.randn(8, 9)[::2, ::3],), (torch.randn(5, 4).t(),)]),
    "no rows": (lambda self, x: self.a(x).relu(), [(torch.zeros(0, 7),), (torch.ones(2, 7),), (torch.zeros(0, 7),)]),
    "complex": (lambda self, x: (torch.fft.fft(x).abs(), torch.view_as_complex(x.view(-1, 2)) * 2j), rows(2, 8)),
    "complex inputs": (lambda self, x: x.real * 2 + x.imag, [(torch.ones(3, dtype=torch.complex64).conj(),)]),
    "integers": (lambda self, x, y: (x // y, x % y, x / y, (x << 2) & y, x.sum(), ~x),
                 [(torch.tensor([-7, 7, 5]), torch.tensor([2, -2, 3]))]),
    "bytes": (lambda self, x, y: (x // y, torch.remainder(x, y), x + y, x.sum(), -x),
              [(torch.tensor([-128, 127], dtype=torch.int8), torch.tensor([2, -2], dtype=torch.int8))]),
    "sizes of values": (lambda self, x: (x[x > 0], x.nonzero()), rows(2, 9)),
    "plain numbers": (lambda self, x, n, flag, name: (x * n if flag else x - n, x.shape[0] * n, name),
                      [(torch.ones(3), 2, True, "a"), (torch.ones(3), 0.5, False, "b"), (torch.ones(3), True, 1, "b")]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_arguments_and_results_of_all_kinds(name: str) -> None:
    fn, given = PROGRAMS[name]
    model = Made(fn, a=nn.Linear(7, 5))
    model.register_buffer("mean", torch.zeros(7))
    calls(model, nothing, *given)


def test_errors_of_the_model_are_its_own_and_calls_go_on() -> None:
    def refuse(self: Any, x: Any) -> Any:
        if x.shape[0] == 3:
            raise KeyError("three")
        return x * 2

    fast = weft.compile(Made(refuse), torch.ones(2))
    for _ in range(2):
        with pytest.raises(KeyError, match="three"):
            fast(torch.ones(3))
        assert fast(torch.ones(2)).tolist() == [2, 2]


def test_many_taps_of_a_smoothed_image_are_a_sum() -> None:
    """Up to 32 taps are written out; here are 200."""
    shrunk = Made(lambda self, x: F.interpolate(x, (3, 2), mode="bilinear", antialias=True))
    calls(shrunk, nothing, *rows(1, 1, 2, 301, 7))
