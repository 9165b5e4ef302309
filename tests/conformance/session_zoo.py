"""Models as newcomers write them, in sessions of several calls: what `model_zoo_handwritten` has none of."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils import parametrizations

from tests.conformance import session_zoo_sequences, session_zoo_users, session_zoo_ways
from tests.conformance.session import SESSIONS, Session, call
from tests.conformance.session_zoo_numbers import NUMBERS


class ChunkedScan(nn.Module):
    """A diagonal state space by chunks: decays within a chunk as a triangle, states between chunks in a loop."""

    def __init__(self, d: int = 6, n: int = 4, chunk: int = 4) -> None:
        super().__init__()
        self.chunk, self.inp, self.log_a = chunk, nn.Linear(d, d + 2 * n + 1), nn.Parameter(torch.rand(1))

    def forward(self, x: Any) -> Any:
        b, length, d = x.shape
        n = 4
        x = F.pad(x, (0, 0, 0, -length % self.chunk))
        v, key, query, dt = self.inp(x).unflatten(1, (-1, self.chunk)).split([d, n, n, 1], -1)
        steps = -F.softplus(dt[..., 0]) * self.log_a.exp()
        total = steps.cumsum(-1)
        span = total[..., :, None] - total[..., None, :]
        triangle = torch.ones(self.chunk, self.chunk, dtype=torch.bool).tril()
        decay = span.masked_fill(~triangle, -math.inf).exp()
        within = torch.einsum("bcin,bcjn,bcij,bcjd->bcid", query, key, decay, v)
        state, made = torch.zeros(b, n, d, dtype=x.dtype), []
        for c in range(v.shape[1]):
            made.append(torch.einsum("bin,bnd,bi->bid", query[:, c], state, total[:, c].exp()))
            left = (total[:, c, -1:] - total[:, c]).exp()
            state = state * total[:, c, -1].exp()[:, None, None] + torch.einsum(
                "bjn,bjd,bj->bnd", key[:, c], v[:, c], left
            )
        return (within + torch.stack(made, 1)).flatten(1, 2)[:, :length], state


class Capacity(nn.Module):
    """Experts that take so many rows each: places by cumsum of one-hot choices, the rest dropped."""

    def __init__(self, d: int = 8, experts: int = 3) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(d, experts), nn.ModuleList(nn.Linear(d, d) for _ in range(experts))

    def forward(self, x: Any) -> Any:
        p, chosen = self.gate(x).softmax(-1).topk(1, -1)
        hot = F.one_hot(chosen[:, 0], len(self.experts))
        place = hot.cumsum(0) * hot - 1
        keep = (place < 3) & (place >= 0)
        slots = torch.zeros(x.shape[0], 3, dtype=x.dtype)
        room = slots[:, None].expand(-1, len(self.experts), -1).scatter(2, place.clamp(0, 2)[..., None], 1.0)
        room = room * keep[..., None]
        boxes = torch.einsum("tes,td->esd", room, x)
        made = torch.stack([e(box).relu() for e, box in zip(self.experts, boxes)])
        return torch.einsum("tes,esd->td", room, made) * p, keep.any(1), hot.sum(0)


class Ode(nn.Module):
    """Runge-Kutta steps of an MLP; how many and how far are arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Sequential(nn.Linear(6, 17), nn.Tanh(), nn.Linear(17, 5))

    def slope(self, t: Any, y: Any) -> Any:
        return self.f(torch.cat([y, y.new_full((y.shape[0], 1), t)], 1))

    def forward(self, y: Any, steps: int = 2, until: float = 1.0) -> Any:
        h, path = until / steps, [y]
        for n in range(steps):
            t = n * h
            a = self.slope(t, y)
            b = self.slope(t + h / 2, y + a * (h / 2))
            c = self.slope(t + h / 2, y + b * (h / 2))
            y = y + (a + 2 * b + 2 * c + self.slope(t + h, y + c * h)) * (h / 6)
            path.append(y)
        return torch.stack(path), steps


class Volumes(nn.Module):
    """3D: grouped, transposed and dilated convolutions, pools of two kinds, trilinear resizing."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv3d(2, 6, 3, padding=1, groups=2), nn.Conv3d(6, 4, (1, 3, 3), dilation=(1, 2, 2))
        self.up, self.norm = nn.ConvTranspose3d(4, 3, 2, stride=2), nn.BatchNorm3d(6)

    def forward(self, x: Any) -> Any:
        h = F.max_pool3d(self.norm(self.a(x)).relu(), 2, ceil_mode=True)
        y = self.up(self.b(F.pad(h, (2, 2, 2, 2))))
        big = F.interpolate(y, size=x.shape[2:], mode="trilinear", align_corners=False)
        return big, F.adaptive_avg_pool3d(y, (1, 2, None))


class Deformed(nn.Module):
    """Pixels taken where a convolution says, by `grid_sample`; and turned by `affine_grid`."""

    def __init__(self) -> None:
        super().__init__()
        self.offset, self.theta = nn.Conv2d(3, 2, 3, padding=1), nn.Parameter(torch.eye(2, 3) + 0.1 * torch.randn(2, 3))

    def forward(self, x: Any) -> Any:
        grid = F.affine_grid(self.theta.expand(x.shape[0], 2, 3), list(x.shape), align_corners=False)
        moved = grid + self.offset(x).permute(0, 2, 3, 1).tanh() * 0.3
        near = F.grid_sample(x, grid, mode="nearest", padding_mode="border", align_corners=True)
        return F.grid_sample(x, moved, padding_mode="reflection", align_corners=False), near


class ComplexFilter(nn.Module):
    """A filter in frequencies with complex weights, and products of complex matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.real = nn.Parameter(torch.randn(3, 9, dtype=torch.cfloat)), nn.Linear(16, 16)

    def forward(self, x: Any) -> Any:
        h = torch.fft.rfft(self.real(x)) * self.w
        gram = h @ h.mH
        return torch.fft.irfft(h, n=16), gram.abs(), gram.angle().cos(), (gram * (1 + 2j)).real


class Shuffle(nn.Module):
    """Channel shuffle, pixel shuffle, squeeze and excitation, a stem without bias."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 12, 3, 2, 1, bias=False)
        self.b, self.c = nn.Conv2d(12, 12, 1, groups=3), nn.Conv2d(12, 12, 3, padding=1, groups=12)
        self.s, self.e = nn.Linear(12, 4), nn.Linear(4, 12)

    def forward(self, x: Any) -> Any:
        h = self.b(self.a(x))
        b, c, height, width = h.shape
        h = h.view(b, 3, c // 3, height, width).transpose(1, 2).reshape(b, c, height, width)
        h = self.c(F.hardswish(h))
        gate = F.hardsigmoid(self.e(self.s(h.mean((2, 3))).relu()))
        return F.pixel_shuffle(h * gate[:, :, None, None], 2), F.pixel_unshuffle(x[..., :4, :4], 2)


class Tied(nn.Module):
    """A decoder whose output weights are its embedding, with learned positions and a loss over shifted tokens."""

    def __init__(self, d: int = 16, words: int = 29) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(words, d, padding_idx=0), nn.Parameter(torch.randn(128, d) * 0.1)
        layer = nn.TransformerEncoderLayer(d, 2, 24, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(d), enable_nested_tensor=False)
        self.head = nn.Linear(d, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Any, *, labels: Any = None) -> Any:
        n = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(n, dtype=self.place.dtype)
        h = self.layers(self.embed(ids) * 4.0 + self.place[:n], mask=mask, is_causal=True)
        logits = self.head(h)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=0)
        return {"loss": loss, "logits": logits, "hidden": (h, None)}


class Hyper(nn.Module):
    """Weights of a convolution and of a linear layer, computed from another input, for each image its own."""

    def __init__(self) -> None:
        super().__init__()
        self.make, self.mix = nn.Linear(5, 4 * 3 * 9), nn.Linear(5, 4 * 4)

    def forward(self, x: Any, z: Any) -> Any:
        b, _, height, width = x.shape
        kernel = self.make(z).view(b * 4, 3, 3, 3)
        h = F.conv2d(x.reshape(1, b * 3, height, width), kernel, padding=1, groups=b).view(b, 4, height, width)
        return torch.baddbmm(h.flatten(2), self.mix(z).view(b, 4, 4), h.flatten(2).sigmoid(), alpha=0.5)


class _Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, levels: int) -> Any:
        ctx.save_for_backward(x)
        return (x * levels).round() / levels

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * (x.abs() < 1), None


class StraightThrough(nn.Module):
    """Vector quantization: nearest of a codebook, a custom gradient, and a straight-through sum."""

    def __init__(self) -> None:
        super().__init__()
        self.inp, self.book = nn.Linear(4, 6), nn.Embedding(11, 6)

    def forward(self, x: Any) -> Any:
        h = _Round.apply(self.inp(x).tanh(), 8)
        far = torch.cdist(h, self.book.weight)
        code = far.argmin(-1)
        q = self.book(code)
        return h + (q - h).detach(), code, F.mse_loss(q, h.detach()) + 0.25 * F.mse_loss(q.detach(), h)


class Normed(nn.Module):
    """Weight norm, spectral norm and orthogonal weights, as parametrizations."""

    def __init__(self) -> None:
        super().__init__()
        self.a = parametrizations.weight_norm(nn.Conv1d(3, 6, 3, padding=1))
        self.b = parametrizations.spectral_norm(nn.Linear(6, 5))
        self.c = parametrizations.orthogonal(nn.Linear(5, 5, bias=False))

    def forward(self, x: Any) -> Any:
        return self.c(self.b(self.a(x).relu().mT))


class Vmapped(nn.Module):
    """An ensemble by `vmap` over stacked weights and `functional_call`."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 2))
        self.stacked = nn.ParameterDict(
            {k.replace(".", "_"): nn.Parameter(torch.randn(3, *v.shape)) for k, v in self.one.named_parameters()}
        )

    def forward(self, x: Any) -> Any:
        weights = {k: self.stacked[k.replace(".", "_")] for k, _ in self.one.named_parameters()}
        made = torch.func.vmap(lambda w: torch.func.functional_call(self.one, w, (x,)))(weights)
        return made.mean(0), made.var(0)


class Running(nn.Module):
    """Averages of what was seen in buffers, counted, written in place; batch norm that learns."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(5, momentum=0.3)
        self.register_buffer("mean", torch.zeros(5))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.register_buffer("past", torch.zeros(4, 5), persistent=False)

    def forward(self, x: Any) -> Any:
        y = self.norm(x)
        self.seen += 1
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        self.past = torch.roll(self.past, 1, 0)
        self.past[0] = x[0]
        return y - self.mean, self.seen.clone()


class Masked(nn.Module):
    """Attention where whole rows are masked: NaN as eager has them, and zeros for them."""

    def forward(self, q: Any, k: Any, mask: Any) -> Any:
        s = (q @ k.mT).masked_fill(mask, -math.inf)
        p = s.softmax(-1)
        both = torch.where(mask.all(-1, keepdim=True), 0.0, p)
        sdpa = F.scaled_dot_product_attention(q, k, k, attn_mask=~mask)
        return p, both @ k, sdpa, s.logsumexp(-1), s.amax(-1)


class Bytes(nn.Module):
    """Images of bytes, normalized inside; labels of int8; bits."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, 2)
        self.register_buffer("mean", torch.tensor([0.48, 0.45, 0.4])[:, None, None])

    def forward(self, x: Any, s: Any) -> Any:
        h = self.conv((x.to(self.mean.dtype) / 255 - self.mean) / 0.25)
        back = (h * 64 + 128).clamp(0, 255).round().to(torch.uint8)
        return back, (x + x), x // 3, x.float().mean((2, 3)), x.sum(), s * s, s - 3, (s >> 1) ^ 5, x > 200, ~x


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class Found:
    boxes: Any
    count: int
    extra: Any = None


class Outputs(nn.Module):
    """Named tuples, dataclasses, dicts, None, numbers, an input as it is, and the same result twice."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x: Any, pair: Any, *, more: Any, flag: bool = True) -> Any:
        h = self.a(x) + pair.left[0] * more["s"]
        return {
            "pair": Pair(h, x), "found": Found(h > 0, 3), "none": None, "same": [h, h, more["s"]],
            "view": x[:, 1:3], "flag": flag, "name": "outputs", "empty": [],
        }  # fmt: skip


class Aliases(nn.Module):
    """Inputs that are one another's memory, expanded and turned around; writes to one are seen in the other."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 6)

    def forward(self, x: Any, y: Any) -> Any:
        h = self.a(x) + y
        x.relu_()
        return h, x + y, y


class Rnd(nn.Module):
    """Dropout of three kinds and noise in training, as drawn by eager."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.d, self.d2, self.d3 = nn.Linear(8, 8), nn.Dropout(0.4), nn.Dropout1d(0.3), nn.AlphaDropout(0.2)

    def forward(self, x: Any) -> Any:
        h = self.d(self.a(x).relu())
        return self.d2(h[None])[0] + self.d3(h) + 0.1 * torch.randn_like(h), torch.rand(3), torch.randperm(5)


def _images(*batches: int) -> list[Any]:
    return [call(torch.randn(b, 3, 9 + b, 12)) for b in batches]


def _rows(width: int, *lengths: int, batch: int = 2) -> list[Any]:
    return [call(torch.randn(batch, n, width)) for n in lengths]


def _outputs() -> list[Any]:
    def one(n: int, s: float, **named: Any) -> Any:
        pair = Pair([torch.randn(n, 4)], torch.ones(2))
        return call(torch.randn(n, 4), pair, more={"s": torch.tensor(s), "unused": None}, **named)

    return [one(3, 2.0), one(3, 3.0), one(1, -1.0, flag=False), one(5, 0.5)]


def _alias_calls() -> list[Any]:
    def one(make: Callable[[Any], tuple[Any, Any]]) -> Any:
        return call(*make(torch.randn(6, 6)))

    return [one(lambda t: (t, t.clone())), one(lambda t: (t, t)), one(lambda t: (t, t.mT)), one(lambda t: (t, t[0])),
            one(lambda t: (t.mT, t[:1].expand(6, 6))), one(lambda t: (t[::2, :].clone()[:, ::1], t[1:4]))]  # fmt: skip


def _masks() -> list[Any]:
    calls = []
    for n in (5, 5, 1, 17):
        mask = torch.rand(2, n, n) > 0.5
        mask[0, n // 2] = True
        calls.append(call(torch.randn(2, n, 8), torch.randn(2, n, 8), mask))
    return calls


def _bytes() -> list[Any]:
    return [call(torch.randint(0, 256, (b, 3, 9, 11), dtype=torch.uint8), torch.randint(-128, 128, (7,),
            dtype=torch.int8)) for b in (1, 3, 3, 2)]  # fmt: skip


def _words(*sizes: tuple[int, int]) -> list[Any]:
    made = [torch.randint(0, 29, size) for size in sizes]
    return [call(made[0]), *(call(ids, labels=ids) for ids in made), call(made[0])]


def fill() -> None:
    """Puts all into `SESSIONS`."""
    SESSIONS.update(NUMBERS)
    for more in (session_zoo_sequences, session_zoo_users, session_zoo_ways):
        more.fill(SESSIONS)
    SESSIONS.update(
        chunked_scan=lambda: Session(ChunkedScan(), _rows(6, 9, 8, 1, 17)),
        capacity=lambda: Session(Capacity(), [call(torch.randn(n, 8)) for n in (9, 9, 1, 14)]),
        ode=lambda: Session(Ode(), [call(torch.randn(3, 5)), call(torch.randn(3, 5), 3), call(torch.randn(3, 5), 1),
            call(torch.randn(1, 5), steps=2, until=0.25), call(torch.randn(3, 5), until=0.5)]),
        volumes=lambda: Session(Volumes().eval(), [call(torch.randn(b, 2, 5, 9, 7)) for b in (1, 3, 2)]),
        deformed=lambda: Session(Deformed(), _images(1, 3, 3)),
        complex_filter=lambda: Session(ComplexFilter(), [call(torch.randn(n, 3, 16)) for n in (2, 2, 5)]),
        shuffle=lambda: Session(Shuffle(), _images(1, 3, 7, 3)),
        tied=lambda: Session(Tied().eval(), _words((2, 7), (2, 1), (3, 17), (1, 128))),
        hyper=lambda: Session(Hyper(), [call(torch.randn(b, 3, 8, 9), torch.randn(b, 5)) for b in (3, 3, 1, 4)]),
        straight_through=lambda: Session(StraightThrough(), _rows(4, 5, 5, 1, 33)),
        normed=lambda: Session(Normed().eval(), [call(torch.randn(b, 3, 7)) for b in (2, 2, 5)]),
        vmapped=lambda: Session(Vmapped(), [call(torch.randn(b, 4)) for b in (3, 3, 1, 8)]),
        running=lambda: Session(Running(), [call(torch.randn(b, 5)) for b in (4, 4, 4, 9, 2)]),
        running_eval=lambda: Session(Running(), [call(torch.randn(4, 5)), lambda m: m.eval(), call(torch.randn(4, 5)),
            call(torch.randn(1, 5)), lambda m: m.train(), call(torch.randn(3, 5))]),
        masked=lambda: Session(Masked(), _masks()),
        bytes=lambda: Session(Bytes(), _bytes()),
        outputs=lambda: Session(Outputs(), _outputs()),
        aliases=lambda: Session(Aliases(), _alias_calls(), exact=False),
        random=lambda: Session(Rnd(), [*[call(torch.randn(b, 8)) for b in (3, 3, 5)], lambda m: m.eval(),
            call(torch.randn(3, 8))], exact=False),
    )  # fmt: skip
