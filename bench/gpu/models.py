"""``python -m bench.gpu.models [--set unseen] [--only BERT] [--dtype bfloat16] [--peers eager graphs] [--profile]``:
whole models, those that Weft was developed on, or others.

Contenders run in turns in one process; times by events around many calls, medians. The error is against eager in
float32, beside that of eager itself. ``inductor`` is torch.compile, ``graphs`` its mode "reduce-overhead".
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

import weft
from bench.gpu.unseen import PROFILED, UNSEEN, Large
from bench.models.networks import NETWORKS, TOKENS, make_network


class Row(NamedTuple):
    model: str
    batch: int
    tokens: int = 0

    @property
    def name(self) -> str:
        return f"{self.model.removesuffix(' 128')} {self.batch}" + (f"x{self.tokens}" if self.tokens else "")


#: Batch 1, where launches and the latency of kernels decide, and large.
ROWS = (
    Row("ResNet-50", 1), Row("MobileNetV2", 1), Row("ViT-B/16", 1), Row("BERT-base 128", 1, 128),
    Row("GPT-2 128", 1, 128), Row("Llama-like 128", 1, 128),
    Row("ResNet-50", 64), Row("MobileNetV2", 64), Row("ViT-B/16", 32), Row("BERT-base 128", 16, 512),
    Row("GPT-2 128", 8, 1024), Row("Llama-like 128", 4, 2048),
)  # fmt: skip


def _rows(models: Mapping[str, Large]) -> tuple[Row, ...]:
    ones = [Row(name, 1, TOKENS if tokens else 0) for name, (_, _, tokens) in models.items()]
    return (*ones, *(Row(name, batch, tokens) for name, (_, batch, tokens) in models.items()))


SETS = {"developed": ROWS, "profiled": _rows(PROFILED), "unseen": _rows(UNSEEN)}
MODELS = NETWORKS | {name: network for name, (network, _, _) in (PROFILED | UNSEEN).items()}
PEERS = ("eager", "inductor", "graphs")
#: Seconds of calls between two events, and how often in turns.
SPAN, ROUNDS = 0.02, 9


def contender(name: str, model: Any, x: Any) -> Callable[[Any], Any]:
    if name == "weft":
        return weft.compile(model, (x,))
    if name == "eager":
        return model  # type: ignore[no-any-return]
    torch.compiler.reset()
    mode = "reduce-overhead" if name == "graphs" else None
    return torch.compile(model, dynamic=False, mode=mode)  # type: ignore[no-any-return]


def error(result: Any, right: Any) -> float:
    return float((result.float() - right).norm() / right.norm())


def milliseconds(runs: dict[str, Callable[[Any], Any]], x: Any) -> dict[str, float]:
    """Medians over turns."""
    counts, times = {}, {name: [] for name in runs}  # type: dict[str, int], dict[str, list[float]]
    for name, run in runs.items():
        counts[name] = max(3, int(SPAN / max(_span(run, x, 5) / 5, 1e-5)))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            times[name].append(_span(run, x, counts[name]) / counts[name] * 1e3)
    return {name: statistics.median(several) for name, several in times.items()}


def _span(run: Callable[[Any], Any], x: Any, count: int) -> float:
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    for _ in range(count):
        run(x)
    after.record()
    after.synchronize()
    return float(before.elapsed_time(after)) / 1e3


def measure(row: Row, dtype: str, peers: Sequence[str], profiled: bool) -> dict[str, Any]:
    model, x = make_network(row.model, row.batch, "cuda", dtype, MODELS)
    for p in model.parameters():
        if p.dim() > 1 and not p.any():  # torchvision's heads, which would make all results zero
            p.normal_(0, 0.02)
    if row.tokens:
        x = torch.randint(0, 20000, (row.batch, row.tokens), device="cuda")
    right = copy.deepcopy(model).float()(x.float() if x.is_floating_point() else x).float()
    found: dict[str, Any] = {"errors": {}, "compile": {}}
    runs: dict[str, Callable[[Any], Any]] = {}
    for name in ("weft", *peers):
        start = time.perf_counter()
        try:
            run = contender(name, model, x)
            for _ in range(3):
                y = run(x)
            torch.cuda.synchronize()
        except Exception as problem:  # a contender that cannot do it is left out, and told
            print(f"  {name}: {type(problem).__name__}: {str(problem)[:300]}")
            continue
        found["compile"][name] = time.perf_counter() - start
        if name == "weft" and "one CUDA graph" not in weft.explain(run):
            print(*[line for line in weft.explain(run).splitlines() if "in order" in line or "eager" in line])
        found["errors"][name] = error(y, right)
        runs[name] = run
    found["times"] = milliseconds(runs, x)
    if profiled:
        for name in [n for n in runs if n in ("weft", *peers[-1:])]:
            print_profile(name, runs[name], x)
    return found


def print_profile(name: str, run: Callable[[Any], Any], x: Any) -> None:
    """What the GPU did in ten calls, by kernel."""
    kinds = [torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=kinds) as profile:
        for _ in range(10):
            run(x)
        torch.cuda.synchronize()
    rows = [(e.self_device_time_total / 10, e.count / 10, e.key) for e in profile.key_averages()]
    rows = sorted((r for r in rows if r[0] > 0), reverse=True)
    print(f"  {name}: {sum(r[0] for r in rows):.0f} us in {sum(r[1] for r in rows):.0f} kernels a call")
    for spent, count, key in rows[:14]:
        print(f"    {spent:8.1f} us {count:6.1f} x {spent / count:6.2f}  {key[:70]}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.models", description=__doc__)
    parser.add_argument("--set", default="developed", choices=SETS, help="unseen: nothing was developed on them")
    parser.add_argument("--only", nargs="*", default=[], help="rows whose names contain one of these")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    parser.add_argument("--profile", action="store_true", help="print kernels of weft and of the last peer")
    options = parser.parse_args(arguments)
    ratios: dict[bool, list[float]] = {True: [], False: []}
    for row in (r for r in SETS[options.set] if not options.only or any(part in r.name for part in options.only)):
        found = measure(row, options.dtype, options.peers, options.profile)
        times, errors = found["times"], found["errors"]
        best = min((times[p] for p in times if p != "weft"), default=float("nan"))
        text = ", ".join(f"{n} {t:.3f} ({errors[n]:.1e}, {found['compile'][n]:.0f} s)" for n, t in times.items())
        print(
            f"{row.name}: {best / times.get('weft', float('nan')):.2f} of the best; ms (error, compile): {text}",
            flush=True,
        )
        if "weft" in times and best == best:
            ratios[row.batch == 1].append(best / times["weft"])
        torch.cuda.empty_cache()
    for is_one, several in ratios.items():
        if several:
            print(f"{'batch 1' if is_one else 'large'}: geomean {statistics.geometric_mean(several):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
