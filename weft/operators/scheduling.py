"""How an operator is scheduled: by the automatic scheduler, not at all, by the polyhedral one, or by a given trace."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.ir.errors import ArgumentError, UnsupportedError, did_you_mean
from weft.ir.numerics import CHOICES, NUMERICS
from weft.ir.numerics import Numerics as Numerics
from weft.target import TARGETS, target_of

if TYPE_CHECKING:
    from weft.auto.plan import Decision
    from weft.schedules.schedule import Schedule
    from weft.schedules.trace import Form
    from weft.target.description import MachineDescription

#: auto: chosen by a model of the machine. naive: one nest a statement, as written. polyhedral: isl decides
#: fusion, skewing and parallelism. Anything else is the text of a trace.
MODES = ("auto", "naive", "polyhedral")


class Scheduling(NamedTuple):
    """``how`` is one of `MODES` or the text of a trace; a trace says its numerics itself.

    ``target`` makes the code; None: the first one for where the arrays of a call are. ``plan`` names another than the
    time model's first choice, on a GPU: one of `weft.auto.plan_names`.
    """

    how: str = "auto"
    numerics: Numerics = "fast"
    target: str | None = None
    plan: str = ""

    @property
    def trace(self) -> str | None:
        return None if self.how in MODES else self.how

    @property
    def form(self) -> Form:
        """Which form of a program is scheduled: what Weft chooses is for the normal form, and its traces say so."""
        if self.how == "auto" or (self.trace is not None and _NORMAL.search(self.how)):
            return "normal"
        return "written"

    @property
    def key(self) -> str:
        return f"{self.numerics} {self.target} {self.how}" + (f", {self.plan}" if self.plan else "")


DEFAULT = Scheduling()


def choose_scheduling(schedule: Any, numerics: Numerics | None, target: str | None = None) -> Scheduling:
    """What ``schedule=`` and ``numerics=`` of `define` mean: a mode, a trace or its text, or a `Schedule`."""
    check_target(target)
    if numerics not in (None, *NUMERICS):
        raise ArgumentError(f"numerics={numerics!r} is not known", help=f"use {CHOICES}")
    if schedule is None:
        return Scheduling(DEFAULT.how, numerics or DEFAULT.numerics, target)
    if isinstance(schedule, str) and schedule in MODES:
        return Scheduling(schedule, numerics or ("strict" if schedule == "naive" else "fast"), target)
    if isinstance(schedule, str) and schedule.strip().isidentifier():
        raise ArgumentError(
            f"schedule={schedule!r} is not known",
            help=did_you_mean(schedule, MODES) or f"use one of {', '.join(MODES)}, a trace, or a schedule",
        )
    text = schedule if isinstance(schedule, str) else _trace_text(schedule)
    match = _SAID.search(text)
    said: Numerics = "strict" if match is None else match[1]  # type: ignore[assignment]
    if numerics not in (None, said):
        raise ArgumentError(
            f'the trace is for numerics="{said}"',
            why=f'numerics="{numerics}" was asked for',
            help="leave numerics= out: the trace says it",
        )
    return Scheduling(text, said, target)


#: What others call the targets.
_OTHER_NAMES = dict.fromkeys(("gpu", "nvidia", "ptx", "nvptx"), "cuda") | dict.fromkeys(("llvm", "x86", "host"), "cpu")


def check_target(target: Any) -> None:
    """Raises where there is no target of this name."""
    if target is not None and target not in TARGETS:
        meant = did_you_mean(_OTHER_NAMES.get(str(target).lower(), str(target)), TARGETS)
        help = meant or f"use one of: {', '.join(TARGETS)}"
        raise ArgumentError(f"there is no target `{target}`", help=help)


#: How a trace says its numerics. It is not parsed here: a warm start does not load the rewrites.
_SAID = re.compile(rf'^numerics = "({"|".join(NUMERICS)})"', re.MULTILINE)

_NORMAL = re.compile(r'^form = "normal"', re.MULTILINE)


def _trace_text(schedule: Any) -> str:
    from weft.schedules.schedule import Schedule
    from weft.schedules.trace import Trace

    trace = schedule.trace if isinstance(schedule, Schedule) else schedule
    if not isinstance(trace, Trace):
        raise ArgumentError(
            f"schedule= takes a mode, a trace or a schedule, not {type(schedule).__name__}",
            help=f"use one of {', '.join(MODES)}, the text of a trace, or a weft.schedule",
        )
    return str(trace)


def thread_key(how: Scheduling) -> str:
    """What machine code depends on of the threads there are: where Weft chooses, their number."""
    if how.how not in ("auto", "polyhedral"):
        return ""
    from weft.runtime.threads import get_num_threads

    return str(get_num_threads())


def apply_scheduling(
    schedule: Schedule, how: Scheduling, machine: MachineDescription, constants: frozenset[str] = frozenset()
) -> tuple[Decision, ...]:
    """Schedules as ``how`` says; the decisions taken, where Weft takes them.

    What depends on ``constants`` alone, parameters with the same values in every call, costs nothing.
    """
    if how.trace is not None:
        from weft.target import every_intrinsic as _every_intrinsic  # noqa: F401  which it may name

        schedule.apply(how.trace)
        return ()
    if how.how == "naive":
        return ()
    return _SCHEDULERS[target_of(machine).device](schedule, how, machine, constants)


def _schedule_for_cpu(
    schedule: Schedule, how: Scheduling, machine: Any, constants: frozenset[str]
) -> tuple[Decision, ...]:
    from weft.runtime.threads import get_num_threads

    if how.how == "polyhedral":
        from weft.auto.polyhedral import polyhedral_schedule

        return tuple(polyhedral_schedule(schedule, machine))
    from weft.auto.scheduler import auto_schedule

    return auto_schedule(schedule, machine, get_num_threads(), constants).decisions


def _schedule_for_gpu(
    schedule: Schedule, how: Scheduling, machine: Any, constants: frozenset[str]
) -> tuple[Decision, ...]:
    if how.how == "polyhedral":
        raise UnsupportedError(
            'schedule="polyhedral" is for CPUs',
            why="it decides what runs in parallel, not what is a block and what a thread",
            help='use schedule="auto" for arrays on a GPU',
        )
    if how.plan:
        from weft.auto.gpu.other_plans import schedule_otherwise

        return schedule_otherwise(schedule, machine, constants, how.plan).decisions
    from weft.auto.gpu.scheduler import auto_schedule_gpu

    return auto_schedule_gpu(schedule, machine, constants).decisions


#: How programs are scheduled, by the device that their target is for.
_SCHEDULERS: Mapping[str, Callable[[Schedule, Scheduling, Any, frozenset[str]], tuple[Decision, ...]]] = {
    "cpu": _schedule_for_cpu,
    "cuda": _schedule_for_gpu,
}
