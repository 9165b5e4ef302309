"""One model at a time: everyone prepares it in a fresh process, then all are timed round robin.

Weft and Inductor keep what they compiled in a folder. With ``cold`` it is emptied before, and each prepares a second
time, in a second process, which is the one that is timed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.field.conductor import OURS, Compared
from bench.field.environments import FOLDER, ROOT, python_for
from bench.field.peers import Peer
from bench.field.process import Gone, WorkerProcess
from bench.field.statistics import median, ratio_of_medians
from bench.models.peers import PEERS
from bench.models.workloads import ModelWorkload


@dataclass
class ModelRow(Compared):
    """A model with one number of threads, and what else was seen."""

    model: str
    batch: int
    threads: int
    #: what Weft was allowed
    numerics: str = "fast"
    #: seconds to a first result: with nothing kept, and in a second process
    cold_s: dict[str, float] = field(default_factory=dict)
    warm_s: dict[str, float] = field(default_factory=dict)
    tracing_s: float | None = None
    peak_mb: dict[str, float] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelPlan:
    peers: Sequence[str]
    turns: int = 7
    turn_s: float = 0.3
    cold: bool = False
    prepare_s: float = 600.0


def export_missing(workload: ModelWorkload) -> None:
    """The files of a model, made by a process that has torch and the models."""
    if workload.reference.exists():
        return
    python = python_for(PEERS["eager"])
    if python is None:
        raise SystemExit("the models need torchvision and transformers: python -m bench.models --install")
    command = [python, "-m", "bench.models.export", workload.model, str(workload.batch), workload.dtype]
    subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, stdout=subprocess.DEVNULL
    )


class ModelConductor:
    def __init__(self, plan: ModelPlan, threads: int) -> None:
        self.plan, self.threads = plan, threads
        self.cores = sorted(os.sched_getaffinity(0))[-threads:]
        self.versions: dict[str, str] = {}

    def run(self, workloads: Sequence[ModelWorkload]) -> Iterator[ModelRow]:
        for workload in workloads:
            export_missing(workload)
            row = ModelRow(workload.model, workload.batch, self.threads, workload.numerics)
            workers: dict[str, WorkerProcess] = {}
            try:
                for name in [OURS, *(p for p in self.plan.peers if p != OURS)]:
                    self._prepare(name, workload, row, workers)
                self._time(workers, row)
            finally:
                for worker in workers.values():
                    worker.close()
            yield row

    def _prepare(self, name: str, workload: ModelWorkload, row: ModelRow, workers: dict[str, WorkerProcess]) -> None:
        python = python_for(PEERS[name])
        if python is None:
            row.missing[name] = "not installed"
            return
        kept = FOLDER / "kept" / name / workload.folder.name / str(self.threads)
        keeps = name in (OURS, "inductor")
        for is_cold in (True, False) if self.plan.cold and keeps else (self.plan.cold,):
            if is_cold and keeps:
                shutil.rmtree(kept, ignore_errors=True)
            worker = self._worker(PEERS[name], python, kept)
            try:
                self.versions[name] = worker.ask(120.0, do="version")["version"]
                answer = self._ask(worker, workload)
            except Gone as why:
                answer = {"reason": str(why)}
            if "reason" in answer:
                row.missing[name] = answer["reason"]
                worker.close()
                return
            _note(row, name, answer)
            if self.plan.cold and "cold" in answer["seconds"]:  # else nobody knows what was kept from before
                (row.cold_s if is_cold else row.warm_s)[name] = answer["seconds"]["cold"]
            if is_cold and keeps:
                worker.close()
            else:
                workers[name] = worker

    def _worker(self, peer: Peer, python: Path, kept: Path) -> WorkerProcess:
        places = {"WEFT_CACHE": "on", "WEFT_CACHE_DIR": str(kept), "TORCHINDUCTOR_CACHE_DIR": str(kept)}
        return WorkerProcess(peer, python, self.threads, self.cores, variables=places)

    def _ask(self, worker: WorkerProcess, workload: ModelWorkload) -> dict[str, Any]:
        where = {"family": workload.model, "sizes": workload.sizes, "reference": str(workload.reference), "seed": 0}
        return worker.ask(self.plan.prepare_s, do="prepare", alone=False, **where)

    def _time(self, workers: dict[str, WorkerProcess], row: ModelRow) -> None:
        taken: dict[str, list[float]] = {name: [] for name in workers}
        way = {name: "filling" if name in ("onnxruntime", "openvino") else "fresh" for name in workers}
        for _ in range(self.plan.turns):
            for name, worker in workers.items():
                answer = worker.ask(self.plan.prepare_s, do="time", way=way[name], seconds=self.plan.turn_s)
                taken[name].append(median(answer["times"]))
                row.peak_mb[name] = max(row.peak_mb.get(name, 0.0), answer["peak"] / 1e6)
        row.ms = {name: median(times) * 1e3 for name, times in taken.items()}
        if OURS in taken:
            row.ratios = {n: ratio_of_medians(times, taken[OURS]) for n, times in taken.items() if n != OURS}


def _note(row: ModelRow, name: str, answer: dict[str, Any]) -> None:
    if name == OURS:
        row.tracing_s, row.counts, row.error = answer["seconds"]["tracing"], answer["facts"], answer["error"]
