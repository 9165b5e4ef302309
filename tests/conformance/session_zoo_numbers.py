"""Sessions about numbers: very large and small ones, long sums, types, values and sizes that change between calls."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.conformance.session import Session, call

INF, NAN = math.inf, math.nan
ODD = torch.tensor([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-40, -1e-45, 3e38, -3e38, 88.8, -104.0, 1e-8, 0.5, 2.5])


class Softmaxes(nn.Module):
    """Softmax, norms and losses of values that overflow where one forgets to subtract the largest."""

    def forward(self, x: Any) -> Any:
        return (
            x.softmax(-1),
            x.log_softmax(-1),
            x.logsumexp(-1),
            F.softplus(x),
            F.gelu(x),
            F.silu(x),
            x.sigmoid(),
            x.tanh(),
            F.logsigmoid(x),
            F.elu(x),
            x.logcumsumexp(-1),
            F.mish(x),
            F.selu(x),
            x.exp(),
            x.expm1(),
        )


class Norms(nn.Module):
    """Variances of values far from zero, and of rows that are all equal."""

    def __init__(self, d: int = 64) -> None:
        super().__init__()
        self.norm, self.group, self.batch = nn.LayerNorm(d), nn.GroupNorm(4, 8), nn.BatchNorm1d(8)
        self.rms, self.inst = nn.RMSNorm(d), nn.InstanceNorm1d(8)

    def forward(self, x: Any) -> Any:
        return (
            self.norm(x),
            self.group(x),
            self.batch(x),
            self.rms(x),
            self.inst(x),
            x.var(-1),
            x.std((0, 2)),
            F.normalize(x, dim=-1),
            x.norm(dim=-1),
            torch.cdist(x, x[:, :3]),
            F.cosine_similarity(x, x.flip(1), -1),
        )


class Odd(nn.Module):
    """What each function gives for zeros of both signs, infinities, NaN, denormals and the largest numbers."""

    def forward(self, x: Any, y: Any) -> Any:
        return (
            x + y,
            x * y,
            x / y,
            torch.maximum(x, y),
            torch.minimum(x, y),
            torch.fmax(x, y),
            torch.fmin(x, y),
            x.clamp(-1, 1),
            x.clamp(y, y + 1),
            x.relu(),
            F.leaky_relu(x, 0.1),
            F.hardtanh(x),
            x.sign(),
            x.abs(),
            -x,
            x.floor(),
            x.round(),
            x.frac(),
            x.sqrt(),
            x.rsqrt(),
            x.log(),
            x.log1p(),
            x.exp(),
            x.reciprocal(),
            x.sin(),
            x.atan(),
            x.erf(),
            torch.atan2(x, y),
            x % 3,
            torch.fmod(x, 3),
            x.pow(2),
            x.abs().pow(0.5),
            x.pow(-1),
            x.pow(3),
            torch.pow(x, y),
            x == y,
            x < y,
            x != x,
            x.isnan(),
            x.isinf(),
            x.isfinite(),
            x.nan_to_num(),
            torch.copysign(x, -x),
            x.signbit(),
            torch.where(x > y, x, y),
            x.square(),
            x.trunc(),
        )


class OddSums(nn.Module):
    """Reductions over such rows: which is largest, where, sums, products, orders."""

    def forward(self, x: Any) -> Any:
        return (
            x.amax(-1),
            x.amin(-1),
            x.max(-1),
            x.argmax(-1),
            x.argmin(-1),
            x.abs().sum(-1),
            x.abs().nansum(-1),
            x.clamp(-2, 2).prod(-1),
            x.any(-1),
            x.all(-1),
            x.cummax(-1)[0],
            x.abs().cumsum(-1),
            x.sort(-1)[0],
            x.median(-1)[0],
            x.aminmax(dim=-1),
            x.abs().nanmean(-1),
            x.logsumexp(-1),
            x.count_nonzero(-1),
            F.max_pool1d(x, 3, 2, 1),
            F.avg_pool1d(x.abs(), 3, 1, 1),
        )


class Long(nn.Module):
    """Sums of many numbers, all of them and along each axis."""

    def forward(self, x: Any) -> Any:
        return x.sum(), x.mean(), x.sum(0), x.var(), x.cumsum(1)[:, -1], (x @ x[0])


class Mixed(nn.Module):
    """Scalars that are tensors or Python's numbers, mixed types."""

    def forward(self, x: Any, scale: Any, shift: float, power: int, low: Any = None) -> Any:
        y = x * scale + shift
        y = y**power
        low = -1.0 if low is None else low
        return y.clamp(min=low), scale, torch.full_like(x, shift), x.new_tensor([shift, power]), y.long() % (power + 2)


class Integers(nn.Module):
    """Integers alone: a hash, a sieve, digits, division of negatives, overflow."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(97) * 31 % 97)

    def forward(self, n: Any, k: int) -> Any:
        h = (n * 6364136223846793005 + 1442695040888963407) ^ (n >> 7)
        i = n.to(torch.int32) * 65537 * 65537
        digits = torch.stack([n // 10**d % 10 for d in range(k)], -1)
        prime = (n[:, None] % torch.arange(2, 12) != 0).all(1)
        return (
            h,
            i,
            digits,
            prime,
            self.table[n.remainder(97)],
            n.div(-7, rounding_mode="trunc"),
            n // -7,
            n % -7,
            torch.gcd(n, n + k),
            n.bitwise_and(255).to(torch.uint8),
            (n.sum() + k).item() > 0 and n.max(),
            n.float() / k,
            torch.bincount(n.abs() % 5, minlength=5),
            n.cumprod(0),
            n.clamp(max=k).diff(),
        )


class Control(nn.Module):
    """Ways and counts that values and arguments decide."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 5)

    def forward(self, x: Any, rounds: int, mode: str = "a", skip: bool = False) -> Any:
        for n in range(rounds):
            x = self.a(x).tanh() if mode == "a" or n % 2 else self.b(x).sin()
        if skip:
            return x
        rows = x[x.sum(1) > 0]
        return (x, rows * 2) if x.max() > 0.5 else (x, x.nonzero())


class Empty(nn.Module):
    """Batches without rows, in layers, sums, concatenations and softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.lin, self.embed = nn.Conv2d(3, 4, 3), nn.Linear(4, 5), nn.Embedding(7, 5)

    def forward(self, x: Any, ids: Any) -> Any:
        h = self.lin(self.conv(x).amax((2, 3)).relu())
        both = torch.cat([h, self.embed(ids)])
        return both, both.sum(), both.softmax(-1), both.sum(0), both.mT @ both, F.layer_norm(both, (5,)), both > 0


class Doubles(nn.Module):
    """float64 throughout, and parts of it in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(7, 9).double(), nn.Conv1d(9, 5, 3, padding=1).double()

    def forward(self, x: Any) -> Any:
        h = self.b(self.a(x).mT.contiguous())
        s = torch.softmax(h.mT @ h / 3, -1)
        return s, h.float() * 2, h + torch.ones(1), s.sum().float().double(), F.layer_norm(h, (h.shape[-1],))


class Small(nn.Module):
    """A convolution, attention and an MLP, of which weights and types are changed."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(4, 12, 3, padding=1), nn.BatchNorm1d(12)
        self.attention, self.head = nn.MultiheadAttention(12, 3, batch_first=True), nn.Linear(12, 6)

    def forward(self, x: Any) -> Any:
        h = self.norm(self.conv(x)).relu().mT
        h = h + self.attention(h, h, h, need_weights=False)[0]
        return self.head(h.mean(1))


def _other_weights(model: Any) -> None:
    state = {k: v * 0.5 + 0.1 if v.is_floating_point() else v for k, v in copy.deepcopy(model.state_dict()).items()}
    model.load_state_dict(state)


def _step(model: Any) -> None:
    """One of training: gradients, an optimizer's step."""
    x = torch.linspace(-1, 1, 2 * 4 * 9).reshape(2, 4, 9).to(model.head.weight.dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    with torch.enable_grad():
        model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def _other_head(model: Any) -> None:
    torch.manual_seed(3)
    model.head = nn.Linear(12, 4).to(model.head.weight.dtype)


def _data(model: Any) -> None:
    model.head.weight.data = model.head.weight.data * 2
    with torch.no_grad():
        model.conv.bias.add_(1)
    model.norm.running_mean.fill_(0.3)


def _frozen(model: Any) -> None:
    for p in model.parameters():
        p.requires_grad_(False)


def _changed(options: dict[str, Any] | None = None) -> Session:
    def one(b: int = 2, n: int = 9) -> Any:
        return call(torch.randn(b, 4, n))

    steps = [one(), _other_weights, one(), one(), _step, one(), _data, one(3), one(3), one(1, 17), _other_head, one(),
             lambda m: m.double(), call(torch.randn(2, 4, 9).double()), lambda m: m.float(), one(), _frozen, one(),
             lambda m: m.train(), one(), lambda m: m.eval(), one(1, 1), one(5, 128)]  # fmt: skip
    return Session(Small().eval(), steps, typed=True, options=options or {})


def _odd() -> list[Any]:
    a = ODD.repeat(len(ODD))
    return [call(a, ODD.repeat_interleave(len(ODD))), call(a.view(16, 16).mT, ODD), call(ODD, ODD.flip(0))]


def _odd_rows() -> list[Any]:
    torch.manual_seed(1)
    rows = torch.stack([ODD[torch.randperm(16)] for _ in range(9)])
    finite = torch.randn(4, 16) * 1e30
    tame = rows.nan_to_num(0.0).clamp(-1e30, 1e30)
    return [call(tame), call(rows), call(tame[:3]), call(finite), call(-tame)]


def _large() -> list[Any]:
    x = torch.randn(3, 33)
    return [call(x * s) for s in (1.0, 100.0, 3e4, 1e-30)] + [call(x.masked_fill(x > 0.5, -INF)), call(x + 1e4)]


def _offsets() -> list[Any]:
    x = torch.randn(2, 8, 64)
    return [call(x), call(x + 1000), call(x * 1e-12), call(torch.full_like(x, 3.0)), call(x * 1e4 - 5e4)]


def _integers() -> list[Any]:
    return [call(torch.randint(-(10**12), 10**12, (n,)), k) for n, k in ((11, 3), (11, 3), (7, 5), (29, 1))]


def _scalars() -> list[Any]:
    x = torch.randn(4, 3)
    return [call(x, torch.tensor(2.0), 0.5, 2), call(x, torch.tensor(3.0), 0.5, 2), call(x, 1.5, -0.25, 3),
            call(x, 2.5, 0.75, 1), call(x, 3, 1e-3, 2, low=torch.tensor(0.1)), call(x, torch.tensor(2), 2.0, 0),
            call(x, torch.tensor(1.5, dtype=torch.float64), 0.0, 2, low=0.2), call(x, True, 1.0, 2)]  # fmt: skip


def _empties() -> list[Any]:
    return [call(torch.randn(b, 3, 6, 6), torch.randint(0, 7, (n,))) for b, n in
            ((2, 3), (0, 3), (2, 0), (1, 1), (0, 1), (3, 7))]  # fmt: skip


def _controls() -> list[Any]:
    x = torch.randn(4, 5)
    return [call(x, 2), call(x, 3), call(x, 1, "b"), call(x, 4, mode="b", skip=True), call(x[:1], 0), call(x - 9, 1)]


NUMBERS: dict[str, Callable[[], Session]] = {
    "softmaxes": lambda: Session(Softmaxes(), _large()),
    "norms": lambda: Session(Norms().eval(), _offsets()),
    "norms_training": lambda: Session(Norms().train(), _offsets()),
    "odd": lambda: Session(Odd(), _odd(), exact=False),
    "odd_sums": lambda: Session(OddSums(), _odd_rows(), exact=False),
    "long": lambda: Session(Long(), [call(torch.rand(1000, 10_007) + 0.1), call(torch.randn(3, 1_000_003))]),
    "mixed": lambda: Session(Mixed(), _scalars()),
    "integers": lambda: Session(Integers(), _integers()),
    "control": lambda: Session(Control(), _controls()),
    "empty": lambda: Session(Empty(), _empties()),
    "doubles": lambda: Session(
        Doubles(), [call(torch.randn(b, n, 7).double()) for b, n in ((2, 5), (2, 5), (1, 9))], typed=True
    ),
    "changed": _changed,
    "changed_check": lambda: _changed({"check": "first"}),
    "changed_strict": lambda: _changed({"numerics": "strict"}),
    "changed_mapped": lambda: _changed({"weights": "mapped"}),
}
