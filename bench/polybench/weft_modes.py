"""Weft on the programs: formulas through `weft.define`, loop programs through a `Schedule`, in either mode."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import weft
from bench.field.peers import Array, Call, Prepared
from bench.field.workloads import Workload
from bench.polybench.programs import FOLDER, Program


def version() -> str:
    return str(weft.__version__)


def definition(name: str) -> str:
    """The text of one definition of ``programs.weft``."""
    text = (FOLDER / "programs.weft").read_text(encoding="utf-8")
    return next(part for part in re.split(r"\n{2,}", text) if re.search(rf"^def {name}\(", part, re.MULTILINE))


def compile_formula(program: Program, mode: str, inputs: Mapping[str, Array], results: Mapping[str, Array]) -> Call:
    op = weft.define(definition(program.family.definition), name=program.family.definition, schedule=mode)
    args, out = list(inputs.values()), tuple(results.values())
    return partial(op, *args, out=out if len(out) > 1 else out[0])


def compile_loops(program: Program, mode: str, inputs: Mapping[str, Array], results: Mapping[str, Array]) -> Call:
    from weft.ir.parser import parse_kernel
    from weft.runtime.kernel import load_kernel
    from weft.schedules.schedule import Schedule
    from weft.target.cpu.host import host_machine
    from weft.target.cpu.lower import compile_kernel

    kernel = parse_kernel(program.loops_text(), program.family.definition)
    schedule = Schedule(kernel, numerics="fast", machine=host_machine())
    choose(schedule, mode)
    made = compile_kernel(schedule.kernel, host_machine(), fast=True)
    arrays = [*program.read_only(inputs), *results.values()]
    loaded = load_kernel(made.object, made.entry, [None] * len(arrays), made.messages)
    pointers = [a.ctypes.data for a in arrays]
    return lambda: loaded.run(pointers)


def choose(schedule: Any, mode: str) -> None:
    """Applies the schedule that ``mode`` chooses."""
    from weft.auto.polyhedral import polyhedral_schedule
    from weft.auto.scheduler import auto_schedule
    from weft.runtime.threads import get_num_threads
    from weft.target.cpu.host import host_machine

    if mode == "auto":
        auto_schedule(schedule, host_machine(), get_num_threads())
    elif mode == "polyhedral":
        polyhedral_schedule(schedule, host_machine(), get_num_threads())


def prepare_mode(mode: str, workload: Workload, inputs: Mapping[str, Array], threads: int) -> Prepared:
    assert isinstance(workload, Program)
    weft.set_num_threads(threads)
    results = workload.make_results(inputs)
    compile_it: Callable[..., Call] = compile_loops if workload.in_place else compile_formula
    start = time.perf_counter()
    call = compile_it(workload, mode, inputs, results)
    call()
    took = time.perf_counter() - start

    def run() -> None:
        workload.restart(inputs, results)
        call()

    def after() -> tuple[Array, ...]:
        run()
        return tuple(results.values())

    return Prepared({"filling": run}, after, {"cold": took})
