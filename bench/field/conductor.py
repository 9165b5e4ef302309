"""Gives every peer its turns: one workload at a time, all prepared first, then timed round robin.

Only one worker runs at a time, the others stand still, so that nobody's idle threads disturb. A busy moment of the
machine meets all alike, since turns are short. Weft is prepared alone: its compile time is one of the results.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bench.field.environments import python_for
from bench.field.peers import Peer
from bench.field.process import Gone, WorkerProcess
from bench.field.statistics import Ratio, median, ratio_of_medians
from bench.field.workloads import Workload

OURS = "weft"
#: Peers this many times slower than the fastest are timed once: more would only take time.
_HOPELESS = 12.0


@dataclass(frozen=True)
class Plan:
    """How long things may take."""

    turns: int = 9
    turn_s: float = 0.04
    prepare_s: float = 30.0
    #: time for all turns of a workload together; long calls get fewer turns
    budget_s: float = 6.0
    seed: int = 0
    clock: str = "wall"


C = TypeVar("C", bound="Compared")


@dataclass(kw_only=True)
class Compared:
    """Milliseconds of each peer, ratios to Weft, and why others are missing."""

    ms: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, Ratio] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    error: float | None = None

    @property
    def best(self) -> str | None:
        """The peer that is hardest to beat."""
        return min(self.ratios, key=lambda name: self.ratios[name].value, default=None)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratios": {n: list(r) for n, r in self.ratios.items()}}

    @classmethod
    def from_json(cls: type[C], data: dict[str, Any]) -> C:
        return cls(**{**data, "ratios": {n: Ratio(*r) for n, r in data["ratios"].items()}})


@dataclass
class Row(Compared):
    """A workload with one number of threads."""

    workload: str
    group: str
    threads: int
    ours_ms: dict[str, float] = field(default_factory=dict)
    cold_ms: dict[str, float] = field(default_factory=dict)
    schedule_ms: float | None = None


class Conductor:
    """Workers for one number of threads; one of them is Weft itself."""

    def __init__(self, peers: Sequence[Peer], threads: int, plan: Plan) -> None:
        self.threads, self.plan = threads, plan
        cores = sorted(os.sched_getaffinity(0))[-threads:]  # interrupts tend to go to the first
        self.absent: dict[str, str] = {}
        self.workers: dict[str, WorkerProcess] = {}
        self.versions: dict[str, str] = {}
        for peer in peers:
            python = python_for(peer)
            if python is None:
                self.absent[peer.name] = "not installed"
            else:
                self.workers[peer.name] = WorkerProcess(peer, python, threads, cores, plan.clock)
        for name in list(self.workers):
            try:
                self.versions[name] = self.workers[name].ask(60.0, do="version")["version"]
            except Gone as why:
                self.absent[name] = f"does not start: {why}"
                self.workers.pop(name).close()

    def run(self, workloads: Sequence[Workload]) -> Iterator[Row]:
        try:
            with tempfile.TemporaryDirectory() as folder:
                for workload in workloads:
                    yield self._row(workload, Path(folder) / "right.npz")
        finally:
            for worker in self.workers.values():
                worker.close()

    def _row(self, workload: Workload, reference: Path) -> Row:
        row = Row(workload.name, workload.family.group, self.threads, missing=dict(self.absent))
        save_reference(workload, reference, self.plan.seed)
        command: dict[str, Any] = {"family": workload.family.name, "sizes": dict(workload.sizes)}
        command |= {"reference": str(reference), "seed": self.plan.seed}
        for worker in self.workers.values():
            worker.start()  # those that ended, from this thread: the ones that ask come and go
        once = self._prepare([OURS], command, row)
        once |= self._prepare([n for n in self.workers if n != OURS], command, row)
        _compare(row, self._time(once))
        return row

    def _prepare(self, names: Sequence[str], command: dict[str, Any], row: Row) -> dict[tuple[str, str], float]:
        """Seconds of one call for each peer that can, by name and way; two prepare at a time."""
        once: dict[tuple[str, str], float] = {}

        def ask(name: str) -> tuple[str, dict[str, Any]]:
            try:
                patience = min(self.plan.prepare_s, self.workers[name].peer.patience_s)
                return name, self.workers[name].ask(patience, do="prepare", alone=len(names) == 1, **command)
            except Gone as why:
                return name, {"reason": str(why)}

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for name, answer in pool.map(ask, names):
                if "reason" in answer:
                    row.missing[name] = answer["reason"]
                    continue
                once |= {(name, way): seconds for way, seconds in answer["ways"].items()}
                _note_seconds(row, name, answer)
        return once

    def _time(self, once: dict[tuple[str, str], float]) -> dict[tuple[str, str], list[float]]:
        """The median of each turn, for everyone."""
        fastest = min(once.values(), default=0.0)
        racing = [k for k, s in once.items() if s <= max(_HOPELESS * fastest, self.plan.turn_s) or k[0] == OURS]
        round_s = sum(max(self.plan.turn_s * 1.2, 2 * once[k]) for k in racing)
        turns = max(3, min(self.plan.turns, int(self.plan.budget_s / max(round_s, 1e-3))))
        taken: dict[tuple[str, str], list[float]] = {k: [] if k in racing else [s] for k, s in once.items()}
        turn = {"do": "time", "seconds": self.plan.turn_s}
        for _ in range(turns):
            for key in [k for k in racing if k in taken]:
                name, way = key
                try:
                    answer = self.workers[name].ask(self.plan.prepare_s, way=way, **turn)
                except Gone:
                    del taken[key]
                    continue
                taken[key].append(median(answer["times"]))
        return taken


def save_reference(workload: Workload, path: Path, seed: int) -> None:
    """What is right, for all workers to compare with."""
    right = workload.reference(workload.inputs(seed))
    np.savez(path, *right)


def _note_seconds(row: Row, name: str, answer: dict[str, Any]) -> None:
    seconds = answer["seconds"]
    if "cold" in seconds:
        row.cold_ms[name] = seconds["cold"] * 1e3
    if name == OURS:
        row.schedule_ms = seconds["schedule"] * 1e3 if "schedule" in seconds else None
        row.error = answer["error"]


def _compare(row: Row, taken: dict[tuple[str, str], list[float]]) -> None:
    """Each peer against Weft called the same way: returning new arrays, or filling given ones."""
    for (name, way), times in taken.items():
        if name == OURS:
            row.ours_ms[way] = median(times) * 1e3
            continue
        row.ms[name] = median(times) * 1e3
        if (OURS, way) in taken:
            row.ratios[name] = ratio_of_medians(times, taken[OURS, way])
