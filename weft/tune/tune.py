"""`op.tune`: an operator tuned for one kind of call, and what was found put to use."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from weft.auto.scheduler import auto_schedule as _auto_schedule  # noqa: F401  loaded before the clock starts
from weft.ir.errors import ArgumentError, UnsupportedError
from weft.operators.dynamic import dynamic_sizes
from weft.operators.operator import Operator, check_overlap
from weft.operators.signature import Arguments, bind_arguments, check_call
from weft.operators.tuned import task_of
from weft.runtime.argument import ArgumentInfo
from weft.runtime.records import Records, Task, default_records
from weft.runtime.threads import get_num_threads
from weft.tune.guarded import take
from weft.tune.job import Job
from weft.tune.knob_space import KnobSpace
from weft.tune.plan_space import PlanSpace
from weft.tune.sketch_space import SketchSpace
from weft.tune.spaces import Space, Together
from weft.tune.strategies import check_strategy, find_strategy
from weft.tune.strategies.strategy import Strategy
from weft.tune.subject import Subject
from weft.tune.trace_space import TraceSpace
from weft.tune.tuned import Tuned
from weft.tune.tuner import Tuner

#: Traces of earlier records that a search begins with.
_SEEDS = 4


def tune_operator(
    op: Operator,
    args: Sequence[Any],
    *,
    seconds: float = 30.0,
    strategy: str = "evolution",
    seed: int = 0,
    schedule: Callable[[Any], object] | None = None,
    out: Any = None,
    progress: Callable[[Tuned], object] | bool | None = None,
) -> Tuned:
    """See `Operator.tune`."""
    begun = time.monotonic()
    call = _checked_call(op, args, out, seconds)
    subject = Subject(op, _fresh_signature(op, call))
    task = task_of(op._definition, op._definition.complete(subject.signature), subject.machine)
    automatic = str(subject.automatic().trace)
    records = default_records()
    space: Space | None = None

    def start() -> Strategy:
        nonlocal space
        space = KnobSpace(subject, schedule) if schedule is not None else full_space(subject, automatic)
        return find_strategy(strategy, space, seed, subject.price)

    check_strategy(strategy)
    given = tuple(take(v) if isinstance(v, ArgumentInfo) else v for v in call.values)
    outputs = None if call.outputs is None else tuple(map(take, call.outputs))
    job = Job(op, subject.signature, given, outputs, get_num_threads())
    seeds = [] if schedule is not None else find_seeds(records, task, automatic)
    told = _printer() if progress is True or (progress is None and sys.stderr.isatty()) else progress
    tuner = Tuner(
        job, task, op.name, automatic, start, records, seeds, (strategy, seed), told if callable(told) else None
    )
    found = tuner.run(begun, seconds)
    found.refused = space.refused if space is not None else found.refused
    op._look_again()
    return found


def _checked_call(op: Operator, args: Sequence[Any], out: Any, seconds: float) -> Arguments:
    definition = op._definition
    if not seconds > 0:
        raise ArgumentError(f"seconds={seconds!r} leaves no time to tune", help="allow 10 seconds or more")
    if definition.how.how != "auto":
        raise ArgumentError(
            f"{op.name} has a schedule that was given", why="tuning looks for a better one than the automatic schedule",
            help="tune the operator without schedule=, or pass tune a schedule= function with knobs",
        )  # fmt: skip
    call = check_call(op.interface, bind_arguments(op.interface, list(args), {}), out)
    if (call.device or definition.device) != "cpu" or op._target_on("cpu") != "cpu":
        raise UnsupportedError(f"{op.name} cannot be tuned for this target yet", help="tune with arrays on the CPU")
    if call.outputs is None:
        op._check_needed()
    else:
        check_overlap(op.interface, call.values, call.outputs)
    whole = definition.complete(call.signature)
    if dynamic_sizes(definition.whole_interface, whole, definition.dynamic):
        raise UnsupportedError(
            f"{op.name} leaves sizes open", why="one program is compiled for all their values",
            help="tune an operator without dynamic=",
        )  # fmt: skip
    return call


def _fresh_signature(op: Operator, call: Arguments) -> Any:
    """Calls with outputs like fresh ones run the same code as those without."""
    if any(o.needed for o in op.interface.outputs) or not all(x.is_dense for _, x in call.signature.outputs):
        return call.signature
    return call.signature._replace(outputs=())


def full_space(subject: Subject, automatic: str) -> Space:
    """Plans, changes to traces, and sketches."""
    return Together([PlanSpace(subject), SketchSpace(subject)], TraceSpace(subject, automatic))


def find_seeds(records: Records, task: Task, automatic: str) -> list[str]:
    """Traces that were best for the same program: of these sizes by another compiler or machine, or of others."""
    best = [m for m in records.all(program=task.program) if m.ended in ("best", "won") and m.trace != automatic]
    order = sorted(best, key=lambda m: (m.task.sizes != task.sizes, m.ended != "best", m.ratio or 1.0))
    return list(dict.fromkeys(m.trace for m in order))[:_SEEDS]


def _printer() -> Callable[[Tuned], object]:
    def tell(found: Tuned) -> None:
        gain = found.automatic_seconds / found.best_seconds
        print(f"\r{found.name}: {found.trials} candidates, best {gain:.2f} times as fast", end="", file=sys.stderr)

    return tell
