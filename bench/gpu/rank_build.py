"""One schedule of a case, built in a process of its own: by plans drawn at random, or by the model's n-th best."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import weft
from bench.gpu.rank_cases import all_cases
from weft.auto.gpu.estimate import estimate_gpu
from weft.auto.gpu.scheduler import auto_schedule_gpu, rank_gpu_plans
from weft.ir.buffer import Buffer
from weft.ir.errors import Error
from weft.ir.expr import Const
from weft.ir.numerics import is_fast
from weft.target.cuda.lower import compile_kernel
from weft.target.cuda.machine import GpuMachine


@dataclass(frozen=True)
class Job:
    """Case ``case`` at ``shapes``; ``how`` is "drawn" with a seed ``number``, "ranked" at place ``number``, or the plan
    "listed" first."""

    case: int
    shapes: tuple[Any, ...]
    how: str
    number: int


@dataclass(frozen=True)
class Built:
    """What the process that measures needs; ``parameters`` are type, shape, bytes of an element and whether it is
    written."""

    job: Job
    plans: str
    trace: str
    expected: float
    bound: str
    program: dict[str, Any]
    names: list[str]
    parameters: list[tuple[str, tuple[int, ...], int, bool]]
    shared: int
    candidates: int


@dataclass
class Chooser:
    """Orders plans as the job says, and remembers what came first."""

    job: Job
    chosen: list[str] = field(default_factory=list)
    most: int = 1

    def __call__(self, subject: str, plans: Sequence[Any], seconds: Callable[[Any], float] | None) -> list[Any]:
        ranked = list(plans) if self.job.how == "listed" else rank_gpu_plans(subject, plans, seconds)
        if not ranked:
            return ranked
        is_main = len(ranked) > self.most
        self.most = max(self.most, len(ranked))
        if self.job.how == "drawn":
            rng = random.Random(f"{self.job.case} {self.job.number} {subject}")
            rng.shuffle(ranked)
        elif self.job.how == "ranked" and is_main and not any("*" in c for c in self.chosen):
            at = min(self.job.number, len(ranked) - 1)
            ranked = [ranked[at], *ranked[:at], *ranked[at + 1 :]]
        self.chosen.append(f"{'*' * is_main}{subject}: {ranked[0]}")
        return ranked


def build_schedule(job: Job, machine: GpuMachine) -> Built | str:
    """The program, or why there is none."""
    case = all_cases()[job.case]
    try:
        return _build(case.op(), job, machine)
    except (Error, AssertionError, RecursionError) as problem:
        return f"not built: {type(problem).__name__}: {str(problem)[:300]}"


def _build(op: Any, job: Job, machine: GpuMachine) -> Built:
    numerics = op._definition.how.numerics
    s = weft.schedule(op, *job.shapes, numerics=numerics, target="cuda")
    chooser = Chooser(job)
    auto_schedule_gpu(s, machine, rank=chooser)
    kernel = s.kernel
    estimate = estimate_gpu(kernel, machine)
    aligned = {b.name: 16 for b in kernel.buffers}
    program = compile_kernel(kernel, machine, fast=is_fast(numerics), aligned=aligned)
    parameters = [(b.dtype.name, _shape(b), b.dtype.itemsize, b.name in kernel.outputs) for b in kernel.buffers]
    shared = max(launch.shared_bytes for launch in program.launches)
    names = [b.name for b in kernel.buffers]
    made = program.to_json(), names, parameters, shared, chooser.most
    return Built(job, "; ".join(chooser.chosen), str(s.trace), estimate.seconds, estimate.bound, *made)


def _shape(buffer: Buffer) -> tuple[int, ...]:
    return tuple(int(e.value) for e in buffer.shape if isinstance(e, Const))
