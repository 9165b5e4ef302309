"""Sessions with models as users of 2026 write them: decoders with caches, speculation, beams, filters, chains, scans.

Fills the list of `session_zoo`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.conformance.session import Session, call


def rotate(x: Any, cos: Any, sin: Any) -> Any:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class GroupedBlock(nn.Module):
    """RMS norm, rotary grouped-query attention over a cache that is written in place, SwiGLU."""

    def __init__(self, width: int = 24, heads: int = 4, kv: int = 2, most: int = 40) -> None:
        super().__init__()
        self.heads, self.kv, self.d = heads, kv, width // heads
        self.n1, self.n2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q = nn.Linear(width, heads * self.d, bias=False)
        self.k, self.v = (nn.Linear(width, kv * self.d, bias=False) for _ in range(2))
        self.o = nn.Linear(width, width, bias=False)
        self.up, self.gate, self.down = nn.Linear(width, 52), nn.Linear(width, 52), nn.Linear(52, width)
        self.register_buffer("keys", torch.zeros(2, kv, most, self.d))
        self.register_buffer("values", torch.zeros(2, kv, most, self.d))

    def forward(self, x: Any, at: Any, cos: Any, sin: Any) -> Any:
        b, n, _ = x.shape
        h = self.n1(x)
        q, k, v = (m(h).view(b, n, -1, self.d).transpose(1, 2) for m in (self.q, self.k, self.v))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        self.keys[:b].index_copy_(2, at, k)
        self.values[:b].index_copy_(2, at, v)
        mask = torch.arange(self.keys.shape[2], device=x.device) <= at[:, None]
        y = F.scaled_dot_product_attention(q, self.keys[:b], self.values[:b], attn_mask=mask, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, n, -1))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Generator(nn.Module):
    """A decoder called with a prompt, then token by token, then with several drafted tokens to verify."""

    def __init__(self, words: int = 31, width: int = 24) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(GroupedBlock(width) for _ in range(2))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("rates", 1e4 ** -(torch.arange(3) / 3), persistent=False)

    def forward(self, ids: Any, at: Any) -> Any:
        angle = (at[:, None].to(self.rates.dtype) * self.rates).repeat(1, 2)
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, at, angle.cos(), angle.sin())
        return self.head(self.norm(x[:, -3:]))


def _generation() -> list[Any]:
    def one(begin: int, n: int, b: int = 2) -> Any:
        return call(torch.randint(0, 31, (b, n)), torch.arange(begin, begin + n))

    return [one(0, 7), one(7, 1), one(8, 1), one(9, 1), one(10, 4), one(14, 1), one(0, 13), one(13, 1, 1)]


class Speculation(nn.Module):
    """Verifies drafted tokens: which are accepted, how many, and what is drawn instead of the first refused."""

    def forward(self, draft: Any, target: Any, tokens: Any, u: Any) -> Any:
        p, q = target.softmax(-1), draft.softmax(-1)
        at = tokens[..., None]
        ratio = (p[:, :-1].gather(-1, at) / q.gather(-1, at)).squeeze(-1).clamp(max=1)
        kept = (u < ratio).long().cumprod(-1)
        count = kept.sum(-1)
        rest = torch.cat([(p[:, :-1] - q).clamp(min=0), p[:, -1:]], 1)
        rest = rest / rest.sum(-1, keepdim=True)
        row = rest[torch.arange(len(count)), count]
        picked = (row.cumsum(-1) < 0.5).sum(-1)
        out = torch.cat([tokens, torch.zeros_like(tokens[:, :1])], 1)
        out = out.masked_fill(torch.arange(out.shape[1]) > count[:, None], -1)
        return out.scatter(1, count[:, None], picked[:, None]), count


def _drafts() -> list[Any]:
    def one(b: int, n: int) -> Any:
        target = torch.randn(b, n + 1, 11)
        draft = target[:, :-1] + 0.3 * torch.randn(b, n, 11)
        return call(draft, target, torch.randint(0, 11, (b, n)), torch.rand(b, n) * 0.9)

    return [one(2, 4), one(2, 4), one(1, 5), one(3, 1)]


class Kalman(nn.Module):
    """A filter over time: predict, gain by `linalg.solve`, update; innovations' log-likelihood."""

    def __init__(self, n: int = 4, m: int = 2) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.eye(n) + 0.1 * torch.randn(n, n))
        self.h, self.logs = nn.Parameter(torch.randn(m, n)), nn.Parameter(torch.zeros(n))

    def forward(self, z: Any, s: Any) -> Any:
        p = torch.eye(4).to(z).expand(z.shape[0], 4, 4)
        total, kept = z.new_zeros(z.shape[0]), []
        for step in z.unbind(1):
            s = s @ self.a.mT
            p = self.a @ p @ self.a.mT + torch.diag(self.logs.exp())
            r = self.h @ p @ self.h.mT + torch.eye(2).to(z)
            det = r[:, 0, 0] * r[:, 1, 1] - r[:, 0, 1] * r[:, 1, 0]
            inverse = torch.stack([r[:, 1, 1], -r[:, 0, 1], -r[:, 1, 0], r[:, 0, 0]], -1).view(-1, 2, 2)
            inverse = inverse / det[:, None, None]
            gain = p @ self.h.mT @ inverse
            e = step - s @ self.h.mT
            total = total - 0.5 * (torch.einsum("bi,bij,bj->b", e, inverse, e) + det.log())
            s = s + torch.einsum("bij,bj->bi", gain, e)
            p = p - gain @ self.h @ p
            kept.append(s)
        return torch.stack(kept, 1), p, total


class Crf(nn.Module):
    """The forward algorithm and Viterbi of a chain over tags, with masks for lengths."""

    def __init__(self, words: int = 23, tags: int = 5) -> None:
        super().__init__()
        self.embed, self.rnn = nn.Embedding(words, 8, padding_idx=0), nn.GRU(8, 6, bidirectional=True, batch_first=True)
        self.emit = nn.Linear(12, tags)
        self.start, self.end = nn.Parameter(torch.randn(tags)), nn.Parameter(torch.randn(tags))
        self.move = nn.Parameter(torch.randn(tags, tags))

    def forward(self, ids: Any, tags: Any = None) -> Any:
        mask = ids != 0
        e = self.emit(self.rnn(self.embed(ids))[0])
        alpha = self.start + e[:, 0]
        best, back = alpha, []
        for t in range(1, ids.shape[1]):
            scores = alpha[:, :, None] + self.move + e[:, t, None]
            alpha = torch.where(mask[:, t, None], scores.logsumexp(1), alpha)
            top, place = (best[:, :, None] + self.move).max(1)
            best = torch.where(mask[:, t, None], top + e[:, t], best)
            back.append(place)
        z = torch.logsumexp(alpha + self.end, -1)
        path = [(best + self.end).argmax(-1)]
        for t in range(ids.shape[1] - 1, 0, -1):
            before = back[t - 1].gather(1, path[0][:, None]).squeeze(1)
            path.insert(0, torch.where(mask[:, t], before, path[0]))
        found = torch.stack(path, 1).masked_fill(~mask, -1)
        if tags is None:
            return found, None
        at = e.gather(-1, tags[..., None]).squeeze(-1) * mask
        moves = self.move[tags[:, :-1], tags[:, 1:]] * mask[:, 1:]
        last = tags.gather(1, mask.sum(1, keepdim=True) - 1).squeeze(1)
        return found, z - (self.start[tags[:, 0]] + at.sum(1) + moves.sum(1) + self.end[last])


def _sentences() -> list[Any]:
    def one(b: int, n: int, tagged: bool) -> Any:
        ids = torch.randint(1, 23, (b, n))
        for i in range(b):
            ids[i, max(1, n - i) :] = 0
        return call(ids, torch.randint(0, 5, (b, n))) if tagged else call(ids)

    return [one(3, 6, True), one(3, 6, True), one(2, 6, False), one(1, 1, True), one(4, 9, True)]


class Beams(nn.Module):
    """One step of beam search: scores of beams and words, the best of both, reordered histories and caches."""

    def forward(self, logits: Any, scores: Any, history: Any, cache: list[Any], done: Any) -> Any:
        b, k, v = logits.shape
        p = logits.float().log_softmax(-1)
        only = torch.full_like(p, -math.inf)
        only[..., 0] = 0.0
        p = torch.where(done[..., None], only, p)
        repeated = history[..., None] == torch.arange(v)
        p = p - 0.5 * repeated.any(-2).to(p.dtype)
        best, place = (scores[..., None] + p).view(b, k * v).topk(k, -1)
        beam, word = place // v, place % v
        history = torch.cat([history.gather(1, beam[..., None].expand_as(history)), word[..., None]], -1)
        cache = [c.gather(1, beam[:, :, None, None].expand_as(c)) for c in cache]
        return best, history, cache, done.gather(1, beam) | (word == 0)


def _beams() -> list[Any]:
    def one(b: int, k: int, n: int) -> Any:
        cache = [torch.randn(b, k, n, 3), torch.randn(b, k, n, 3)]
        scores = torch.randn(b, k)
        return call(torch.randn(b, k, 17), scores, torch.randint(0, 17, (b, k, n)), cache, torch.rand(b, k) > 0.7)

    return [one(2, 3, 4), one(2, 3, 5), one(2, 3, 6), one(1, 4, 1)]


class Horizon(nn.Module):
    """A temporal fusion transformer in small: variable selection, an LSTM, gated residuals, quantiles."""

    def __init__(self, d: int = 8, v: int = 3) -> None:
        super().__init__()
        self.lift = nn.ModuleList(nn.Linear(1, d) for _ in range(v))
        self.weigh = nn.Linear(v * d, v)
        self.encode, self.decode = nn.LSTM(d, d, batch_first=True), nn.LSTM(d, d, batch_first=True)
        self.gate, self.norm = nn.Linear(d, 2 * d), nn.LayerNorm(d)
        self.attention = nn.MultiheadAttention(d, 2, batch_first=True)
        self.quantiles = nn.Linear(d, 3)

    def select(self, x: Any) -> Any:
        parts = [m(x[..., i : i + 1]) for i, m in enumerate(self.lift)]
        weight = self.weigh(torch.cat(parts, -1)).softmax(-1)
        return (torch.stack(parts, -1) * weight[..., None, :]).sum(-1), weight

    def forward(self, past: Any, future: Any) -> dict[str, Any]:
        (a, weight), (b, _) = self.select(past), self.select(future)
        before, state = self.encode(a)
        after, _ = self.decode(b, state)
        h = torch.cat([before, after], 1)
        h = self.norm(F.glu(self.gate(h)) + torch.cat([a, b], 1))
        n, m = h.shape[1], b.shape[1]
        mask = torch.triu(torch.ones(n, n, dtype=torch.bool), 1)[-m:]
        y, p = self.attention(h[:, -m:], h, h, attn_mask=mask, need_weights=True, average_attn_weights=False)
        return {"quantiles": self.quantiles(y + h[:, -m:]), "weights": weight, "attention": p}


class Mamba(nn.Module):
    """A selective scan by hand: convolution over time, steps that depend on the input, a state kept for the next."""

    def __init__(self, d: int = 6, n: int = 4) -> None:
        super().__init__()
        self.inp, self.conv = nn.Linear(d, 4 * d), nn.Conv1d(2 * d, 2 * d, 4, groups=2 * d, padding=3)
        self.dt, self.bc = nn.Linear(2 * d, 2 * d), nn.Linear(2 * d, 2 * n, bias=False)
        self.a = nn.Parameter(torch.log(torch.arange(1.0, n + 1)).repeat(2 * d, 1))
        self.skip, self.out = nn.Parameter(torch.ones(2 * d)), nn.Linear(2 * d, d)

    def forward(self, x: Any, state: Any = None) -> Any:
        u, z = self.inp(x).chunk(2, -1)
        u = F.silu(self.conv(u.mT)[..., : x.shape[1]].mT)
        dt = F.softplus(self.dt(u))
        b, c = self.bc(u).chunk(2, -1)
        decay = (dt[..., None] * -self.a.exp()).exp()
        fed = (dt * u)[..., None] * b[:, :, None]
        h = torch.zeros_like(fed[:, 0]) if state is None else state
        made = []
        for t in range(x.shape[1]):
            h = decay[:, t] * h + fed[:, t]
            made.append((h * c[:, t, None]).sum(-1))
        y = torch.stack(made, 1) + u * self.skip
        return self.out(y * F.silu(z)), h


def fill(sessions: dict[str, Any]) -> None:
    sessions.update(
        generator=lambda: Session(Generator(), _generation()),
        speculation=lambda: Session(Speculation(), _drafts()),
        kalman=lambda: Session(Kalman(), [call(torch.randn(b, n, 2), torch.randn(b, 4)) for b, n in ((3, 5), (3, 5),
            (1, 5), (3, 2))]),
        crf=lambda: Session(Crf(), _sentences()),
        beams=lambda: Session(Beams(), _beams(), typed=True),
        horizon=lambda: Session(Horizon().eval(), [call(torch.randn(b, n, 3), torch.randn(b, m, 3))
            for b, n, m in ((2, 7, 3), (2, 7, 3), (1, 7, 3), (4, 5, 1))]),
        mamba=lambda: Session(Mamba(), [call(torch.randn(2, 5, 6)), call(torch.randn(2, 5, 6)),
            call(torch.randn(2, 1, 6), torch.randn(2, 12, 4)), call(torch.randn(2, 1, 6), torch.randn(2, 12, 4)),
            call(torch.randn(1, 9, 6), torch.randn(1, 12, 4))]),
    )  # fmt: skip
