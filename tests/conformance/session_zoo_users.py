"""Sessions with models as users of 2026 write them: experts, images, diffusion, recommenders, tables, matching.

Fills the list of `session_zoo`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.conformance.session import Session, call


class RoutedExperts(nn.Module):
    """Experts as batches: tokens sorted by expert, taken by gather into rows of capacity, put back by index_add."""

    def __init__(self, width: int = 8, experts: int = 5, hidden: int = 12) -> None:
        super().__init__()
        self.route = nn.Linear(width, experts, bias=False)
        self.first = nn.Parameter(torch.randn(experts, width, 2 * hidden) / 3)
        self.second = nn.Parameter(torch.randn(experts, hidden, width) / 3)

    def forward(self, x: Any) -> Any:
        flat = x.reshape(-1, x.shape[-1])
        weight, chosen = self.route(flat).softmax(-1).topk(2, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        hot = F.one_hot(chosen, self.route.out_features).to(x.dtype)
        share = torch.einsum("nk,nke->ne", weight, hot)
        a, b = torch.einsum("nd,edh->neh", flat, self.first).chunk(2, -1)
        every = torch.einsum("neh,ehd->ned", F.silu(a) * b, self.second)
        picked = every.gather(1, chosen[..., None].expand(-1, -1, every.shape[-1]))
        balance = share.mean(0) * (share > 0).to(x.dtype).mean(0)
        return (picked * weight[..., None]).sum(1).view_as(x), balance.sum() * self.route.out_features, chosen


class Deformable(nn.Module):
    """Deformable attention: points around references, sampled from several levels by `grid_sample`."""

    def __init__(self, width: int = 12, heads: int = 3, levels: int = 2, points: int = 4) -> None:
        super().__init__()
        self.heads, self.levels, self.points = heads, levels, points
        self.offset = nn.Linear(width, heads * levels * points * 2)
        self.weight = nn.Linear(width, heads * levels * points)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, query: Any, where: Any, maps: list[Any]) -> Any:
        b, n, _ = query.shape
        offset = self.offset(query).view(b, n, self.heads, self.levels, self.points, 2)
        weight = self.weight(query).view(b, n, self.heads, -1).softmax(-1)
        weight = weight.view(b, n, self.heads, self.levels, self.points)
        total = 0
        for level, image in enumerate(maps):
            h, w = image.shape[-2:]
            v = self.value(image.flatten(2).transpose(1, 2)).view(b, h * w, self.heads, -1)
            v = v.permute(0, 2, 3, 1).reshape(b * self.heads, -1, h, w)
            grid = where[:, :, None, None] + offset[:, :, :, level] / torch.tensor([w, h]).to(query)
            grid = (2 * grid - 1).transpose(1, 2).flatten(0, 1)
            taken = F.grid_sample(v, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
            share = weight[:, :, :, level].transpose(1, 2).flatten(0, 1)[:, None]
            total = total + (taken * share).sum(-1)
        return self.out(total.view(b, -1, n).transpose(1, 2))


def _deformable() -> list[Any]:
    return [call(torch.randn(b, n, 12), torch.rand(b, n, 2), [torch.randn(b, 12, 7, 9), torch.randn(b, 12, 3, 5)])
            for b, n in ((1, 6), (2, 6), (2, 11), (1, 6))]  # fmt: skip


class Residual(nn.Module):
    def __init__(self, c: int, d: int, t: int) -> None:
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(3, c), nn.GroupNorm(3, d)
        self.c1, self.c2 = nn.Conv2d(c, d, 3, padding=1), nn.Conv2d(d, d, 3, padding=1)
        self.time, self.skip = nn.Linear(t, 2 * d), nn.Conv2d(c, d, 1) if c != d else nn.Identity()

    def forward(self, x: Any, t: Any) -> Any:
        scale, shift = self.time(F.silu(t))[..., None, None].chunk(2, 1)
        h = self.n2(self.c1(F.silu(self.n1(x)))) * (1 + scale) + shift
        return self.skip(x) + self.c2(F.silu(h))


class Denoiser(nn.Module):
    """A U-Net of three levels at odd sizes, sinusoidal times, attention in the middle, guidance by a doubled batch."""

    def __init__(self, c: int = 12) -> None:
        super().__init__()
        self.t = nn.Sequential(nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, 4 * c))
        self.inp = nn.Conv2d(3, c, 3, padding=1)
        self.downs = nn.ModuleList([Residual(c, c, 4 * c), Residual(c, 2 * c, 4 * c)])
        self.ups = nn.ModuleList([Residual(4 * c, c, 4 * c), Residual(2 * c, c, 4 * c)])
        self.norm, self.qkv, self.proj = nn.GroupNorm(4, 2 * c), nn.Conv2d(2 * c, 6 * c, 1), nn.Conv2d(2 * c, 2 * c, 1)
        self.out = nn.Conv2d(c, 3, 3, padding=1)
        self.label = nn.Embedding(7, 4 * c)

    def attend(self, x: Any) -> Any:
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, 3, 2, c // 2, h * w).unbind(1)
        s = torch.einsum("bhci,bhcj->bhij", q, k) * (c // 2) ** -0.5
        return x + self.proj(torch.einsum("bhij,bhcj->bhci", s.softmax(-1), v).reshape(b, c, h, w))

    def forward(self, x: Any, t: Any, label: Any, *, guidance: float = 3.0) -> Any:
        rate = torch.exp(-math.log(1e4) * torch.arange(6) / 6).to(x)
        angle = t.to(x.dtype)[:, None] * rate
        e = self.t(torch.cat([angle.sin(), angle.cos()], -1))
        e = torch.cat([e + self.label(label), e + self.label(torch.zeros_like(label))])
        h, kept = self.inp(torch.cat([x, x])), []
        for block in self.downs:
            h = block(h, e)
            kept.append(h)
            h = F.avg_pool2d(h, 2, ceil_mode=True, count_include_pad=False)
        h = self.attend(h)
        for block in self.ups:
            skip = kept.pop()
            h = block(torch.cat([F.interpolate(h, size=skip.shape[-2:], mode="nearest"), skip], 1), e)
        yes, no = self.out(F.silu(h)).chunk(2)
        return no + guidance * (yes - no)


def _noises() -> list[Any]:
    def one(b: int, h: int, w: int, **named: Any) -> Any:
        return call(torch.randn(b, 3, h, w), torch.randint(0, 999, (b,)), torch.randint(0, 7, (b,)), **named)

    return [one(1, 13, 9), one(1, 13, 9), one(3, 13, 9), one(2, 8, 15, guidance=1.5), one(1, 13, 9, guidance=1.5)]


class Recommender(nn.Module):
    """DLRM: bags of embeddings with offsets and weights, products of all pairs, crossed features."""

    def __init__(self, d: int = 6) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(n, d, mode=m) for n, m in ((11, "sum"), (7, "mean"), (29, "max")))
        self.single = nn.EmbeddingBag(13, d, mode="sum")
        self.bottom = nn.Sequential(nn.Linear(5, 9), nn.ReLU(), nn.Linear(9, d), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(d + 10, 8), nn.ReLU(), nn.Linear(8, 1))
        self.cross = nn.Linear(d, d)

    def forward(self, dense: Any, ids: dict[str, Any], weight: Any) -> Any:
        x = self.bottom(dense)
        found = [
            x,
            *(bag(i) for bag, i in zip(self.bags, ids.values())),
            self.single(weight[0], per_sample_weights=weight[1]),
        ]
        t = torch.stack(found, 1)
        pairs = t @ t.mT
        i, j = torch.tril_indices(5, 5, offset=-1)
        crossed = x * self.cross(x) + x
        return self.top(torch.cat([crossed, pairs[:, i, j]], -1)).sigmoid().squeeze(-1)


def _clicks() -> list[Any]:
    def one(b: int) -> Any:
        ids = {"a": torch.randint(0, 11, (b, 3)), "b": torch.randint(0, 7, (b, 2)), "c": torch.randint(0, 29, (b, 4))}
        return call(torch.randn(b, 5), ids, (torch.randint(0, 13, (b, 2)), torch.rand(b, 2)))

    return [one(4), one(4), one(1), one(17), one(0)]


class Sparsemax(nn.Module):
    """TabNet: masks by sparsemax of sorted rows, ghost batch norm, gated layers, an entropy of the masks."""

    def __init__(self, n: int = 9, d: int = 4) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(n)
        self.shared = nn.Linear(n, 2 * 2 * d, bias=False)
        self.own = nn.ModuleList(nn.Sequential(nn.Linear(2 * d, 4 * d), nn.BatchNorm1d(4 * d)) for _ in range(3))
        self.pick = nn.ModuleList(nn.Linear(d, n) for _ in range(3))
        self.d, self.out = d, nn.Linear(d, 2)

    @staticmethod
    def sparsemax(z: Any) -> Any:
        s, _ = z.sort(-1, descending=True)
        k = torch.arange(1, z.shape[-1] + 1).to(z)
        total = s.cumsum(-1) - 1
        size = (k * s > total).sum(-1, keepdim=True)
        return (z - total.gather(-1, size - 1) / size.to(z.dtype)).clamp_min(0)

    def forward(self, x: Any) -> Any:
        x = self.norm(x)
        prior, total, entropy = torch.ones_like(x), 0.0, 0.0
        h = F.glu(self.shared(x)) * math.sqrt(0.5)
        for own, pick in zip(self.own, self.pick):
            mask = self.sparsemax(pick(h[:, self.d :]) * prior)
            prior = prior * (1.3 - mask)
            entropy = entropy - (mask * (mask + 1e-10).log()).sum(-1).mean()
            h = F.glu(self.shared(mask * x)) * math.sqrt(0.5)
            h = (h + F.glu(own(h))) * math.sqrt(0.5)
            total = total + h[:, : self.d].relu()
        return self.out(total), entropy, prior


class Found(NamedTuple):
    boxes: Any
    scores: Any
    kept: Any


class Matcher(nn.Module):
    """Sinkhorn's assignment in logarithms, a soft minimum by dynamic programming, boxes kept by masks."""

    def forward(self, a: Any, b: Any) -> Found:
        cost = torch.cdist(a, b)
        m = -cost / 0.3
        for _ in range(5):
            m = m - m.logsumexp(-1, keepdim=True)
            m = m - m.logsumexp(-2, keepdim=True)
        n, k = cost.shape[-2:]
        rows = [[None] * (k + 1) for _ in range(n + 1)]
        far = torch.full_like(cost[:, 0, 0], 1e4)
        for i in range(n + 1):
            for j in range(k + 1):
                if i == 0 or j == 0:
                    rows[i][j] = torch.zeros_like(far) if i == j else far
                else:
                    three = torch.stack([rows[i - 1][j], rows[i][j - 1], rows[i - 1][j - 1]], -1)
                    rows[i][j] = cost[:, i - 1, j - 1] - 0.1 * torch.logsumexp(-three / 0.1, -1)
        return Found(m.exp(), rows[n][k], cost < cost.mean((-1, -2), keepdim=True))


class Resampler(nn.Module):
    """Resizing of all kinds by odd factors, unfold and fold, pixel shuffles, reflections, uneven pools."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 8, 3, padding=1, padding_mode="circular")
        self.up = nn.ConvTranspose2d(8, 4, 4, stride=3, padding=1, output_padding=1, groups=2)

    def forward(self, x: Any) -> Any:
        h = self.conv(x)
        a = F.interpolate(h, scale_factor=1.7, mode="bilinear")
        b = F.interpolate(h, size=(5, 11), mode="bicubic", align_corners=True)
        c = F.interpolate(h, scale_factor=(0.6, 2.3), mode="bilinear", antialias=True)
        d = F.interpolate(h, size=7, mode="nearest-exact")
        patches = F.unfold(h, (3, 2), dilation=(1, 2), padding=1, stride=(2, 1))
        size = (h.shape[-2], h.shape[-1])
        e = F.fold(patches * patches.sigmoid(), size, (3, 2), dilation=(1, 2), padding=1, stride=(2, 1))
        f = F.pixel_shuffle(h, 2)
        g = F.pixel_unshuffle(F.pad(f, (1, 2 + f.shape[-1] % 3, 2, 1), mode="reflect")[..., :6, :6], 3)
        k = F.adaptive_max_pool2d(h, (3, 4), return_indices=True)
        m = F.max_unpool2d(*F.max_pool2d(h, 2, return_indices=True), 2, output_size=size)
        return a, b, c, d, e, f, g, *k, m, self.up(h).amin((1, 2)), F.lp_pool2d(h.abs(), 3, 2)


def fill(sessions: dict[str, Any]) -> None:
    sessions.update(
        routed_experts=lambda: Session(RoutedExperts(), [call(torch.randn(b, n, 8)) for b, n in ((2, 5), (2, 5),
            (1, 1), (3, 7), (1, 0))]),
        deformable=lambda: Session(Deformable(), _deformable()),
        denoiser=lambda: Session(Denoiser(), _noises()),
        recommender=lambda: Session(Recommender(), _clicks()),
        sparsemax=lambda: Session(Sparsemax().eval(), [call(torch.randn(b, 9)) for b in (4, 4, 1, 13)]),
        sparsemax_training=lambda: Session(Sparsemax().train(), [call(torch.randn(b, 9)) for b in (4, 4, 13)]),
        matcher=lambda: Session(Matcher(), [call(torch.randn(2, n, 3), torch.randn(2, m, 3)) for n, m in ((3, 4),
            (3, 4), (5, 2))]),
        resampler=lambda: Session(Resampler(), [call(torch.randn(b, 2, h, w)) for b, h, w in ((1, 9, 7), (1, 9, 7),
            (3, 9, 7), (2, 6, 13))]),
    )  # fmt: skip
