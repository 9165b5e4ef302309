"""One checkout of Weft against another, interleaved: calls, cold compiles and the time to choose a schedule.

    python -m bench.before_after --old ../before
    python -m bench.before_after --old ../before --threads 1 2 --only matmul conv --random-shapes 7 --save ratios.json

Each checkout works in a process of its own; they take turns, workload by workload, so that a busy moment of the machine
meets both. A ratio is time before over time after: above 1, it became faster.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.field.command import chosen_workloads
from bench.field.conductor import OURS, save_reference
from bench.field.environments import ROOT
from bench.field.peers import PEERS
from bench.field.process import Gone, WorkerProcess
from bench.field.statistics import geometric_mean, median
from bench.field.workloads import Workload

#: Seconds a compile or a turn may take.
PATIENCE_S = 120.0


@dataclass(frozen=True)
class Sides:
    """One figure before and after."""

    before: float
    after: float

    @property
    def ratio(self) -> float:
        return self.before / max(self.after, 1e-12)


@dataclass(frozen=True)
class Row:
    """A workload: seconds of a call, of a cold compile, and of choosing a schedule."""

    workload: str
    threads: int
    call: Sides
    cold: Sides
    choosing: Sides


class Race:
    """Both checkouts, with one number of threads."""

    def __init__(self, old: Path, threads: int, turns: int, turn_s: float, compiles: int, clock: str = "wall") -> None:
        cores = sorted(os.sched_getaffinity(0))[-threads:]
        self.threads, self.turns, self.turn_s, self.compiles = threads, turns, turn_s, compiles
        self.workers = [
            WorkerProcess(PEERS[OURS], Path(sys.executable), threads, cores, clock, root=root) for root in (old, ROOT)
        ]

    def run(self, workload: Workload, reference: Path) -> Row:
        command: dict[str, Any] = {"family": workload.family.name, "sizes": dict(workload.sizes), "seed": 0}
        command |= {"do": "prepare", "reference": str(reference), "alone": True}
        answers = [[self._ask(worker, **command) for worker in self.workers] for _ in range(self.compiles)]
        times: list[list[float]] = [[], []]
        for _ in range(self.turns):
            for worker, found in zip(self.workers, times):
                found.append(median(self._ask(worker, do="time", way="filling", seconds=self.turn_s)["times"]))
        seconds = [[pair[side]["seconds"] for pair in answers] for side in (0, 1)]
        cold, choosing = (
            Sides(*(median([s[name] for s in seconds[side]]) for side in (0, 1))) for name in ("cold", "schedule")
        )
        return Row(workload.name, self.threads, Sides(median(times[0]), median(times[1])), cold, choosing)

    def _ask(self, worker: WorkerProcess, **command: Any) -> dict[str, Any]:
        answer = worker.ask(PATIENCE_S, **command)
        if "reason" in answer:
            raise Gone(f"{worker.root}: {answer['reason']}")
        return answer

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


def run_race(race: Race, workloads: Sequence[Workload]) -> list[Row]:
    """All workloads, each told as soon as it is done; those that one side cannot do are told and left out."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for workload in workloads:
            reference = Path(folder) / "right.npz"
            save_reference(workload, reference, 0)
            try:
                rows.append(race.run(workload, reference))
            except Gone as why:
                print(f"{workload.name:<40} {why}", flush=True)
                continue
            print(describe(rows[-1]), flush=True)
    return rows


def describe(row: Row) -> str:
    sides = (row.call, row.cold, row.choosing)
    each = "  ".join(f"{s.before * 1e3:9.3f} {s.after * 1e3:9.3f} {s.ratio:6.2f}" for s in sides)
    return f"{row.workload:<40} {row.threads}  {each}"


def summary(rows: Sequence[Row]) -> list[str]:
    """Geometric means, the worst call, medians of compile times."""
    if not rows:
        return ["nothing was measured"]
    worst = sorted(rows, key=lambda r: r.call.ratio)[:5]
    lines = [f"calls: {geometric_mean(r.call.ratio for r in rows):.3f} of before, geometric mean of {len(rows)}"]
    lines += [f"  {r.call.ratio:.3f} {r.workload}, {r.threads} threads" for r in worst]
    for name in ("cold", "choosing"):
        sides: list[Sides] = [getattr(r, name) for r in rows]
        before, after = median([s.before for s in sides]), median([s.after for s in sides])
        slowest = max(rows, key=lambda r: float(getattr(r, name).after))
        lines.append(
            f"{name}: median {before * 1e3:.1f} ms before, {after * 1e3:.1f} after; "
            f"longest {getattr(slowest, name).after * 1e3:.0f} ms, {slowest.workload}"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.before_after", description=__doc__.splitlines()[0])
    parser.add_argument("--old", type=Path, required=True, help="the checkout to compare with")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--only", nargs="+", help="workloads whose names have one of these in them")
    parser.add_argument("--random-shapes", type=int, metavar="SEED", help="odd sizes instead of the usual ones")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--turn-seconds", type=float, default=0.03)
    parser.add_argument("--compiles", type=int, default=3)
    parser.add_argument(
        "--clock", choices=["wall", "cpu"], default="wall", help="cpu: of one thread, on a busy machine"
    )
    parser.add_argument("--save", type=Path, help="rows as JSON")
    options = parser.parse_args(arguments)
    if options.clock == "cpu" and options.threads != [1]:
        parser.error("the clock of the process is for one thread: several add their times up")
    workloads = chosen_workloads(options.only, options.random_shapes)
    print(f"{'workload, threads':<43}{'call: before, after, ratio':>28}{'cold':>28}{'choosing':>29}  (ms)")
    rows: list[Row] = []
    for threads in options.threads:
        how = (options.turns, options.turn_seconds, options.compiles, options.clock)
        race = Race(options.old.resolve(), threads, *how)
        try:
            rows += run_race(race, workloads)
        finally:
            race.close()
    print("\n".join(["", *summary(rows)]))
    if options.save is not None:
        options.save.write_text(json.dumps([asdict(r) for r in rows], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
