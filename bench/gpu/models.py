"""``python -m bench.gpu.models [--set unseen] [--only BERT] [--dtype bfloat16] [--peers eager graphs] [--profile]``:
whole models, those that Weft was developed on, or others.

Contenders of a row run in turns in one process, a process for each row; times by events around many calls, medians.
The error is against eager in float32, beside that of eager itself. ``inductor`` is torch.compile, ``graphs`` its mode
"reduce-overhead". Nothing is cached. With ``--at-once`` several rows compile beside each other, each on cores of its
own; what is timed, while compiling too, is alone on the GPU, and calls are timed when all are compiled.
"""

from __future__ import annotations

import argparse
import copy
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

import weft
from bench.gpu.processes import answer, measure_alone, several
from bench.gpu.unseen import PROFILED, UNSEEN, Large
from bench.models.networks import NETWORKS, make_network
from bench.models.parts import TOKENS


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


class Contenders:
    """One row: the model by all contenders, compiled and called three times."""

    def __init__(self, row: Row, dtype: str, peers: Sequence[str]) -> None:
        self.row = row
        self.model, self.x = make_network(row.model, row.batch, "cuda", dtype, MODELS)
        for p in self.model.parameters():
            if p.dim() > 1 and not p.any():  # torchvision's heads, which would make all results zero
                p.normal_(0, 0.02)
        if row.tokens:
            self.x = torch.randint(0, 20000, (row.batch, row.tokens), device="cuda")
        x = self.x.float() if self.x.is_floating_point() else self.x
        right = copy.deepcopy(self.model).float()(x).float()
        self.runs: dict[str, Callable[[Any], Any]] = {}
        self.errors: dict[str, float] = {}
        self.seconds: dict[str, float] = {}
        self.notes: list[str] = []
        for name in ("weft", *peers):
            try:
                self._compile(name, right)
            except Exception as problem:  # a contender that cannot do it is left out, and told
                self.notes.append(f"{name}: {type(problem).__name__}: {str(problem)[:300]}")

    def _compile(self, name: str, right: Any) -> None:
        start = time.perf_counter()
        run = contender(name, self.model, self.x)
        for _ in range(3):
            y = run(self.x)
        torch.cuda.synchronize()
        self.seconds[name] = time.perf_counter() - start
        if name == "weft":
            told = ("compiling:", "launches in order", "eager, because", "faults of Weft")
            self.notes += [line for line in weft.explain(run).splitlines() if any(part in line for part in told)]
        self.errors[name] = error(y, right)
        self.runs[name] = run
        print(f"  {self.row.name}: {name} compiled in {self.seconds[name]:.1f} s", flush=True)

    def measure(self) -> dict[str, Any]:
        """Milliseconds of each, the best peer's over ours, errors, seconds of compiling, and what else is to tell."""
        times = milliseconds(self.runs, self.x)
        best = min((times[p] for p in times if p != "weft"), default=math.nan)
        facts = {"errors": self.errors, "compile": self.seconds, "notes": self.notes}
        return {"times": times, "ratio": best / times.get("weft", math.nan), **facts}

    def print_profiles(self) -> None:
        """What the GPU does for us and for the last peer."""
        for name in [n for n in self.runs if n == "weft" or n == [*self.runs][-1]]:
            print_profile(name, self.runs[name], self.x)


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
    for spent, count, key in rows[:12]:
        print(f"    {spent:8.1f} us {count:6.1f} x {spent / count:6.2f}  {key[:70]}")


def print_row(row: Row, found: Mapping[str, Any]) -> float:
    """The best peer's time over ours, not a number where one is missing."""
    times, errors, seconds, ratio = found["times"], found["errors"], found["compile"], found["ratio"]
    text = ", ".join(f"{n} {t:.3f} ({errors[n]:.1e}, {seconds[n]:.1f} s)" for n, t in times.items())
    print(f"{row.name}: {ratio:.2f} of the best; ms (error, compile): {text}", *found["notes"], sep="\n  ", flush=True)
    return ratio


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.models", description=__doc__)
    parser.add_argument("--set", default="developed", choices=SETS, help="unseen: nothing was developed on them")
    parser.add_argument("--only", nargs="*", default=[], help="rows whose names contain one of these")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    told = "print kernels of weft and of the last peer, of rows below this ratio"
    parser.add_argument("--profile", type=float, nargs="?", const=math.inf, default=0.0, metavar="RATIO", help=told)
    parser.add_argument("--at-once", type=int, default=1, help="rows that compile beside each other")
    parser.add_argument(
        "--limit", type=float, default=math.inf, help="seconds after which rows that are not compiled are left out"
    )
    parser.add_argument("--batch", choices=("1", "large"), help="only such rows")
    parser.add_argument("--row", type=int, help="measure this row, when told to, in a process that is another's")
    return parser.parse_args(arguments)


def rows_of(options: argparse.Namespace) -> list[Row]:
    rows = [r for r in SETS[options.set] if options.batch in (None, "1" if r.batch == 1 else "large")]
    return [r for r in rows if not options.only or any(part in r.name for part in options.only)]


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    rows = rows_of(options)
    if options.row is not None:
        measure_alone()
        contenders = Contenders(rows[options.row], options.dtype, options.peers)
        return answer(contenders, options.profile)
    ratios: dict[bool, list[float]] = {True: [], False: []}
    command = [sys.executable, "-m", "bench.gpu.models", *arguments]
    for number, found in several(command, len(rows), options.at_once, options.limit):
        ratio = print_row(rows[number], found)
        if ratio == ratio:
            ratios[rows[number].batch == 1].append(ratio)
    for is_one, own in ratios.items():
        if own:
            print(f"{'batch 1' if is_one else 'large'}: geomean {statistics.geometric_mean(own):.2f} of {len(own)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
