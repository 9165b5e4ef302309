"""What is made of constants: once for all sizes, and gone where nobody reads it."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.graph import compile_graph as compiling
from weft.graph.groups.choose import Choice
from weft.graph.rewrites.constant_values import ConstantValues

torch = pytest.importorskip("torch")
nn = torch.nn


def test_what_somebody_has_is_not_made_again() -> None:
    values, given = ConstantValues(), np.arange(4.0)
    values.check([given.ctypes.data], [0])
    first = values.find("twice", [given], lambda: [2 * given])
    assert values.find("twice", [given], lambda: [None])[0] is first[0]
    assert values.find("thrice", [given], lambda: [3 * given])[0][1] == 3.0


def test_what_is_made_again_is_known_by_how_it_was_made() -> None:
    values, given = ConstantValues(), np.arange(4.0)
    values.check([given.ctypes.data], [0])
    (twice,) = values.find("twice", [given], lambda: [2 * given])
    identity, (packed,) = values.identity(twice), values.find("packed", [twice], lambda: [np.ones(4)])
    gone = weakref.ref(twice)
    del twice
    assert gone() is None
    (again,) = values.find("twice", [given], lambda: [2 * given])
    assert values.identity(again) == identity
    assert values.find("packed", [again], lambda: [None])[0] is packed
    other = np.arange(4.0)
    assert values.identity(other) != values.identity(given)


def test_changed_tensors_make_all_forgotten() -> None:
    values, given = ConstantValues(), np.arange(4.0)
    values.check([given.ctypes.data], [0])
    (before,) = values.find("twice", [given], lambda: [2 * given])
    values.check([given.ctypes.data], [1])
    (after,) = values.find("twice", [given], lambda: [2 * given])
    assert after is not before


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Nothing is kept from before."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    return monkeypatch


class Net(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(16, 24, 3, bias=False), nn.BatchNorm2d(24)
        self.norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x: Any) -> Any:
        return self.norm(self.conv(x)).relu()


def made_weights(monkeypatch: pytest.MonkeyPatch, choice: Choice) -> tuple[Any, list[Any]]:
    """A compiled model, and all that was made of its constants."""
    seen: list[Any] = []
    find = ConstantValues.find

    def watched(self: ConstantValues, *given: Any) -> tuple[Any, ...]:
        made = find(self, *given)
        seen.extend(map(weakref.ref, made))
        return made

    monkeypatch.setattr(ConstantValues, "find", watched)
    monkeypatch.setattr(compiling._Compilation, "_kept_choice", lambda *_: None)
    monkeypatch.setattr(compiling._Compilation, "_choice", lambda *_: choice)
    model = Net().eval()
    x = torch.randn(1, 16, 9, 9)
    fast = weft.compile(model, (x,))
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    return fast, [made for ref in seen if (made := ref()) is not None]


@torch.no_grad()  # type: ignore[untyped-decorator]
@pytest.mark.parametrize("choice", [Choice(0.0, 1.0), Choice(1.0, 0.0)], ids=["ours", "library"])
def test_folded_weights_are_gone_once_they_are_packed(fresh: pytest.MonkeyPatch, choice: Choice) -> None:
    fast, made = made_weights(fresh, choice)
    weight = fast.model.conv.weight
    assert not [m for m in made if getattr(m, "shape", None) == weight.shape]


@torch.no_grad()  # type: ignore[untyped-decorator]
def test_a_kernel_of_ours_that_fails_when_timed_is_told(fresh: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        def sample() -> float:
            raise ZeroDivisionError("in a kernel")

        return sample

    fresh.delenv("WEFT_FAULTS", raising=False)
    fresh.setattr(compiling._Compilation, "_kept_choice", lambda *_: None)
    fresh.setattr("weft.graph.run.processor.Cpu.is_clear", lambda *_: False)
    fresh.setattr("weft.graph.run.processor.Cpu.measure_kernel", fails)
    fast = weft.compile(Net().eval(), (torch.randn(1, 16, 9, 9),))
    assert "ZeroDivisionError: in a kernel" in str(weft.explain(fast))


@torch.no_grad()  # type: ignore[untyped-decorator]
@pytest.mark.parametrize(("rows", "is_packed"), [(1, False), (3, True)])
def test_weights_that_stream_from_memory_are_read_where_they_are(
    fresh: pytest.MonkeyPatch, rows: int, is_packed: bool
) -> None:
    weight = 4 * 192 * 128
    fresh.setattr("weft.graph.run.processor.Cpu.cached_bytes", 1.5 * weight)  # one is still there, two are not
    fresh.setattr("weft.graph.run.processor.Cpu.is_clear", lambda *_: True)
    fresh.setattr(Choice, "is_ours", True)
    model = nn.Sequential(nn.Linear(192, 128), nn.ReLU(), nn.Linear(128, 192)).eval()
    x = torch.randn(rows, 192)
    fast = weft.compile(model, (x,))
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    (part,) = fast.parts.values()
    (variant,) = part.model.variants.values()
    executable = variant.compiled.executable
    read = [executable.graph.constants.get(name) for kernel in executable.kernels for name in kernel.tensors]
    places = {t.data_ptr() for t in read if t is not None}
    assert [layer.weight.data_ptr() not in places for layer in (model[0], model[2])] == [is_packed] * 2
    model[0].weight.add_(1.0)
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
