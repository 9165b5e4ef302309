"""The command behind ``make bench`` and ``weft bench``: picks workloads and peers, runs, saves, reports."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.field.conductor import OURS, Conductor, Plan, Row
from bench.field.environments import ROOT, install_missing
from bench.field.peers import PEERS
from bench.field.plot import draw
from bench.field.report import page, summary
from bench.field.run import Run, describe_machine
from bench.field.workloads import Workload, randomly_resized, standard_workloads
from weft.ir.errors import ArgumentError, UnsupportedError

RESULTS = ROOT / "bench" / "results"
#: Peers that compile for seconds are left out of a quick run.
_QUICK_PEERS = ("torch", "onnxruntime")
_QUICK = Plan(turns=3, turn_s=0.02, prepare_s=20.0, budget_s=1.5)


def run_bench(options: argparse.Namespace) -> int:
    if options.earlier is not None:
        return finish(read_run(options.earlier), options)
    peers = chosen_peers(options)
    workloads = chosen_workloads(options.only, options.random_shapes)
    check_options(options, workloads, peers)
    if options.install:
        install_missing(peers)
    plan = replace(_QUICK if options.quick else Plan(), clock=options.clock)
    seed = options.random_shapes
    run = Run(describe_machine(), os.getloadavg()[0], random_seed=seed, clock=plan.clock, quick=options.quick)
    measure(run, workloads, peers, chosen_threads(options), plan)
    return finish(run, options)


def check_options(options: argparse.Namespace, workloads: Sequence[Workload], peers: Sequence[str]) -> None:
    """What cannot work is said before minutes are spent."""
    if unknown := [p for p in peers if p not in PEERS]:
        raise ArgumentError(f"there is no peer called {', '.join(unknown)}", help=f"there are {', '.join(PEERS)}")
    if not workloads:
        names = ", ".join(dict.fromkeys(w.family.name for w in standard_workloads()))
        raise ArgumentError(f"no workload matches {' '.join(options.only)}", help=f"there are {names}")
    cores = len(os.sched_getaffinity(0))
    if wrong := [n for n in options.threads or () if not 1 <= n <= cores]:
        raise ArgumentError(f"cannot measure with {wrong[0]} threads", why=f"this process may use {cores} cores")
    if options.clock == "cpu" and chosen_threads(options) != [1]:
        raise ArgumentError("the clock of the process is for one thread", why="several threads add their times up")
    if importlib.util.find_spec("torch") is None:
        raise UnsupportedError(
            "the bench needs torch", why="results are checked against its float64", help="pip install torch"
        )


def read_run(path: Path) -> Run:
    try:
        return Run.load_from(path)
    except (OSError, ValueError, TypeError, KeyError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not the JSON of a run"
        raise ArgumentError(f"cannot read {path}", why=why) from None


def chosen_peers(options: argparse.Namespace) -> list[str]:
    if options.peers is not None:
        return list(options.peers)
    return list(_QUICK_PEERS) if options.quick else [p for p in PEERS if p != OURS]


def chosen_threads(options: argparse.Namespace) -> list[int]:
    return list(options.threads or ([1] if options.clock == "cpu" else [1, 2]))


def chosen_workloads(only: Sequence[str], seed: int | None) -> list[Workload]:
    every = list(standard_workloads())
    if seed is not None:
        every = list(randomly_resized(every, seed))
    return [w for w in every if not only or any(_is_meant(w, text.lower()) for text in only)]


def _is_meant(workload: Workload, text: str) -> bool:
    return text in workload.name.lower() or workload.family.group.startswith(text)


def measure(run: Run, workloads: Sequence[Workload], peers: Sequence[str], threads: Sequence[int], plan: Plan) -> None:
    """All workloads with each number of threads; what there is is saved as it comes."""
    start, saved = time.monotonic(), RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
    for count in threads:
        conductor = Conductor([PEERS[OURS], *(PEERS[p] for p in peers if p != OURS)], count, plan)
        run.versions |= conductor.versions
        run.absent |= conductor.absent
        for name, why in conductor.absent.items():
            print(f"{name}: {why}", file=sys.stderr)
        for row in conductor.run(workloads):
            run.rows.append(row)
            run.minutes = (time.monotonic() - start) / 60
            run.save(saved)
            print(describe_row(row), flush=True)
    print(f"saved as {saved.relative_to(ROOT)}", file=sys.stderr)


def describe_row(row: Row) -> str:
    ours = min(row.ours_ms.values(), default=None)
    head = f"{row.workload:<40} {row.threads} thread{'s' if row.threads > 1 else ' '}"
    if ours is None:
        return f"{head} weft: {row.missing.get(OURS, 'not measured')}"
    each = "  ".join(f"{name} {ms:.3f}" for name, ms in sorted(row.ms.items(), key=lambda pair: pair[1]))
    ratio = f"{row.ratios[row.best].value:6.2f} of {row.best:<14}" if row.best is not None else " " * 24
    return f"{head} {ratio} ms: weft {ours:.3f}  {each}"


def finish(run: Run, options: argparse.Namespace) -> int:
    print()
    for what, bar, value in summary(run.rows):
        print(f"{what:<90} {value:>8}   (bar {bar})")
    if options.write:
        write(run, "bench" if run.random_seed is None else "bench-random")
    wrong = [row.workload for row in run.rows if "wrong result" in row.missing.get(OURS, "")]
    for name in wrong:
        print(f"weft is wrong: {name}", file=sys.stderr)
    return 1 if wrong else 0


def write(run: Run, name: str) -> None:
    docs: Path = ROOT / "docs"
    run.save(docs / f"{name}.json")
    (docs / f"{name}.svg").write_text(draw(run.rows))
    (docs / f"{name}.md").write_text(page(run, f"{name}.svg"))
    print(f"written to docs/{name}.md")
