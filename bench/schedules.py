"""The schedules of ``examples/schedules`` against the libraries an expert would call instead.

Each row names its peers; all are timed in turns, in one process, and the medians are compared. A peer that
returns a new array is compared with calls that return one, a peer that fills a given array with calls that do.
``python -m bench.schedules [--threads 1 2] [--only matmul conv ...] [--no-compile] [--write]``; ``--write`` keeps the
table in ``docs/bench-schedules.md`` and the numbers beside it as JSON.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples" / "schedules"))

Call = Callable[[], object]


@dataclass
class Peer:
    """Somebody else's way to do the same; ``filling`` says that it writes to a given array."""

    name: str
    call: Call
    filling: bool = False


@dataclass
class Case:
    """One row: our call, returning or filling an array, and the peers'."""

    group: str
    name: str
    fresh: Call
    filling: Call
    peers: list[Peer]
    work: float = 0.0  # floating-point operations, where a rate says something
    built_s: float = 0.0


@dataclass
class Result:
    group: str
    name: str
    threads: int
    ms: dict[str, float]
    ratio: float
    against: str
    gflops: float | None
    built_ms: float
    ratios: dict[str, float] = field(default_factory=dict)


def measure(calls: dict[str, Call], budget_s: float = 1.5, slice_s: float = 0.004) -> dict[str, float]:
    """The median seconds of each call, all timed in short turns, so that a busy moment meets them all."""
    counts, turn = {}, 0.0
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        once = max(time.perf_counter() - start, 1e-7)
        counts[name] = max(1, int(slice_s / once))
        turn += counts[name] * once
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(max(7, min(101, int(budget_s / turn)))):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                call()
            taken[name].append((time.perf_counter() - start) / counts[name])
    return {name: statistics.median(times) for name, times in taken.items()}


def compare(case: Case, threads: int) -> Result:
    calls = {"weft": case.fresh, "weft, filling": case.filling}
    calls.update({p.name: p.call for p in case.peers})
    if all(p.filling for p in case.peers):
        del calls["weft"]
    elif not any(p.filling for p in case.peers):
        del calls["weft, filling"]
    took = measure(calls)
    ratios = {p.name: took[p.name] / took["weft, filling" if p.filling else "weft"] for p in case.peers}
    against = min(ratios, key=lambda name: ratios[name])
    ours = took[against] / ratios[against]
    rate = case.work / ours * 1e-9 if case.work else None
    ms = {name: t * 1e3 for name, t in took.items()}
    return Result(case.group, case.name, threads, ms, ratios[against], against, rate, case.built_s * 1e3, ratios)


def run(groups: list[str], threads: int, *, compiled: bool) -> Iterator[Result]:
    import torch

    import weft
    from bench.schedule_cases import GROUPS

    weft.set_num_threads(threads)
    torch.set_num_threads(threads)
    for group, cases in GROUPS.items():
        if not groups or group in groups:
            for case in cases(threads, compiled):
                if case.peers:
                    yield compare(case, threads)
                else:
                    print(f"{case.name:<28} no peer is installed: pip install onnxruntime onnx halide")


def missing_peers() -> list[str]:
    """Why peers are left out, a sentence each."""
    absent = [name for name in ("onnxruntime", "halide") if importlib.util.find_spec(name) is None]
    told = [f"{name} is not installed and not among the peers" for name in absent]
    if not can_compile():
        told.append("torch.compile takes a C++ compiler, which is not installed: it is not among the peers")
    return told


def can_compile() -> bool:
    return any(shutil.which(name) for name in (os.environ.get("CXX") or "g++", "clang++"))


def geomean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def table(results: list[Result]) -> str:
    """Markdown: a section a group, a line a row, the geometric mean last."""
    lines: list[str] = []
    for group in dict.fromkeys(r.group for r in results):
        rows = [r for r in results if r.group == group]
        lines += [
            f"## {group}",
            "",
            "| work | threads | weft ms | GFLOP/s | best peer | peer ms | weft is faster by |",
            "|---|---|---|---|---|---|---|",
        ]
        for r in rows:
            ours = r.ms[r.against] / r.ratio  # in the way of that peer: filling an array, or returning one
            rate = "" if r.gflops is None else f"{r.gflops:.0f}"
            cells = (r.name, r.threads, f"{ours:.3f}", rate, r.against, f"{r.ms[r.against]:.3f}", f"{r.ratio:.2f}")
            lines.append(f"| {' | '.join(map(str, cells))} |")
        for threads in dict.fromkeys(r.threads for r in rows):
            ratios = [r.ratio for r in rows if r.threads == threads]
            mean = f"geometric mean {geomean(ratios):.2f}, least {min(ratios):.2f}"
            lines += ["", f"{threads} thread{'s' * (threads > 1)}: {mean}."]
        lines.append("")
    return "\n".join(lines)


def machine() -> str:
    """What the numbers were measured on, in words."""
    from weft.target.cpu.host import host_machine

    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    features = [f for f in ("avx512f", "avx512vnni", "avx512bf16", "amx-bf16") if host_machine().has_feature(f)]
    return f"{os.cpu_count()} cores of {model} ({', '.join(features)})"


def versions() -> str:
    from importlib.metadata import PackageNotFoundError, version

    found = []
    for name in ("torch", "onnxruntime", "halide"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found if can_compile() else [*found, "no C++ compiler for torch.compile"])


HEADER = """# Schedules against libraries

Every schedule is in `examples/schedules`, written with public primitives alone. `python -m bench.schedules --write`
makes this page: medians of calls timed in turns in one process; more than 1 means that Weft is faster.

Measured on {machine}, with {versions}; load average {load:.1f} when it started.{note}

"""
_NO_AMX = " This machine has no AMX: the bfloat16 rows use `vdpbf16ps`, and say nothing about tiles."

_BUSY = """

**The machine was busy with other work.** Many rows with more than one thread then come out at about 8, 16 or 32 ms,
for torch as for Weft, whatever the work: threads seem to wait for one another through whole time slices (onnxruntime
suffers less). They say little about the schedules; measure them again where nothing else runs."""


def write(results: list[Result], load: float) -> None:
    from weft.target.cpu.host import host_machine

    note = "" if host_machine().has_feature("amx-bf16") else _NO_AMX
    if load > 1.0 and any(r.threads > 1 for r in results):
        note += _BUSY
    header = HEADER.format(machine=machine(), versions=versions(), load=load, note=note)
    (ROOT / "docs" / "bench-schedules.md").write_text(header + table(results))
    rows = [vars(r) for r in results]
    (ROOT / "docs" / "bench-schedules.json").write_text(json.dumps(rows, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile, which takes seconds a row")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    load, results = os.getloadavg()[0], []
    for told in missing_peers():
        print(told)
    compiled = can_compile() and not options.no_compile
    for threads in options.threads:
        for r in run(options.only, threads, compiled=compiled):
            results.append(r)
            each = "  ".join(f"{name} {ms:.3f}" for name, ms in r.ms.items())
            print(
                f"{r.name:<28} {threads} thread{'s' * (threads > 1)}  {r.ratio:5.2f} of {r.against:<14} ms: {each}",
                flush=True,
            )
    order = list(dict.fromkeys(r.group for r in results))
    results.sort(key=lambda r: order.index(r.group))
    if options.write:
        write(results, load)
    for group in dict.fromkeys(r.group for r in results):
        rows = [r.ratio for r in results if r.group == group]
        print(f"{group}: geometric mean {geomean(rows):.2f}, least {min(rows):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
