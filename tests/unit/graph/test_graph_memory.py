"""A compiled model needs no more memory for tensors between its steps than eager PyTorch has at its peak.

Outputs are there from the beginning of a call, in eager only from when they are made; so they are not counted here,
but tensors that fit are in their memory until they are written.
"""

from __future__ import annotations

import weakref
from collections import Counter
from typing import Any

import pytest

import weft
from weft.graph.run.memory import Life, host, pack

torch = pytest.importorskip("torch")
nn = torch.nn


class Peak(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
    """Bytes of the tensors that a program makes and has at once, at most."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.most = 0
        self._users: Counter[int] = Counter()

    def __torch_dispatch__(self, fn: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = fn(*args, **(kwargs or {}))
        for t in torch.utils._pytree.tree_leaves(made):
            if isinstance(t, torch.Tensor) and (storage := t.untyped_storage()).nbytes():
                self._hold(t, storage.data_ptr(), storage.nbytes(), args)
        return made

    def _hold(self, tensor: Any, address: int, size: int, args: Any) -> None:
        given = [a for a in torch.utils._pytree.tree_leaves(args) if isinstance(a, torch.Tensor)]
        if address not in self._users and any(a.untyped_storage().data_ptr() == address for a in given):
            return  # a view of a weight or of an input
        if self._users[address] == 0:
            self.live += size
            self.most = max(self.most, self.live)
        self._users[address] += 1
        weakref.finalize(tensor, self._drop, address, size)

    def _drop(self, address: int, size: int) -> None:
        self._users[address] -= 1
        if self._users[address] == 0:
            self.live -= size
            del self._users[address]


class Residual(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x: Any) -> Any:
        return torch.relu(x + self.second(torch.relu(self.norm(self.first(x)))))


class Attention(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))

    def forward(self, x: Any) -> Any:
        return torch.softmax(self.q(x) @ self.k(x).transpose(1, 2), -1) @ self.v(x) + x


class Skip(nn.Module):  # type: ignore[misc]
    """What was there before pooling is joined to what is made after it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.up, self.last = nn.ConvTranspose2d(32, 16, 2, stride=2), nn.Conv2d(32, 16, 3, padding=1)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.first(x))
        y = self.up(torch.relu(self.down(nn.functional.max_pool2d(x, 2))))
        return torch.tanh(self.last(torch.cat([x, y], 1)))


class Dense(nn.Module):  # type: ignore[misc]
    """Each layer reads all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(16 * n, 16, 3, padding=1) for n in range(1, 5))

    def forward(self, x: Any) -> Any:
        parts = [torch.relu(x)]
        for layer in self.layers:
            parts.append(layer(torch.relu(torch.cat(parts, 1))))
        return torch.cat(parts, 1).mean(1)


MODELS = {
    "layers": (nn.Sequential(*(m for _ in range(4) for m in (nn.Linear(64, 64), nn.GELU()))), (16, 64)),
    "residual": (nn.Sequential(Residual(), Residual(), nn.MaxPool2d(2)), (2, 8, 16, 16)),
    "skip": (nn.Sequential(Skip(), Skip()), (2, 16, 16, 16)),
    "dense": (nn.Sequential(Dense()), (2, 16, 16, 16)),
    "attention": (nn.Sequential(Attention(), Attention()), (2, 40, 32)),
}


@pytest.mark.parametrize("name", MODELS)
def test_no_more_than_eager(name: str) -> None:
    torch.manual_seed(0)
    model, shape = MODELS[name]
    model, x = model.eval(), torch.randn(shape)
    fast = weft.compile(model, (x,))
    with torch.no_grad():
        assert torch.allclose(fast(x), model(x), atol=1e-4)
        with Peak() as peak:
            model(x)
    compiled, _ = fast.find_compiled((x,))
    assert compiled.executable.arena.size <= peak.most


def test_attention_of_few_rows_has_all_its_operands_at_once() -> None:
    """More than eager, which makes values when scores are all that is left: one kernel reads all three, and x."""
    torch.manual_seed(0)
    model, x = nn.Sequential(Attention(), Attention()).eval(), torch.randn(2, 12, 32)
    fast = weft.compile(model, (x,))
    with torch.no_grad():
        assert torch.allclose(fast(x), model(x), atol=1e-4)
    compiled, _ = fast.find_compiled((x,))
    assert compiled.executable.arena.size <= 4 * x.nbytes


def test_results_hold_what_dies_before_they_are_written() -> None:
    chain = [Life(f"t{n}", 64, n, n + 1) for n in range(7)]
    hosted = host(chain, [Life("result", 64, 7, 7)])
    assert hosted == {f"t{n}": ("result", 0) for n in (5, 3, 1)}
    assert pack([t for t in chain if t.name not in hosted]).size == 64
    assert not host(chain, [Life("small", 8, 7, 7)])
