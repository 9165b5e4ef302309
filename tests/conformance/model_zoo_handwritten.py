"""Models as newcomers write them: graphs, diffusion, speech, experts, caches, complex numbers, loops over time.

Fills the same list as `model_zoo`. Arguments may be changed by a model: each call gets its own.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.conformance.model_zoo import image, put, tokens


class GraphConvolution(nn.Module):
    """Messages along edges, summed by `index_add`, averaged by `scatter_reduce`; sums over graphs of a batch."""

    def __init__(self, width: int = 19) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(7, width), nn.Linear(2 * width, width)
        self.edge, self.out = nn.Linear(3, width), nn.Linear(width, 4)

    def forward(self, x: Any, edges: Any, features: Any, graph: Any) -> Any:
        source, target = edges
        h = self.first(x).relu()
        message = h[source] * torch.sigmoid(self.edge(features))
        summed = torch.zeros_like(h).index_add(0, target, message)
        mean = torch.zeros_like(h).scatter_reduce(
            0, target[:, None].expand_as(message), message, "mean", include_self=False
        )
        h = h + self.second(torch.cat([summed, mean], -1)).tanh()
        pooled = torch.zeros(3, h.shape[1], dtype=h.dtype).index_add_(0, graph, h)
        return self.out(pooled).log_softmax(-1)


class GraphAttention(nn.Module):
    """Softmax over the edges of each node by `scatter_reduce(amax)` and `scatter_add_`."""

    def __init__(self, heads: int = 3, width: int = 5) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.lin = nn.Linear(7, heads * width, bias=False)
        self.a = nn.Parameter(torch.randn(2, heads, width))

    def forward(self, x: Any, edges: Any) -> Any:
        h = self.lin(x).view(-1, self.heads, self.width)
        left, right = (h * self.a[0]).sum(-1), (h * self.a[1]).sum(-1)
        e = F.leaky_relu(left[edges[0]] + right[edges[1]], 0.2)
        place = edges[1][:, None].expand_as(e)
        top = torch.full((x.shape[0], self.heads), -math.inf, dtype=e.dtype).scatter_reduce(0, place, e, "amax")
        p = (e - top[edges[1]]).exp()
        total = torch.zeros(x.shape[0], self.heads, dtype=e.dtype).scatter_add_(0, place, p)
        weight = p / (total[edges[1]] + 1e-9)
        out = torch.zeros_like(h).index_add_(0, edges[1], h[edges[0]] * weight[..., None])
        return F.elu(out.flatten(1))


def _graph() -> tuple[Any, Any, Any, Any]:
    return torch.randn(11, 7), torch.randint(0, 11, (2, 29)), torch.randn(29, 3), torch.randint(0, 3, (11,))


class DiffusionBlock(nn.Module):
    """A UNet of one level: time embedding, group norm, SiLU, self- and cross-attention, down and up, a skip."""

    def __init__(self, c: int = 16) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(c, 2 * c), nn.SiLU(), nn.Linear(2 * c, c))
        self.inp, self.down, self.up = nn.Conv2d(3, c, 3, padding=1), nn.Conv2d(c, c, 3, 2, 1), nn.Conv2d(c, c, 3, 1, 1)
        self.n1, self.n2, self.n3 = nn.GroupNorm(4, c), nn.GroupNorm(4, c), nn.GroupNorm(4, 2 * c)
        self.c1, self.c2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.attention = nn.MultiheadAttention(c, 4, batch_first=True)
        self.cross = nn.MultiheadAttention(c, 2, kdim=9, vdim=9, batch_first=True)
        self.out = nn.Conv2d(2 * c, 3, 1)

    def forward(self, x: Any, t: Any, context: Any) -> Any:
        half = 8
        frequency = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32) / half)
        angle = t[:, None].float() * frequency
        emb = self.time(torch.cat([angle.cos(), angle.sin()], -1).to(x.dtype))
        skip = self.inp(x)
        h = self.c1(F.silu(self.n1(self.down(skip)))) + emb[:, :, None, None]
        b, c, height, width = h.shape
        rows = self.n2(h).flatten(2).transpose(1, 2)
        rows = rows + self.attention(rows, rows, rows, need_weights=False)[0]
        rows = rows + self.cross(rows, context, context)[0]
        h = h + self.c2(rows.transpose(1, 2).reshape(b, c, height, width))
        h = self.up(F.interpolate(h, size=skip.shape[-2:], mode="nearest"))
        return self.out(F.silu(self.n3(torch.cat([h, skip], 1))))


class Autoencoder(nn.Module):
    """A variational one, its noise given: strided and transposed convolutions, batch norm, the two losses."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.LeakyReLU(0.1), nn.Conv2d(8, 12, 3, 2, 1), nn.Mish()
        )
        self.mu, self.logvar, self.back = nn.Linear(588, 5), nn.Linear(588, 5), nn.Linear(5, 588)
        self.up = nn.Sequential(
            nn.ConvTranspose2d(12, 8, 3, 2, 1, output_padding=1), nn.BatchNorm2d(8), nn.ReLU(),
            nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: Any, noise: Any) -> Any:
        h = self.down(x).flatten(1)
        mu, logvar = self.mu(h), self.logvar(h).clamp(-5, 5)
        z = mu + noise * torch.exp(0.5 * logvar)
        y = self.up(self.back(z).unflatten(1, (12, 7, 7)))
        divergence = -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum(1)
        return y, divergence, F.binary_cross_entropy(y, x.sigmoid(), reduction="none").mean((1, 2, 3))


class Joint(nn.Module):
    """Of an RNN transducer: each time with each label, through a tanh."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.LSTM(13, 17, 2, batch_first=True, bidirectional=True)
        self.predictor = nn.GRU(11, 15, batch_first=True)
        self.embed = nn.Embedding(31, 11)
        self.enc, self.pred, self.out = nn.Linear(34, 23), nn.Linear(15, 23), nn.Linear(23, 32)

    def forward(self, sound: Any, labels: Any) -> Any:
        a = self.enc(self.encoder(sound)[0])
        b = self.pred(self.predictor(self.embed(labels))[0])
        return self.out(torch.tanh(a[:, :, None] + b[:, None])).log_softmax(-1)


class Scan(nn.Module):
    """A selective state space in a Python loop over time, with a causal depthwise convolution before it."""

    def __init__(self, d: int = 12, n: int = 5) -> None:
        super().__init__()
        self.inp, self.conv = nn.Linear(d, 2 * d), nn.Conv1d(d, d, 4, groups=d, padding=3)
        self.bc, self.dt, self.out = nn.Linear(d, 2 * n), nn.Linear(d, d), nn.Linear(d, d)
        self.log_a, self.skip = nn.Parameter(torch.rand(d, n)), nn.Parameter(torch.ones(d))

    def forward(self, x: Any) -> Any:
        length = x.shape[1]
        u, z = self.inp(x).chunk(2, -1)
        u = F.silu(self.conv(u.mT)[..., :length].mT)
        b, c = self.bc(u).chunk(2, -1)
        dt = F.softplus(self.dt(u))
        decay = torch.exp(-dt[..., None] * self.log_a.exp())
        add = (dt * u)[..., None] * b[:, :, None]
        state, made = torch.zeros_like(add[:, 0]), []
        for t in range(length):
            state = decay[:, t] * state + add[:, t]
            made.append((state * c[:, t, None]).sum(-1))
        return self.out((torch.stack(made, 1) + u * self.skip) * F.silu(z))


class Experts(nn.Module):
    """Routing by `topk`, one-hot masks and a loop over experts with `torch.where`, and a weighted sum of all."""

    def __init__(self, experts: int = 5, d: int = 12) -> None:
        super().__init__()
        self.gate = nn.Linear(d, experts, bias=False)
        self.up, self.down = nn.Parameter(torch.randn(experts, d, 3 * d)), nn.Parameter(torch.randn(experts, 3 * d, d))

    def forward(self, x: Any) -> Any:
        flat = x.flatten(0, 1)
        weight, chosen = self.gate(flat).softmax(-1).topk(2, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        share = torch.zeros(flat.shape[0], self.up.shape[0], dtype=x.dtype).scatter_(1, chosen, weight)
        h = F.gelu(torch.einsum("td,edf->tef", flat, self.up))
        y = torch.einsum("tef,efd,te->td", h, self.down, share)
        load = F.one_hot(chosen, self.up.shape[0]).sum((0, 1))
        return y.view_as(x), load, (share * share.mean(0)).sum()


class ExpertLoop(Experts):
    """The same with rows chosen by `where` and written back by `index_add_`: shapes depend on values."""

    def forward(self, x: Any) -> Any:
        flat = x.flatten(0, 1)
        weight, chosen = self.gate(flat).softmax(-1).topk(2, -1)
        y = torch.zeros_like(flat)
        for e in range(self.up.shape[0]):
            row, slot = torch.where(chosen == e)
            if row.numel() == 0:
                continue
            h = F.gelu(flat[row] @ self.up[e]) @ self.down[e]
            y.index_add_(0, row, h * weight[row, slot, None])
        return y.view_as(x)


class ComplexRotary(nn.Module):
    """Queries and keys turned as complex numbers, keys repeated for groups of heads, a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(24, 24 + 2 * 8, bias=False), nn.Linear(24, 24)

    def forward(self, x: Any) -> Any:
        b, n, _ = x.shape
        q, k, v = self.qkv(x).split([24, 8, 8], -1)
        angle = torch.outer(torch.arange(n).float(), 1 / 100 ** (torch.arange(0, 4).float() / 4))
        turn = torch.polar(torch.ones_like(angle), angle)

        def rotate(t: Any) -> Any:
            pairs = torch.view_as_complex(t.float().reshape(*t.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * turn[:, None]).flatten(-2).to(t.dtype)

        q, k = rotate(q.view(b, n, 3, 8)), rotate(k.view(b, n, 1, 8)).expand(b, n, 3, 8)
        s = torch.einsum("bqhd,bkhd->bhqk", q, k) / 8**0.5
        s = s.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
        return self.out(torch.einsum("bhqk,bkd->bqhd", s.softmax(-1), v).reshape(b, n, 24))


class Einsums(nn.Module):
    """Products of three tensors, outer products, diagonals, sums that share no letter."""

    def __init__(self) -> None:
        super().__init__()
        self.u, self.w = nn.Parameter(torch.randn(6, 5, 4)), nn.Parameter(torch.randn(4, 7))

    def forward(self, x: Any, y: Any) -> Any:
        a = torch.einsum("bi,ijk,bk->bj", x, self.u, y)
        b = torch.einsum("bj,kl->bjkl", a, self.w)
        c = torch.einsum("bjkl,bjml->bkm", b, b)
        d = torch.einsum("bkk->bk", c) + torch.einsum("bkm->b", c)[:, None]
        e = torch.einsum("bi,bj->ij", x, y) @ self.w
        return a, c / 10, torch.einsum("...k,kl", d, self.w), e, torch.einsum("bk,kl,ml->bm", d, self.w, e)


class Branches(nn.Module):
    """Goes another way by a value, and stops early."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.step = nn.Linear(9, 9), nn.Linear(9, 9), nn.Linear(9, 9)

    def forward(self, x: Any) -> Any:
        h = self.a(x).relu() if x.mean() > 0 else self.b(x).tanh()
        rounds = 0
        while rounds < 5 and h.abs().max() < 4:
            h = h + self.step(h).tanh()
            rounds += 1
        return h, torch.tensor(rounds)


class Cache(nn.Module):
    """Decodes three steps: keys and values written into buffers in place, by slices, `index_copy_` and `scatter_`."""

    def __init__(self, d: int = 12, room: int = 10) -> None:
        super().__init__()
        self.qkv, self.embed, self.head = nn.Linear(d, 3 * d), nn.Embedding(23, d), nn.Linear(d, 23)
        self.register_buffer("keys", torch.zeros(2, room, d))
        self.register_buffer("values", torch.zeros(2, room, d))
        self.register_buffer("seen", torch.zeros(2, 23))

    def forward(self, ids: Any, start: Any) -> Any:
        made = []
        for step in range(ids.shape[1]):
            at = start + step
            q, k, v = self.qkv(self.embed(ids[:, step])).chunk(3, -1)
            self.keys.index_copy_(1, at.reshape(1), k[:, None])
            self.values[:, at] = v
            s = torch.einsum("bd,bnd->bn", q, self.keys) / q.shape[-1] ** 0.5
            s = s.masked_fill(torch.arange(self.keys.shape[1]) > at, -1e9)
            logits = self.head(torch.einsum("bn,bnd->bd", s.softmax(-1), self.values))
            self.seen.scatter_add_(1, ids[:, step, None], torch.ones_like(logits[:, :1]))
            made.append(logits - 0.5 * self.seen)
        return torch.stack(made, 1), self.keys.clone(), self.seen.clone()


class InPlace(nn.Module):
    """Writes through views, slices, masks and `out=`; returns a view of what it wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)

    def forward(self, x: Any) -> Any:
        y = self.conv(x)
        y[:, ::2] *= 2
        y[..., 1:-1, 1:-1].add_(1).relu_()
        top = y.view(y.shape[0], -1)
        top[top > 1] = 1.0
        y.transpose(2, 3)[:, 1].copy_(y[:, 0].mT if y.shape[2] == y.shape[3] else y.transpose(2, 3)[:, 0])
        pad = torch.empty_like(y)
        torch.mul(y, y, out=pad)
        pad[0, 0].fill_(0.25)
        return y[:, 1:4], pad.flip(1).cumsum(-1)


class Boxes(nn.Module):
    """What detectors do after their heads: anchors, overlaps of all pairs, matching, softmax focal weights."""

    def forward(self, boxes: Any, others: Any, scores: Any) -> Any:
        def corners(b: Any) -> Any:
            centre, size = b[..., :2], b[..., 2:].exp()
            return torch.cat([centre - size / 2, centre + size / 2], -1)

        a, b = corners(boxes), corners(others)
        low, high = torch.maximum(a[:, None, :2], b[None, :, :2]), torch.minimum(a[:, None, 2:], b[None, :, 2:])
        both = (high - low).clamp(min=0).prod(-1)
        area = [(c[:, 2:] - c[:, :2]).prod(-1) for c in (a, b)]
        overlap = both / (area[0][:, None] + area[1] - both)
        best, which = overlap.max(1)
        p = scores.sigmoid()
        focal = -(p[:, 0] ** 2) * (1 - p[:, 0]).clamp_min(1e-6).log()
        order = scores[:, 0].argsort(descending=True)
        return overlap, best, b[which], focal, a[order][:5], torch.bucketize(best, torch.linspace(0, 1, 5).to(best))


class Spectrum(nn.Module):
    """A spectrogram by windows as a product with cosines and sines, mel bands, a mean over time without gaps."""

    def __init__(self) -> None:
        super().__init__()
        t = torch.arange(32) * torch.arange(17)[:, None] * (2 * math.pi / 32)
        self.register_buffer("basis", torch.cat([t.cos(), t.sin()]) * torch.hann_window(32))
        self.mel, self.norm = nn.Linear(17, 9, bias=False), nn.InstanceNorm1d(9, affine=True)
        self.depth = nn.Conv1d(9, 18, 5, groups=9, dilation=2, padding="same", padding_mode="reflect")

    def forward(self, x: Any, lengths: Any) -> Any:
        frames = F.pad(x[:, None], (16, 16), mode="reflect")[:, 0].unfold(-1, 32, 10)
        parts = frames @ self.basis.mT
        power = parts[..., :17] ** 2 + parts[..., 17:] ** 2
        h = self.depth(self.norm(torch.log1p(self.mel(power).abs()).mT))
        keep = torch.arange(h.shape[-1]) < (lengths // 10)[:, None]
        h = torch.where(keep[:, None], h, torch.nan)
        return h.nanmean(-1), h.nan_to_num(-1).amax(-1), F.adaptive_avg_pool1d(h.nan_to_num(0), 4)


class Pointwise(nn.Module):
    """Functions and types that few models have together: integers, bits, rounding, comparisons, mixed types."""

    def forward(self, x: Any, n: Any) -> Any:
        h = torch.hypot(x, x.roll(1, 0)) + torch.special.erfcx(x.clamp(-2, 2)) + torch.logaddexp(x, -x)
        q = torch.clamp((x * 16).round(), -128, 127).to(torch.int8)
        bits = ((n[..., None] >> torch.arange(8)) & 1).flip(-1)
        packed = (bits.cumprod(-1) * 2 ** torch.arange(8)).sum(-1)
        s = torch.where(x.isclose(x.floor()), x.sign(), torch.atan2(x, h)).frac()
        z = torch.lerp(h, s, 0.3) + n.remainder(7) // 2 - torch.fmod(x, 0.7) + (n > 3) * 1.5
        top = torch.stack([h.amax(0), h.argmax(0).to(h.dtype), h.std(0), h.var(0, correction=0), h.logsumexp(0)])
        return (
            z,
            q.to(x.dtype) / 16,
            packed,
            top,
            h.cummax(0)[0],
            torch.searchsorted(x[:, 0].sort()[0], x[:, 1].contiguous()),
        )


def _fill() -> None:
    put("hand_graph_convolution", lambda: (GraphConvolution(), _graph()))
    put("hand_graph_attention", lambda: (GraphAttention(), _graph()[:2]))
    put("hand_diffusion", lambda: (DiffusionBlock(), (image(3, 3, 13, 11), torch.tensor([1, 20, 500]),
                                                      torch.randn(3, 5, 9))))  # fmt: skip
    put("hand_autoencoder", lambda: (Autoencoder(), (image(3, 1, 28, 28), torch.randn(3, 5))))
    put("hand_transducer", lambda: (Joint(), (torch.randn(3, 9, 13), tokens(3, 5, 31))))
    put("hand_scan", lambda: (Scan(), (torch.randn(3, 11, 12),)))
    put("hand_experts", lambda: (Experts(), (torch.randn(3, 7, 12),)))
    put("hand_expert_loop", lambda: (ExpertLoop(), (torch.randn(3, 7, 12),)))
    put("hand_complex_rotary", lambda: (ComplexRotary(), (torch.randn(3, 7, 24),)))
    put("hand_einsums", lambda: (Einsums(), (torch.randn(3, 6), torch.randn(3, 4))))
    put("hand_branches", lambda: (Branches(), (torch.randn(3, 9),)))
    put("hand_cache", lambda: (Cache(), (tokens(2, 3, 23), torch.tensor(4))))
    put("hand_in_place", lambda: (InPlace(), (image(3, 3, 9, 9),)))
    put("hand_boxes", lambda: (Boxes(), (torch.randn(9, 4), torch.randn(7, 4), torch.randn(9, 3))))
    put("hand_spectrum", lambda: (Spectrum(), (torch.randn(3, 333), torch.tensor([333, 100, 201]))))
    put("hand_pointwise", lambda: (Pointwise(), (torch.randn(9, 5), torch.randint(0, 255, (9, 5)))))


_fill()
