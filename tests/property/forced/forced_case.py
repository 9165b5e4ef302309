"""A decision of the automatic scheduler forced on a small program, and whether results stay what they are.

Plans come in random order, or the worst first; thresholds have other values; caches, processors and vectors are said to
be small or many. Programs for a GPU run as the CPU lowers their kernels, between fences and in memory full of NaNs.
"""

from __future__ import annotations

import os
import random
import re
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from forced_formulas import Drawn, draw_formula, draw_program
from forced_thresholds import CPU, GPU, POLYHEDRAL, draw_value, forced, thresholds

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "target"))
from run_compiled import MACHINES, Fenced, Runner

import weft
from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.auto.polyhedral import polyhedral_schedule
from weft.auto.scheduler import auto_schedule
from weft.ir.expr import Call
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.stmt import Kernel
from weft.ir.visit import walk
from weft.operators.scheduling import Scheduling
from weft.operators.signature import check_call
from weft.operators.stages import build
from weft.schedules.merge_axes import merged_arguments
from weft.schedules.schedule import Schedule
from weft.target.cpu.host import Machine, host_machine
from weft.target.cuda.lower import emit_kernel
from weft.target.cuda.machine import GpuMachine, gpu_for_arch
from weft.tensor.coverage import initial_value
from weft.tensor.evaluate import evaluate

#: What automatic schedules find another way around is a fault here.
os.environ["WEFT_FAULTS"] = "raise"
Mode = Literal["cpu", "gpu", "polyhedral"]
LISTED = {"cpu": CPU, "gpu": GPU, "polyhedral": {**CPU, **POLYHEDRAL}}
#: Sizes of caches of small machines, in bytes, from the nearest on.
CACHES = ((1024, 4096, 16384), (2048, 32768, 131072), (4096, 8192, 1 << 20))


class NoMeaning(Exception):
    """A program that has none at these sizes."""


class Wrong(Exception):
    """Results that are not what they should be."""


@dataclass
class Forcing:
    """What is forced; a seed stands for it."""

    mode: Mode
    numerics: Literal["strict", "fast"]
    machine: Any
    threads: int
    way: str
    constants: frozenset[str]
    values: dict[str, int | float]
    seed: int
    #: What the schedule asked for, did, and made.
    taken: Counter[str] = field(default_factory=Counter)
    trace: str = ""

    def rank(self, subject: str, plans: Sequence[Any], seconds: Any) -> list[Any]:
        """Plans in random order, or by time: the worst first, the best first, the best among some."""
        rng, order = random.Random(f"{self.seed}{subject}"), list(plans)
        self.taken.update(f"plan {type(p).__name__}" for p in {type(p): p for p in plans}.values())
        if self.way == "random":
            rng.shuffle(order)
        elif seconds is not None and len(order) > 1:
            order.sort(key=seconds, reverse=self.way == "worst")
            if self.way == "near":
                order[:5] = rng.sample(order[:5], len(order[:5]))
        return order

    def __str__(self) -> str:
        machine = self.machine.name
        return (
            f"{self.mode} {self.numerics} {machine}, {self.threads} threads, {self.way} plans, "
            f"constant: {sorted(self.constants)}\n{self.values}\n{self.trace}"
        )


class Report(NamedTuple):
    """``kind`` is right, dropped, wrong or error; ``why`` says all there is to see it again."""

    kind: str
    why: str
    taken: Counter[str]


def run_case(seed: int, mode: Mode, points: int, name: str | None = None) -> Report:
    """Forces decisions on the program that ``seed`` stands for."""
    rng = random.Random(f"{mode}{seed}")
    drawn = draw_program(rng, points) if name is None else draw_formula(rng, points, name)
    forcing = draw_forcing(rng, mode, seed, drawn)
    shapes = [f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else str(a) for a in drawn.arguments]
    try:
        with np.errstate(all="ignore"):
            check(drawn, forcing)
    except NoMeaning:
        return Report("dropped", "", Counter())
    except Exception as error:
        kind = "wrong" if isinstance(error, Wrong) else "error"
        said = str(error) if kind == "wrong" else "".join(traceback.format_exception(error))[-3000:]
        return Report(kind, f"{said}\n{drawn.text}\n{' '.join(shapes)}\n{forcing}", forcing.taken)
    return Report("right", "", forcing.taken)


def draw_forcing(rng: random.Random, mode: Mode, seed: int, drawn: Drawn) -> Forcing:
    share = rng.choice((0, 0.1, 0.3, 0.6))
    values = {t: draw_value(rng, t) for t in thresholds(LISTED[mode]) if rng.random() < share}
    inputs = re.findall(r"\) (\w+)(?=[,)])", drawn.text.split("->")[0])
    constants = frozenset(n for n in inputs if rng.random() < 0.2) if rng.random() < 0.3 else frozenset()
    way = rng.choice(("random", "random", "random", "near", "worst", "best"))
    numerics: Any = "strict" if rng.random() < 0.25 else "fast"
    machine: Any = draw_gpu(rng) if mode == "gpu" else draw_cpu(rng)
    return Forcing(mode, numerics, machine, rng.choice((1, 2, 5, 16)), way, constants, values, seed)


def draw_cpu(rng: random.Random) -> Machine:
    machine = rng.choice((host_machine(), *MACHINES))
    if rng.random() < 0.5:
        sizes = rng.choice(CACHES)
        caches = tuple(c._replace(size=size) for c, size in zip(machine.facts.caches, sizes))
        machine = replace(machine, facts=machine.facts._replace(caches=caches))
    return machine


def draw_gpu(rng: random.Random) -> GpuMachine:
    machine = gpu_for_arch(rng.choice(("sm_80", "sm_90", "sm_90")))
    return replace(machine, name="small", sms=rng.choice((1, 2, 8))) if rng.random() < 0.6 else machine


def check(drawn: Drawn, forcing: Forcing) -> None:
    try:
        op = weft.define(drawn.text)
        signature = check_call(op.interface, drawn.arguments, None).signature
        made = build(op.program, signature, host_machine(), True, Scheduling("naive", "strict"))
        plain = made.unscheduled()
        narrow, wide = (evaluate(op.program, drawn.arguments, wide=wide) for wide in (False, True))
    except (weft.Error, ValueError) as why:
        raise NoMeaning from why
    given = dict(zip((p.name for p in op.program.params), drawn.arguments))
    arrays = [*(given[p.name] for p in made.program.params), *fresh_outputs(made.program)]
    kernel = schedule(Schedule(plain, numerics=forcing.numerics, machine=_cpu(forcing), sizes=made.sizes), forcing)
    found = run(plain, kernel, arrays, _cpu(forcing), fast=forcing.numerics == "fast")
    straight: list[Any] = []
    for n, (got, right, wider) in enumerate(zip(found, narrow, wide)):
        limit = tolerance(drawn.text, right, drawn.is_exact)
        off = min(distance(got, right, limit), distance(got, wider, limit))
        if off <= 1 and forcing.numerics == "fast":
            continue
        straight = straight or run(plain, plain, arrays, host_machine(), fast=False)
        if is_same(got, straight[n]):
            continue
        if forcing.numerics == "strict" and not any(isinstance(e, Call) for e in walk(plain)):
            raise Wrong(f"output {n} is not to the bit what plain loops give, by {off:.3g} tolerances")
        plainly = min(distance(straight[n], right, limit), distance(straight[n], wider, limit))
        if off > 1 and plainly < max(0.3, off / 20):
            raise Wrong(f"output {n} is off by {off:.3g} tolerances, that of plain loops by {plainly:.3g}")


def _cpu(forcing: Forcing) -> Machine:
    return host_machine() if forcing.mode == "gpu" else forcing.machine


def schedule(s: Schedule, forcing: Forcing) -> Kernel:
    """The kernel that the forced scheduler makes; for a GPU also written as CUDA."""
    with forced(forcing.values, thresholds(LISTED[forcing.mode])) as asked:
        try:
            if forcing.mode == "gpu":
                s = Schedule(s.kernel, numerics=forcing.numerics, sizes=s.sizes)
                decisions = auto_schedule_gpu(s, forcing.machine, forcing.constants, forcing.rank).decisions
                aligned = {b.name: 16 for b in s.kernel.buffers}
                emit_kernel(s.kernel, forcing.machine, fast=forcing.numerics == "fast", aligned=aligned)
            elif forcing.mode == "polyhedral":
                decisions = tuple(polyhedral_schedule(s, forcing.machine) or ())
            else:
                decisions = auto_schedule(
                    s, forcing.machine, forcing.threads, forcing.constants, forcing.rank
                ).decisions
        finally:
            forcing.trace = str(s.trace)
            forcing.taken.update(f"threshold {name}" for name in asked)
            forcing.taken.update(f"step {name}" for name in {step.name for step in s.trace.steps})
    forcing.taken.update(f"decision {words(d.topic, d.what)}" for d in decisions)
    return s.kernel


def words(topic: str, what: str) -> str:
    """A decision without the names and numbers in it."""
    said = re.sub(r"`[^`]*`|[0-9][\w.x*]*", "_", what)
    return f"{topic}: {said}"[:60]


def fresh_outputs(program: Any) -> list[Any]:
    """Outputs full of NaNs, or of what is added to."""
    made = []
    for o in program.outputs:
        array = np.ones(tuple(int(s.value) for s in o.shape), to_numpy(o.dtype))
        if o.name in program.carried:
            array[...] = initial_value(program, o.name).value  # type: ignore[union-attr]
        elif array.dtype.kind != "b":
            array.reshape(-1).view(np.uint8)[...] = 255
        made.append(array)
    return made


def run(plain: Kernel, kernel: Kernel, arrays: Sequence[Any], machine: Machine, *, fast: bool) -> list[Any]:
    """The outputs, between fences; arrays that are not rows of elements keep their strides."""
    dense = [isinstance(a, np.ndarray) and a.flags.c_contiguous for a in arrays]
    fences = [Fenced(a) if is_dense else a for a, is_dense in zip(arrays, dense)]
    given = merged_arguments(plain, kernel, [f.array if isinstance(f, Fenced) else f for f in fences])
    if status := Runner(kernel, machine, fast=fast)(*given):
        raise Wrong(f"status {status}")
    if not all(f.is_whole() for f in fences if isinstance(f, Fenced)):
        raise Wrong("written outside an array")
    outputs = len(plain.outputs)
    return [f.array for f in fences[len(fences) - outputs :]]  # type: ignore[union-attr]


def is_same(got: Any, right: Any) -> bool:
    if got.dtype.kind in "biu":
        return bool((got == right).all())
    a, b = got.astype(np.float64), right.astype(np.float64)
    return bool(((np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))).all())


def tolerance(text: str, right: Any, is_exact: bool) -> float:
    """How far a result may be off where the order of operations is free, by the narrowest type in the program."""
    narrow = {"bfloat16": 0.08, "float16": 0.03, "half": 0.03, "float": 3e-4}
    limit = next((t for name, t in narrow.items() if re.search(rf"\b{name}(32)?\b", text)), 1e-9)
    scale = max(1.0, np.abs(_finite(right)).max(initial=0))
    return float(scale * (min(limit, 1e-6) if is_exact and limit < 0.01 and scale < 2**23 else limit))


def _finite(array: Any) -> Any:
    wide = np.asarray(array).astype(np.float64)
    return wide[np.isfinite(wide)]


def distance(got: Any, right: Any, limit: float) -> float:
    """In tolerances; elements that are not finite must be so in both, unless narrow numbers leave their range."""
    if got.dtype.kind in "biu":
        return float((got != np.asarray(right).astype(got.dtype)).sum()) * 2
    a, b = got.astype(np.float64), np.asarray(right).astype(np.float64)
    near = np.isfinite(a) & np.isfinite(b)
    odd = ~near & ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if got.dtype.itemsize <= 2:
        odd &= np.isnan(a) & np.isfinite(b)
    return float("inf") if odd.any() else float(np.abs(a - b)[near].max(initial=0)) / limit
