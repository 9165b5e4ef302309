"""`op.explain`: what the schedule for given arguments does and why, and what time a model of the machine expects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from weft.auto.estimate import Estimate, estimate
from weft.auto.gpu.estimate import LaunchEstimate, estimate_gpu
from weft.auto.plan import Decision, Topic
from weft.ir.errors import Error
from weft.ir.numerics import is_fast
from weft.ir.stmt import Kernel
from weft.operators.schedule import explained_schedule
from weft.operators.tuned import program_digest
from weft.passes.plain.separate_constants import separate_constants
from weft.runtime.records import default_records
from weft.runtime.threads import get_num_threads
from weft.target import target_of
from weft.target.cpu.host import Machine
from weft.target.cuda.machine import GpuMachine
from weft.tensor.cost import Cost, infer_cost

if TYPE_CHECKING:
    from weft.operators.operator import Operator
    from weft.operators.schedule import OperatorSchedule
    from weft.target.cpu.machine_model import MachineModel


def explain(op: Operator, args: tuple[Any, ...], named: Mapping[str, Any], target: str | None = None) -> str:
    schedule, decisions = explained_schedule(op, args, named, target)
    how = op._definition.how
    mode = "a given trace" if how.trace is not None else f'schedule="{how.how}"'
    lines = [f'{op.name}, scheduled by {mode}, numerics="{how.numerics}"']
    if schedule.by_trace and how.trace is None:
        lines += ["", _record_of(op, str(schedule.trace))]
    made = separate_constants(schedule.kernel, frozenset(op._definition.bound))
    facts = _gpu_facts if target_of(schedule.for_machine).device == "cuda" else _expectation
    lines += facts(schedule, made.main, made.prepare)
    lines += ["", *describe_decisions(decisions)]
    return "\n".join([*lines, "", schedule.explain()])


def _record_of(op: Operator, trace: str) -> str:
    """Which measurement the schedule is from."""
    found = [m for m in default_records().all(program=program_digest(op._definition)) if m.ended == "best"]
    number, gain = next(((m.number, m.ratio) for m in reversed(found) if m.trace == trace), (0, None))
    gained = "" if gain is None else f", {1 / gain:.2f} times as fast as the automatic schedule when it was measured"
    return f"tuned:    by record {number}{gained}"


def _expectation(schedule: OperatorSchedule, main: Kernel, once: Kernel | None) -> list[str]:
    """The time to expect of a call, what bounds it, and how near that is to what the machine can do at best."""
    machine = schedule.for_machine
    assert isinstance(machine, Machine)
    threads, model = get_num_threads(), machine.model
    fast = is_fast(schedule.numerics)
    expected = estimate(main, model, threads, fast=fast, sizes=schedule.sizes)
    lines = ["", f"expected: {_time(expected.seconds)} on {_threads(expected.threads)}, bound by {_bound(expected)}"]
    if once is not None:
        lines.append(_once(estimate(once, model, threads, fast=fast, sizes=schedule.sizes).seconds))
    if schedule.program.sizes:  # the least cost is that of given sizes
        return lines
    try:
        least = infer_cost(schedule.program)
    except Error:
        return lines
    least = replace(least, flops=min(least.flops, round(expected.flops)))  # what is shared is computed once
    best, limit = _least_time(least, model, threads)
    moved = _amount(least.bytes_read + least.bytes_written)
    lines.append(f"at best:  {_time(best)}, by {limit}: {_amount(least.flops)} operations, {moved}B moved")
    lines.append(f"          this schedule is expected at {min(1.0, best / expected.seconds):.0%} of that speed")
    return lines + _by_statement(expected)


def _once(seconds: float) -> str:
    return f"once:     {_time(seconds)} before the first call, for what depends on bound arguments alone"


def _gpu_facts(schedule: OperatorSchedule, main: Kernel, once: Kernel | None) -> list[str]:
    """The GPU it is for, the time to expect and what bounds it, and the time that no schedule can beat there."""
    machine = schedule.for_machine
    assert isinstance(machine, GpuMachine)
    lines = ["", f"for:      {machine.name} ({machine.arch}), {machine.sms} multiprocessors"]
    expected = estimate_gpu(main, machine, sizes=schedule.sizes)
    lines.append(f"expected: {_time(expected.seconds)}, bound by {expected.bound}")
    if once is not None:
        lines.append(_once(estimate_gpu(once, machine, sizes=schedule.sizes).seconds))
    lines += [f"  {_launch_text(launch, machine)}" for launch in expected.launches]
    try:
        least = infer_cost(schedule.program)
    except Error:
        return lines
    moved = least.bytes_read + least.bytes_written
    if not isinstance(moved, int):
        return lines
    best = moved / machine.bandwidth
    return [*lines, f"at best:  {_time(best)}, by the bandwidth of memory: {_amount(moved)}B moved"]


def _launch_text(launch: LaunchEstimate, machine: GpuMachine) -> str:
    """One launch: its blocks, how many of them a multiprocessor has at a time, and what takes its time."""
    work, time = launch.work, launch.time
    occupancy = min(1.0, time.resident * work.threads / machine.max_threads_per_sm)
    grid = f"{work.blocks:.0f} blocks of {work.threads} threads, occupancy {occupancy:.0%}"
    return f"{', '.join(launch.names)}: {_time(time.seconds)}, bound by {time.bound}; {grid}"


def _least_time(least: Cost, model: MachineModel, threads: int) -> tuple[float, str]:
    """Seconds that no schedule can beat, and why: arithmetic at its peak, or every byte moved once."""
    used = min(threads, model.cores)
    compute = least.flops / (model.peak * used)
    total = least.bytes_read + least.bytes_written
    level = next((v for v in model.levels if total <= v.size * (used if v.shared_by == 1 else 1)), model.memory)
    read, write = (level.read, level.write) if used == 1 else (level.read_all, level.write_all)
    move = least.bytes_read / read + least.bytes_written / write
    return (compute, "arithmetic") if compute >= move else (move, f"the bandwidth of {level.name}")


def _by_statement(expected: Estimate) -> list[str]:
    """Statements that take a good part of the time, if there are several."""
    large = [n for n in expected.nests if n.seconds > expected.seconds / 50]
    if len(large) < 2:
        return []
    width = max(len(n.block) for n in large)
    return [f"  {n.block:<{width}}  {_time(n.seconds):>9}  bound by {n.bound}" for n in large]


def _bound(expected: Estimate) -> str:
    if expected.bound != "compute" or not expected.peak:
        return expected.bound
    rate = expected.flops / expected.seconds / 1e9
    return f"compute, {rate:.0f} of {expected.peak * expected.threads / 1e9:.0f} GFLOP/s"


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count != 1)}"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1 or unit == "us":
            return f"{seconds * scale:.3g} {unit}"
    raise AssertionError


def _amount(count: float) -> str:
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} "


def describe_decisions(decisions: tuple[Decision, ...]) -> list[str]:
    """Decisions under their topics, each with its reason."""
    lines: list[str] = []
    for topic in get_args(Topic):
        of_topic = [d for d in decisions if d.topic == topic]
        if of_topic:
            lines.append(f"{topic}:")
            lines += [f"  {d.subject}: {d.what}; {d.why}" for d in of_topic]
    return lines or ["nothing was changed: the loops run as written"]
