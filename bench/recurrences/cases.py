"""What is compared: a definition of ``examples/recurrences`` on some sizes, and how PyTorch does the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TEXT = (Path(__file__).parents[2] / "examples" / "recurrences" / "recurrences.weft").read_text(encoding="utf-8")
STEPS = 64


@dataclass(frozen=True)
class Case:
    """``make`` gives Weft's arguments and PyTorch's function of none, on a device; ``pick`` what both must agree on."""

    name: str
    entry: str
    make: Callable[[Any, str], tuple[list[Any], Callable[[], Any]]]
    pick: Callable[[Any], Any]
    note: str = ""


def cases() -> list[Case]:
    layers = [(32, 128), (32, 256), (32, 512), (1, 256), (7, 100), (64, 300), (16, 1024)]
    found = [Case(f"LSTM, batch {b}, hidden {h}", "lstm", _lstm(b, h), lambda y: y[0][1:]) for b, h in layers]
    found += [Case(f"GRU, batch {b}, hidden {h}", "gru", _gru(b, h), lambda y: y[1:]) for b, h in layers[:5]]
    found += [Case(f"Viterbi, {n} states", "viterbi", _viterbi(n), lambda y: y) for n in (64, 333)]
    found += [
        Case(f"selective scan, batch {b}, {d} channels, {n} numbers", "selective_scan", _scan(b, d, n), lambda y: y)
        for b, d, n in ((4, 512, 16), (2, 100, 7))
    ]
    return found


def _lstm(batch: int, hidden: int) -> Callable[[Any, str], tuple[list[Any], Callable[[], Any]]]:
    def make(torch: Any, device: str) -> tuple[list[Any], Callable[[], Any]]:
        layer = torch.nn.LSTM(hidden, hidden).to(device)
        x, h, c = torch.randn(STEPS, batch, hidden), torch.randn(batch, hidden), torch.randn(batch, hidden)
        x, h, c = (a.to(device) for a in (x, h, c))
        w, u = (p.detach().view(4, hidden, hidden) for p in (layer.weight_ih_l0, layer.weight_hh_l0))
        a = (layer.bias_ih_l0 + layer.bias_hh_l0).detach().view(4, hidden)
        return [x, h, c, w, u, a], lambda: layer(x, (h[None], c[None]))[0]

    return make


def _gru(batch: int, hidden: int) -> Callable[[Any, str], tuple[list[Any], Callable[[], Any]]]:
    def make(torch: Any, device: str) -> tuple[list[Any], Callable[[], Any]]:
        layer = torch.nn.GRU(hidden, hidden).to(device)
        x, h = torch.randn(STEPS, batch, hidden).to(device), torch.randn(batch, hidden).to(device)
        w, u = (p.detach().view(3, hidden, hidden) for p in (layer.weight_ih_l0, layer.weight_hh_l0))
        a, d = (p.detach().view(3, hidden) for p in (layer.bias_ih_l0, layer.bias_hh_l0))
        return [x, h, w, u, a, d], lambda: layer(x, h[None])[0]

    return make


def _viterbi(states: int) -> Callable[[Any, str], tuple[list[Any], Callable[[], Any]]]:
    def make(torch: Any, device: str) -> tuple[list[Any], Callable[[], Any]]:
        e, a = torch.randn(STEPS, states).to(device), torch.randn(states, states).to(device)

        def run() -> Any:
            v, back = e[0], []
            for row in e[1:]:
                v, best = (v[:, None] + a).max(0)
                v = v + row
                back.append(best)
            path = [v.argmax()]
            for row in reversed(back):
                path.append(row[path[-1]])
            return torch.stack(path[::-1]).int()

        return [e, a], run

    return make


def _scan(batch: int, channels: int, numbers: int) -> Callable[[Any, str], tuple[list[Any], Callable[[], Any]]]:
    def make(torch: Any, device: str) -> tuple[list[Any], Callable[[], Any]]:
        shapes = ((batch, channels), (batch, channels), (batch, numbers), (batch, numbers))
        x, delta, k, q = (torch.randn(STEPS, *s).to(device) for s in shapes)
        delta, a = delta.abs() * 0.1, -torch.randn(channels, numbers).abs().to(device)
        skip = torch.randn(channels).to(device)

        def run() -> Any:
            s = m = torch.zeros(batch, channels, numbers, device=device)
            rows = []
            for t in range(STEPS):
                decay = torch.exp(delta[t, :, :, None] * a)
                s = decay * s + (delta[t] * x[t])[..., None] * k[t, :, None]
                m = decay * m + delta[t, ..., None] * k[t, :, None].abs()
                norm = (m * q[t, :, None].abs()).sum(-1)
                rows.append((s * q[t, :, None]).sum(-1) / (1 + norm) + skip * x[t])
            return torch.stack(rows)

        return [x, delta, a, k, q, skip], run

    return make
