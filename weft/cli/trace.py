"""Write a page that shows a program after every step of its compilation, with what each step changed.

weft trace mm.weft out.html --size M=64 --size N=64 --size K=32
weft trace mm.weft out.html --target cuda --size M=64 --size N=64 --size K=32
weft trace model.onnx out.html --size n=8
weft trace mm.weft out.html --schedule tiled.txt --size M=64 --size N=64 --size K=32

Without a schedule it shows what a call would run: every step that the automatic scheduler takes, then every pass.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from weft.cli.inputs import add_file, add_inputs, make_arguments, read_operator, read_source
from weft.cli.models import is_model
from weft.cli.trace_page import Snapshot, emit_page
from weft.ir.errors import ArgumentError
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.operators.choose_machine import choose_machine
from weft.operators.operator import Operator
from weft.operators.scheduling import apply_scheduling, choose_scheduling
from weft.operators.signature import bind_arguments, check_call
from weft.operators.stages import Build, build, show_kernel
from weft.passes.registry import trace_passes
from weft.schedules.schedule import Schedule
from weft.schedules.trace import Trace, parse_trace
from weft.target import TARGETS, target_of
from weft.tensor.lower import lower
from weft.tensor.normalize import normalize
from weft.tensor.printer import print_program

Made = TypeVar("Made")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser, models=True)
    parser.add_argument("output", type=Path, help="the HTML file to write")
    parser.add_argument(
        "--schedule", type=Path, metavar="FILE", help="a schedule, as `print(s.trace)` writes it (default: automatic)"
    )
    parser.add_argument("--target", choices=tuple(TARGETS), default="cpu", help="what for (default cpu)")
    add_inputs(parser)


def main(options: argparse.Namespace) -> int:
    title, machine, snapshots = _model(options) if is_model(options.file) else _program(options)
    page = emit_page(title, machine, snapshots)
    try:
        options.output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"cannot write {options.output}", why=error.strerror or str(error)) from None
    changes = sum(a.text != b.text for a, b in pairwise(snapshots))
    print(f"{options.output}: {len(snapshots)} steps, {changes} of which change something")
    return 0


def _model(options: argparse.Namespace) -> tuple[str, str, list[Snapshot]]:
    if options.schedule is not None or options.target != "cpu":
        raise ArgumentError(
            f"{options.file} is a model, which has no schedule of its own",
            why="each of its kernels is scheduled automatically, for this CPU",
            help="leave --schedule and --target out",
        )
    from weft.cli.trace_model import trace_model

    return trace_model(options)


def _program(options: argparse.Namespace) -> tuple[str, str, list[Snapshot]]:
    """What the page is about, for which machine, and its steps."""
    op = read_operator(options)
    trace = None if options.schedule is None else parse_trace(read_source(options.schedule), options.schedule.name)
    made = _specialized(op, trace, options)
    return str(op.interface), made.machine.name, list(take_snapshots(made, trace))


def _specialized(op: Operator, trace: Trace | None, options: argparse.Namespace) -> Build:
    """Sizes stay symbolic where none are given."""
    machine = choose_machine(options.target)
    how = op._definition.how if trace is None else choose_scheduling(trace, None)
    if not options.arg and not options.size and op.interface.params:
        return build(op.program, None, machine, True, how)
    arguments = bind_arguments(op.interface, tuple(make_arguments(op.interface, options)), {})
    return build(op.program, check_call(op.interface, arguments, None).signature, machine, True, how)


#: What the page calls the texts of targets; other stages need tools that may be missing.
_TITLES = {"llvm": "LLVM", "asm": "assembly", "c": "C", "cuda": "CUDA", "ptx": "PTX"}


def take_snapshots(made: Build, trace: Trace | None = None) -> Iterator[Snapshot]:
    """The program as math, as loops, after each step of the schedule, after each pass, and as machine code.

    The schedule is that of ``trace``, or the one that Weft chooses.
    """
    yield Snapshot("start", "tensor program", print_program(made.program))
    form = made.how.form if trace is None else trace.form
    formed, seconds = _timed(lambda: made.formed(form)[0])
    if formed is not made.program:
        yield Snapshot("front", "normal form", print_program(formed), seconds)
    program, seconds = _timed(lambda: normalize(formed))
    yield Snapshot("front", "normalize", print_program(program), seconds)
    kernel, seconds = _timed(lambda: lower(program, checks=made.checks))
    yield Snapshot("front", "lower to loops", print_kernel(kernel), seconds)
    chosen = _schedule(kernel, made)
    if trace is None:
        apply_scheduling(chosen, made.how, made.machine)
    else:
        chosen.apply(trace)  # what is wrong with it is told before anything else
    yield from _schedule_steps(_schedule(kernel, made), trace or chosen.trace)
    kernel = chosen.kernel
    target = target_of(made.machine)
    names, context = target.passes(made.machine, fast=made.fast)
    for step in trace_passes(names, kernel, context):
        yield Snapshot("pass", step.by.name, print_kernel(step.kernel), step.seconds)
    for stage in (s for s in target.stages if s in _TITLES):
        text, seconds = _timed(lambda stage=stage: show_kernel(kernel, stage, made.machine, fast=made.fast))  # type: ignore[misc]
        yield Snapshot("code", _TITLES[stage], text, seconds, fresh=True)


def _schedule(kernel: Kernel, made: Build) -> Schedule:
    return Schedule(kernel, numerics=made.how.numerics, machine=made.machine, sizes=made.sizes)


def _schedule_steps(schedule: Schedule, trace: Trace) -> Iterator[Snapshot]:
    start = time.perf_counter()
    for step in schedule.replayed(trace):
        seconds = time.perf_counter() - start
        yield Snapshot("schedule", str(step), print_kernel(schedule.kernel), seconds)
        start = time.perf_counter()


def _timed(make: Callable[[], Made]) -> tuple[Made, float]:
    begin = time.perf_counter()
    result = make()
    return result, time.perf_counter() - begin
