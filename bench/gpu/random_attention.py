"""Attentions and their gradients at random, against PyTorch's in the same run: what falls off the fast way shows.

>>> python -m bench.gpu.random_attention --seed 1 --count 40 [--jobs 12]

Sizes, widths, types, layouts, heads that share keys, formulas of scores are drawn. PyTorch computes plain and masked
ones, and those with a bias, by `scaled_dot_product_attention`, others as formulas. All are compiled in ``jobs``
processes first, then timed one after another; the slowest in comparison come last.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import weft
from bench.gpu.measure import times_of

WIDTHS = (64, 64, 128, 128, 32, 40, 48, 72, 80, 96, 100, 112, 160, 192, 256)
#: What is done with a scaled score ``x``, the same in PyTorch, and what its gradient is multiplied with.
SCORES = {
    "plain": "{x}",
    "causal": "s + {o} >= t ? {x} : -1e999",
    "window": "s + {o} >= t && s + {o} - t < {w} ? {x} : -1e999",
    "ALiBi": "{x} + (t - s) * 0.0625",
    "soft cap": "20.0 * tanh({x} * 0.05)",
    "bias": "{x} + float32(A(h,s,t))",
    "padding": "t < N(b) ? {x} : -1e999",
}
FORWARD = """def attention({inputs}) -> ({type}({q}) O) {{
    X(b,h,s,t) +=! float32(Q({qi})) * float32(K({ki}))
    C(b,h,s,t) = {score}
    M(b,h,s) max=! C(b,h,s,t)
    W(b,h,s,t) = exp(C(b,h,s,t) - M(b,h,s))
    L(b,h,s) +=! W(b,h,s,t)
    U(b,h,s,e) +=! W(b,h,s,t) * float32(V({vi}))
    O({oi}) = {type}(U(b,h,s,e) / L(b,h,s))
}}"""
BACKWARD = """def gradient({inputs}, {type}({q}) O, {type}({q}) dO, float32(B,H,S) L) -> ({outputs}) {{
    X(b,h,s,t) +=! float32(Q({qi})) * float32(K({ki}))
    C(b,h,s,t) = {score}
    P(b,h,s,t) = exp(C(b,h,s,t) - L(b,h,s))
    R(b,h,s) +=! float32(dO({oi})) * float32(O({oi}))
    Y(b,h,s,t) +=! float32(dO({oi})) * float32(V({vi}))
    F(b,h,s,t) = P(b,h,s,t) * (Y(b,h,s,t) - R(b,h,s))
    Z(b,h,s,t) = {slope}
    UV({vg}) +=! P(b,{hg},s,t) * float32(dO({og})){where}
    UK({kg}) +=! Z(b,{hg},s,t) * float32(Q({qg})){where}
    UQ({qi}) +=! Z(b,h,s,t) * float32(K({ki}))
    dV({vg}) = {type}(UV({vg}))
    dK({kg}) = {type}(UK({kg}) * {scale})
    dQ({qi}) = {type}(UQ({qi}) * {scale}){bias}
}}"""


@dataclass(frozen=True)
class Case:
    dtype: str
    score: str
    backward: bool
    heads_first: bool
    b: int
    h: int
    each: int
    s: int
    t: int
    d: int
    e: int
    window: int

    def __str__(self) -> str:
        shape = f"{self.b}x{self.h}/{self.each}x{self.s}x{self.t}x{self.d}" + (f"/{self.e}" if self.e != self.d else "")
        order = "" if self.heads_first else ", heads inside"
        return f"{'gradient ' if self.backward else ''}{self.score} {shape} {self.dtype}{order}"

    @property
    def before(self) -> int:
        return self.t - self.s

    def _list(self, axes: str) -> str:
        return ",".join(axes if self.heads_first else axes[0] + axes[2] + axes[1] + axes[3:])

    def text(self) -> str:
        named = {"type": self.dtype, "scale": f"{self.d**-0.5:.9f}", "q": self._list("BHSE"), "qi": self._list("bhsd"),
                 "ki": self._list("bgtd"), "vi": self._list("bgte"), "oi": self._list("bhse")}  # fmt: skip
        inputs = [
            f"{self.dtype}({self._list(axes)}) {name}" for name, axes in (("Q", "BHSD"), ("K", "BGTD"), ("V", "BGTE"))
        ]
        inputs += [f"{self.dtype}(H,S,T) A"] if self.score == "bias" else []
        inputs += ["int32(B) N"] if self.score == "padding" else []
        x = f"X(b,h,s,t) * {named['scale']}"
        named |= {"inputs": ", ".join(inputs), "score": SCORES[self.score].format(x=x, o=self.before, w=self.window)}
        named |= {"kg": named["ki"], "vg": named["vi"], "hg": "g", "qg": self._list("bgsd"), "og": self._list("bgse")}
        named |= {"where": "", "bias": ""}
        if self.each > 1:
            head = f"g*{self.each}+r"
            named |= {name: named[name].replace("g", f"h/{self.each}") for name in ("ki", "vi")}
            named |= {name: named[name].replace("g", head) for name in ("hg", "qg", "og")}
            named["where"] = f" where r in 0:{self.each}"
        else:
            named |= {name: named[name].replace("g", "h") for name in ("ki", "vi", "kg", "vg", "hg", "qg", "og")}
        return self._backward(named) if self.backward else FORWARD.format(**named)

    def _backward(self, named: dict[str, str]) -> str:
        gradient = "F(b,h,s,t)"
        slope = gradient
        if self.score == "soft cap":
            slope = f"{gradient} * (1.0 - C(b,h,s,t) * C(b,h,s,t) * 0.0025)"
        shapes = (("dQ", "BHSD"), ("dK", "BGTD"), ("dV", "BGTE"))
        outputs = [f"{self.dtype}({self._list(axes)}) {name}" for name, axes in shapes]
        if self.score == "bias":
            outputs.append("float32(H,S,T) dA")
            named["bias"] = f"\n    dA(h,s,t) +=! {gradient}"
        return BACKWARD.format(**named, slope=slope, outputs=", ".join(outputs))

    def arguments(self, torch: Any) -> list[Any]:
        """With what the forward pass gives, for the backward one."""
        dtype, groups = getattr(torch, self.dtype), self.h // self.each
        sizes = ((self.h, self.s, self.d), (groups, self.t, self.d), (groups, self.t, self.e), (self.h, self.s, self.e))
        q, k, v, g = (torch.randn(self.b, *n, device="cuda", dtype=dtype) for n in sizes)
        made = [q, k, v]
        if self.score == "bias":
            made.append(torch.randn(self.h, self.s, self.t, device="cuda", dtype=dtype))
        if self.score == "padding":
            made.append(torch.randint(self.t // 2, self.t + 1, (self.b,), device="cuda", dtype=torch.int32))
        if self.backward:
            with torch.no_grad():
                scores = self.scores(torch, [x.float() if x.is_floating_point() else x for x in made])
                out = scores.softmax(-1) @ v.float().repeat_interleave(self.each, 1)
                made += [out.to(dtype), g, scores.logsumexp(-1)]
        return [self.placed(x) if n < 3 or (self.backward and len(made) - 3 <= n < len(made) - 1) else x
                for n, x in enumerate(made)]  # fmt: skip

    def placed(self, x: Any) -> Any:
        """Heads first, or inside."""
        return x if self.heads_first else x.transpose(1, 2).contiguous()

    def viewed(self, args: Sequence[Any]) -> list[Any]:
        """The same with heads first, as views."""
        last = len(args) - 3 if self.backward else len(args)
        turned = [n for n in range(len(args)) if n < 3 or last <= n < len(args) - 1]
        return [x if self.heads_first or n not in turned else x.transpose(1, 2) for n, x in enumerate(args)]

    def scores(self, torch: Any, args: Sequence[Any]) -> Any:
        q, k = args[0], args[1].repeat_interleave(self.each, 1)
        x = q @ k.transpose(-1, -2) * self.d**-0.5
        s, t = torch.arange(self.s, device="cuda")[:, None], torch.arange(self.t, device="cuda")[None]
        if self.score == "ALiBi":
            return x + ((t - s) * 0.0625).to(x.dtype)
        if self.score == "soft cap":
            return 20 * torch.tanh(x * 0.05)
        if self.score == "bias":
            return x + args[3]
        keep = self.kept(torch, args, s, t)
        return x if keep is None else x.masked_fill(~keep, float("-inf"))

    def kept(self, torch: Any, args: Sequence[Any], s: Any, t: Any) -> Any:
        near = s + self.before >= t
        if self.score == "causal":
            return near
        if self.score == "window":
            return near & (s + self.before - t < self.window)
        return (t < args[3][:, None])[:, None, None] if self.score == "padding" else None

    def forward(self, torch: Any, args: Sequence[Any]) -> Any:
        if self.score in ("ALiBi", "soft cap"):
            return self.scores(torch, args).softmax(-1) @ args[2].repeat_interleave(self.each, 1)
        s, t = torch.arange(self.s, device="cuda")[:, None], torch.arange(self.t, device="cuda")[None]
        is_causal = self.score == "causal" and self.s == self.t
        mask = None if is_causal else args[3] if self.score == "bias" else self.kept(torch, args, s, t)
        return torch.nn.functional.scaled_dot_product_attention(
            *args[:3], attn_mask=mask, is_causal=is_causal, enable_gqa=self.each > 1
        )

    def peer(self, torch: Any) -> Any:
        """PyTorch's; of the backward pass alone, after a forward one that is kept."""
        kept: dict[int, tuple[Any, ...]] = {}

        def run(*args: Any) -> Any:
            given = self.viewed(args)
            if not self.backward:
                return self.forward(torch, given)
            if args[0].data_ptr() not in kept:
                own = [x.detach().requires_grad_(x.is_floating_point()) for x in given[:-3]]
                kept[args[0].data_ptr()] = (self.forward(torch, own), [x for x in own if x.requires_grad])
            made, own = kept[args[0].data_ptr()]
            return torch.autograd.grad(made, own, given[-2], retain_graph=True)

        return run

    def exact(self, torch: Any, args: Sequence[Any]) -> list[Any]:
        wide = [x.double() if x.is_floating_point() else x for x in self.viewed(args)]
        own = [x.detach().requires_grad_(self.backward and x.is_floating_point()) for x in wide]
        own = own[:-3] if self.backward else own
        out = self.scores(torch, own).softmax(-1) @ own[2].repeat_interleave(self.each, 1)
        if not self.backward:
            return [self.placed(out)]
        wanted = torch.autograd.grad(out, [x for x in own if x.requires_grad], wide[-2])
        return [self.placed(x) if n < 3 else x for n, x in enumerate(wanted)]

    def error(self, torch: Any, args: Sequence[Any], got: Any) -> float:
        found = got if isinstance(got, tuple) else (got,)
        pairs = zip(found, self.exact(torch, args), strict=True)
        return max(float((a.double() - b).norm() / b.norm().clamp_min(1e-30)) for a, b in pairs)


def draw(seed: int) -> Case:
    rng = random.Random(seed)
    s = rng.choice([128, 256, 512, 1024, 2048, rng.randrange(60, 2100), rng.randrange(60, 2100)])
    score = rng.choice(list(SCORES))
    t = s if rng.random() < 0.6 else s + rng.randrange(1, 1500)
    d = rng.choice(WIDTHS)
    each, groups = rng.choice([1, 1, 2, 4, 8]), rng.choice([1, 2, 4, 8])
    b = max(1, min(16, (1 << 28) // (4 * each * groups * s * t)))
    dtype = rng.choice(["bfloat16"] * 5 + ["float16"] * 3 + ["float32"])
    backward, heads_first = rng.random() < 0.5, rng.random() < 0.7
    return Case(dtype, score, backward, heads_first, rng.randrange(1, b + 1), each * groups, each, s, t,
                d, d if rng.random() < 0.8 else rng.choice(WIDTHS), rng.randrange(1, 600))  # fmt: skip


def compile_all(cases: Sequence[int]) -> None:
    import torch

    for seed in cases:
        try:
            case = draw(seed)
            weft.define(case.text())(*case.arguments(torch))
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        except Exception:  # told when it is timed
            continue


def measure(seed: int) -> tuple[float, str]:
    """How many times as fast as PyTorch, and the row."""
    import torch

    case = draw(seed)
    torch.manual_seed(seed)
    op, peer, args = weft.define(case.text()), case.peer(torch), case.arguments(torch)
    error = case.error(torch, args, op(*args))
    found = times_of(torch, {"weft": op, "torch": peer}, [args])
    ratio, wrong = found["torch"] / found["weft"], "" if error < 2e-2 else "  WRONG"
    torch.cuda.empty_cache()
    return (
        ratio,
        f"{seed:>6} {case!s:<62} {found['weft']:>10.1f} {found['torch']:>10.1f} {ratio:>7.2f} {error:8.1e}{wrong}",
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.random_attention", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--compile", type=int, nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.compile is not None:
        compile_all(options.compile)
        return 0
    seeds = range(options.seed, options.seed + options.count)
    parts = [seeds[n :: options.jobs] for n in range(options.jobs)]
    command = [sys.executable, "-m", "bench.gpu.random_attention", "--compile"]
    started = [subprocess.Popen([*command, *map(str, part)]) for part in parts if part]
    for process in started:
        process.wait()
    rows: list[tuple[float, str]] = []
    for seed in seeds:
        try:
            rows.append(measure(seed))
        except Exception:
            print(f"{seed} {draw(seed)} failed: {traceback.format_exc(limit=-2)}", flush=True)
    rows.sort(reverse=True)
    print(*(row for _, row in rows), sep="\n")
    if rows:
        mean = statistics.geometric_mean(r for r, _ in rows)
        print(f"geometric mean {mean:.2f} of {len(rows)}, least {rows[-1][0]:.2f}")
    return 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        os.environ.setdefault("WEFT_CACHE_DIR", folder)
        sys.exit(main())
