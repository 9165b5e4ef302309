"""Sessions with models that are written in ways that few others are: transforms, contexts, hooks, odd memory and types.

Fills the list of `session_zoo`.
"""

from __future__ import annotations

import collections
import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from tests.conformance.session import Session, call


class Transforms(nn.Module):
    """`vmap` over samples and pairs, `jvp`, `grad` and a Jacobian of a small network, inside a model."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, 3))

    def forward(self, x: Any) -> Any:
        def energy(row: Any) -> Any:
            return self.net(row).square().sum()

        force = torch.func.vmap(torch.func.grad(energy))(x)
        jacobian = torch.func.vmap(torch.func.jacrev(self.net))(x)
        value, tangent = torch.func.jvp(self.net, (x,), (torch.ones_like(x),))
        pairs = torch.func.vmap(torch.func.vmap(lambda a, b: (a - b).abs().sum(), (None, 0)), (0, None))(x, x)
        return -force, jacobian, value, tangent, pairs


class Mixing(nn.Module):
    """Tokens mixed by two-dimensional Fourier transforms, and a long convolution through frequencies."""

    def __init__(self, d: int = 6) -> None:
        super().__init__()
        self.norm, self.lin, self.filter = nn.LayerNorm(d), nn.Linear(d, d), nn.Parameter(torch.randn(d, 32) / 4)

    def forward(self, x: Any) -> Any:
        mixed = torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real
        h = self.norm(x + mixed)
        n = x.shape[1]
        f = torch.fft.rfft(self.filter[:, :n], n=2 * n) * torch.fft.rfft(h.mT, n=2 * n)
        return self.lin(torch.fft.irfft(f, n=2 * n)[..., :n].mT) + h, torch.view_as_real(f).square().sum(-1).sqrt()


class Undefined(nn.Module):
    """Values that are no numbers, hidden and not: `where`, `nan_to_num`, means without them, products that run."""

    def forward(self, x: Any, mask: Any) -> Any:
        root = torch.where(mask, x.sqrt(), torch.nan)
        safe = torch.where(mask, torch.where(mask, x, 1.0).log(), 0.0)
        part = root.nanmean(0), root.nansum(-1), root.nan_to_num(-7.0).cumsum(0)
        run = (1 - x.sigmoid()).cumprod(-1)
        weight = x.sigmoid() * F.pad(run[..., :-1], (1, 0), value=1.0)
        return *part, safe, run, weight, x.cummin(-1).values, torch.logcumsumexp(x, 0), root.isnan(), x.diff(dim=0)


class Letters(nn.Module):
    """`einsum` of odd letters: diagonals, dots in the middle, repeated and broadcast axes, no result axes."""

    def forward(self, a: Any, b: Any) -> Any:
        return (
            torch.einsum("Zyx,xY->ZYy", a, b),
            torch.einsum("...ij,jk->...ki", a, b),
            torch.einsum("abc->", a),
            torch.einsum("bij,cij->bc", a, a),
            torch.einsum("iij->ij", a[:, : a.shape[0]]),
            torch.einsum("ab,cb,db->acd", b, b * 2, b.cos()),
            torch.einsum("i,j->ij", a[0, 0], b[:, 0]),
            torch.tensordot(a, b, dims=1),
            torch.kron(b[:2, :2], b[1:3, :3]),
            torch.cdist(b, b, p=1.0),
        )


class Contexts(nn.Module):
    """`autocast` and `no_grad` inside, checkpoints, hooks, a module list in a dict, a lambda held by the model."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 8)
        self.parts = nn.ModuleDict({"a": nn.Linear(8, 4), "b": nn.ModuleList([nn.Linear(8, 4)])})
        self.second.register_forward_hook(lambda module, args, out: out * 0.5)
        self.first.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        self.squash = lambda t: t / (1 + t.abs())

    def forward(self, x: Any, *, scale: float = 1.0, extras: Any = ()) -> Any:
        with torch.no_grad():
            h = self.first(x) * scale
        with torch.autocast("cpu", dtype=torch.bfloat16):
            low = self.second(h.float()).relu()
        h = checkpoint(self.squash, h + low.to(h.dtype), use_reentrant=False)
        for extra in extras:
            h = h + extra
        a, b = self.parts["a"](h), self.parts["b"][0](h)
        return collections.OrderedDict(a=a, none=None, both=[a + b, (b,)], low=low, size=h.shape[0])


class Normalized(nn.Module):
    """Weight norm along two axes, spectral norm, a weight computed in forward, standardized kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.a = parametrizations.weight_norm(nn.Conv1d(3, 6, 3, padding=1), dim=0)
        self.b = parametrizations.weight_norm(nn.Linear(6, 5))
        self.c = parametrizations.spectral_norm(nn.Linear(5, 5))
        self.kernel = nn.Parameter(torch.randn(6, 6, 3))

    def forward(self, x: Any) -> Any:
        h = self.a(x)
        var, mean = torch.var_mean(self.kernel, (1, 2), keepdim=True, correction=0)
        h = F.conv1d(h, (self.kernel - mean) * torch.rsqrt(var + 1e-5), padding="same") + h
        return self.c(self.b(h.mean(-1)))


class Memory(nn.Module):
    """Arguments that lie oddly: channels last, transposed, expanded, strided, from the middle, without elements."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 5, 3, padding=1), nn.BatchNorm2d(5)

    def forward(self, x: Any) -> Any:
        h = self.norm(self.conv(x)).relu()
        return h, h.mean((2, 3)), x * 2, x[:, 1], h.flatten(2).softmax(-1)


def _memories() -> list[Any]:
    image = torch.randn(2, 3, 7, 5)
    lies = [
        image,
        image.contiguous(memory_format=torch.channels_last),
        torch.randn(2, 7, 5, 3).permute(0, 3, 1, 2),
        torch.randn(1, 3, 7, 5).expand(2, 3, 7, 5),
        torch.randn(2, 1, 7, 1).expand(2, 3, 7, 5),
        torch.randn(4, 3, 7, 10)[::2, :, :, 1::2],
        torch.randn(2, 3, 5, 7).mT,
        torch.randn(500)[17:227].view(2, 3, 7, 5),
        torch.randn(15).as_strided((2, 3, 4, 3), (0, 1, 2, 3)),
        torch.randn(0, 3, 7, 5),
        image.clone().requires_grad_(),
        image[:1],
    ]
    return [call(x) for x in lies]


class Bits(nn.Module):
    """Weights of int8 with scales for groups, packed 4-bit weights, masks of bool, types of 16 and 8 bits."""

    def __init__(self, n: int = 16, k: int = 24) -> None:
        super().__init__()
        self.register_buffer("w", torch.randint(-128, 128, (n, k), dtype=torch.int8))
        self.register_buffer("packed", torch.randint(0, 256, (n, k // 2), dtype=torch.uint8))
        self.scale, self.group = nn.Parameter(torch.rand(n, 1) / 99), nn.Parameter(torch.rand(n, 3) / 9)

    def forward(self, x: Any, mask: Any) -> Any:
        y = x @ (self.w.to(x.dtype) * self.scale).T
        low, high = (self.packed & 15).to(x.dtype) - 8, (self.packed >> 4).to(x.dtype) - 8
        w = torch.stack([low, high], -1).flatten(1).view(-1, 3, 8) * self.group[..., None]
        z = x @ w.flatten(1).mT
        most = x.abs().amax(-1, keepdim=True) / 127
        q = (x / most).round().clamp(-128, 127).to(torch.int8)
        exact = (q.to(torch.int32)[:, None] * self.w.to(torch.int32)).sum(-1)
        both = mask & ~mask.flip(0) | (mask ^ mask[:1])
        return y * both, z, exact.to(x.dtype) * most * self.scale.T, both.sum(0), mask.any(1), mask.all(0), exact


class Choices(nn.Module):
    """Numbers, strings, None and flags decide what is computed; lists grow; a counter of Python in the model."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.ModuleList(nn.Linear(5, 5) for _ in range(3))
        self.calls = 0

    def forward(self, x: Any, mode: str = "sum", depth: int = 2, mask: Any = None, **rest: Any) -> Any:
        self.calls += 1
        made = []
        for lin in self.lin[:depth]:
            x = F.gelu(lin(x), approximate="tanh" if mode == "sum" else "none")
            made.append(x)
        if mask is not None:
            made = [m.masked_fill(mask, 0.0) for m in made]
        if mode == "stack":
            return torch.stack(made), rest.get("tag"), None
        return sum(made) * rest.get("gain", 1.0)


def _choices() -> list[Any]:
    x, mask = torch.randn(3, 5), torch.rand(3, 5) > 0.5
    return [call(x), call(x), call(x, "stack"), call(x, "stack", 3, mask, tag="a"), call(x, depth=1, gain=2.0),
            call(torch.randn(7, 5), depth=1, gain=2.5),
            call(x, mask=mask, mode="stack", tag=None), call(x)]  # fmt: skip


class Nested(nn.Module):
    """What others ship: an encoder and decoder of `nn.Transformer`, packed sequences, a bilinear layer, losses."""

    def __init__(self, d: int = 8) -> None:
        super().__init__()
        self.net = nn.Transformer(d, 2, 1, 1, 16, batch_first=True, activation="gelu", norm_first=True)
        self.rnn = nn.LSTM(d, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.bilinear, self.loss = nn.Bilinear(d, 10, 3), nn.CTCLoss(zero_infinity=True)

    def forward(self, source: Any, target: Any) -> Any:
        hide = torch.zeros(source.shape[:2], dtype=torch.bool)
        hide[0, -1] = True
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1]).to(target.dtype)
        h = self.net(source, target, tgt_mask=causal, src_key_padding_mask=hide, tgt_is_causal=True)
        s, (last, _) = self.rnn(h)
        y = self.bilinear(h, s).log_softmax(-1)
        weight = torch.tensor([0.2, 0.3, 0.5]).to(y)
        soft = F.kl_div(y, y.flip(1), log_target=True, reduction="batchmean")
        nll = F.cross_entropy(y.flatten(0, 1), y.argmin(-1).flatten(), weight, label_smoothing=0.1)
        return y, last, soft, nll, F.huber_loss(h, target, delta=0.4), F.cosine_similarity(h, target, -1)


class Signals(nn.Module):
    """Audio and text: dilated gated convolutions with skips, snake, strided differences, pooling of a mask's rows."""

    def __init__(self, c: int = 6) -> None:
        super().__init__()
        self.inp = nn.Conv1d(1, c, 7, stride=3, bias=False)
        self.gated = nn.ModuleList(nn.Conv1d(c, 2 * c, 3, dilation=2**i, padding=2**i) for i in range(3))
        self.skips = nn.ModuleList(nn.Conv1d(c, c, 1) for _ in range(3))
        self.alpha, self.up = nn.Parameter(torch.rand(c, 1) + 0.5), nn.ConvTranspose1d(c, 1, 7, 3)
        self.prelu, self.norm = nn.PReLU(c), nn.GroupNorm(1, c)

    def forward(self, x: Any) -> Any:
        h, total = self.norm(self.inp(x[:, None])), 0
        for gated, skip in zip(self.gated, self.skips):
            a, b = gated(h).chunk(2, 1)
            y = skip(a.tanh() * b.sigmoid())
            h, total = (h + y) * math.sqrt(0.5), total + y
        total = total + (self.alpha * total).sin().square() / self.alpha
        y = self.up(self.prelu(total)).squeeze(1)
        envelope = F.max_pool1d(y.abs()[:, None], 5, 2, padding=2, ceil_mode=True)[:, 0]
        return y, envelope, y.unfold(-1, 8, 3).std(-1), y.view(y.shape[0], -1).roll(2, -1).flip(-1).cumsum(-1)[:, ::5]


class Rays(nn.Module):
    """Rendering: positions in frequencies, a skip layer, densities along rays, transmittance, inverse sampling."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(27, 16), nn.Linear(16 + 27, 16), nn.Linear(16, 4)

    def forward(self, origin: Any, direction: Any, n: int = 9) -> Any:
        depth = torch.linspace(0.5, 2.0, n).to(origin)
        at = origin[:, None] + F.normalize(direction, dim=-1)[:, None] * depth[:, None]
        bands = 2.0 ** torch.arange(4).to(origin) * at[..., None]
        e = torch.cat([at, bands.sin().flatten(-2), bands.cos().flatten(-2)], -1)
        out = self.c(self.b(torch.cat([self.a(e).relu(), e], -1)).relu())
        alpha = 1 - (-F.softplus(out[..., 0]) * depth.diff(append=depth[-1:] + 0.1)).exp()
        light = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        weight = alpha * light
        cdf = F.pad((weight + 1e-5).cumsum(-1) / (weight + 1e-5).sum(-1, keepdim=True), (1, 0))
        u = torch.linspace(0.1, 0.9, 5).to(cdf).expand(len(cdf), 5).contiguous()
        place = torch.searchsorted(cdf, u, right=True).clamp(1, n)
        low, high = cdf.gather(1, place - 1), cdf.gather(1, place)
        fine = depth[place - 1] + (u - low) / (high - low) * (depth[1] - depth[0])
        return (weight[..., None] * out[..., 1:].sigmoid()).sum(1), (weight * depth).sum(-1), fine


class Molecules(nn.Module):
    """Pairs within a distance as edges of a dense mask, radial bases, equivariant updates of positions."""

    def __init__(self, d: int = 6) -> None:
        super().__init__()
        self.embed, self.message, self.move = nn.Embedding(9, d), nn.Linear(2 * d + 5, d), nn.Linear(d, 1, bias=False)

    def forward(self, kinds: Any, at: Any) -> Any:
        h = self.embed(kinds)
        for _ in range(2):
            delta = at[:, :, None] - at[:, None]
            r = (delta.square().sum(-1) + 1e-6).sqrt()
            near = (r < 2.5) & ~torch.eye(r.shape[-1], dtype=torch.bool) & (kinds > 0)[:, None]
            basis = torch.exp(-((r[..., None] - torch.arange(5).to(r)) ** 2))
            n = h.shape[1]
            both = torch.cat([h[:, :, None].expand(-1, -1, n, -1), h[:, None].expand(-1, n, -1, -1), basis], -1)
            m = F.silu(self.message(both)) * near[..., None]
            h = h + m.sum(2)
            at = at + (delta / (r[..., None] + 1) * self.move(m)).mean(2)
        return h.sum(1), at, torch.linalg.norm(at - at.mean(1, keepdim=True), dim=-1)


def fill(sessions: dict[str, Any]) -> None:
    sessions.update(
        transforms=lambda: Session(Transforms(), [call(torch.randn(b, 4)) for b in (3, 3, 1, 6)]),
        mixing=lambda: Session(Mixing(), [call(torch.randn(b, n, 6)) for b, n in ((2, 8), (2, 8), (2, 5), (1, 31))],
            typed=True),
        undefined=lambda: Session(Undefined(), [call(x := torch.randn(n, 7), x > 0) for n in (4, 4, 2, 9)]),
        letters=lambda: Session(Letters(), [call(torch.randn(3, n, 4), torch.randn(4, 5)) for n in (3, 3, 5)]),
        contexts=lambda: Session(Contexts(), [call(torch.randn(3, 6)), call(torch.randn(3, 6), scale=2.0),
            call(torch.randn(5, 6), scale=2.5, extras=[torch.randn(8), torch.randn(5, 1)])], exact=False, typed=True),
        normalized=lambda: Session(Normalized().eval(), [call(torch.randn(b, 3, n)) for b, n in ((2, 7), (2, 7),
            (1, 4), (17, 7))]),
        memory=lambda: Session(Memory().eval(), _memories()),
        memory_written=lambda: Session(Memory().train(), [c for c in _memories() if c.args[0].numel()]),
        bits=lambda: Session(Bits(), [call(torch.randn(b, 24), torch.rand(b, 16) > 0.5) for b in (3, 3, 1, 9)]),
        choices=lambda: Session(Choices(), _choices()),
        nested=lambda: Session(Nested().eval(), [call(torch.randn(b, n, 8), torch.randn(b, m, 8))
            for b, n, m in ((2, 5, 4), (2, 5, 4), (1, 9, 3))]),
        signals=lambda: Session(Signals(), [call(torch.randn(b, n)) for b, n in ((2, 100), (2, 100), (1, 61),
            (3, 333))]),
        rays=lambda: Session(Rays(), [call(torch.randn(b, 3), torch.randn(b, 3), *n) for b, n in ((4, ()), (4, ()),
            (4, (12,)), (9, (12,)), (1, ()))]),
        molecules=lambda: Session(Molecules(), [call(torch.randint(0, 9, (b, n)), torch.randn(b, n, 3))
            for b, n in ((2, 5), (2, 5), (1, 8), (3, 1))]),
    )  # fmt: skip
