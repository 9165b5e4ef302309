"""`weft.schedule`: an operator's loop program, to be scheduled by hand and built into an operator again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from weft.auto.plan import Decision
from weft.ir.at_the_call import methods_told_at_the_call, told_at_the_call
from weft.ir.errors import ArgumentError
from weft.operators.choose_machine import choose_machine
from weft.operators.interface import Interface
from weft.operators.operator import Operator
from weft.operators.scheduling import Numerics, Scheduling, apply_scheduling
from weft.operators.signature import Layout, Signature, layout_of
from weft.operators.stages import Build
from weft.runtime.arrays import describe, device_of, is_on_gpu, scalar_value
from weft.runtime.pause_collector import collector_paused
from weft.schedules.finished import remember_finished
from weft.schedules.schedule import Schedule
from weft.schedules.trace import Form, Trace, parse_trace
from weft.target import every_intrinsic as _every_intrinsic  # noqa: F401  which steps may name
from weft.target.description import MachineDescription

T = TypeVar("T")


@methods_told_at_the_call
class OperatorSchedule(Schedule):
    """A schedule of an operator: primitives as on any `Schedule`, then `build`."""

    def __init__(
        self,
        op: Operator,
        *,
        numerics: Numerics,
        made: Build,
        form: Form = "written",
    ) -> None:
        self._made = replace(made, how=made.how._replace(numerics=numerics))
        self._begin(form)
        self._operator = op
        self.program = made.program
        self.for_machine = made.machine
        #: values of `knob` there are, and which of them are taken, by their place in the list
        self.offered: dict[str, tuple[Any, ...]] = {}
        self.chosen: dict[str, int] = {}
        #: whether the steps are those of a given trace, or of a record of tuning
        self.by_trace = made.how.trace is not None

    def _begin(self, form: Form) -> None:
        made = self._made
        loops, form = made.loops(form)
        super().__init__(loops, numerics=made.how.numerics, machine=made.machine, sizes=made.sizes, form=form)

    def apply(self, trace: Trace | str) -> None:
        """As for any schedule; the steps of a trace that begins with the normal form begin with it here, too."""
        steps = parse_trace(trace) if isinstance(trace, str) else trace
        if isinstance(steps, Trace) and steps.form != self.trace.form and not self.trace.steps:
            self._begin(steps.form)
        super().apply(steps)

    def knob(self, name: str, values: Sequence[T]) -> T:
        """One of ``values``, the first unless this is tuned (`op.tune(..., schedule=function)`).

        >>> s.split(m, s.knob("tile_m", [4, 8, 16]))
        """
        if not values or self.offered.get(name, tuple(values)) != tuple(values):
            what = "has no values" if not values else "was asked for before with other values"
            raise ArgumentError(f"knob `{name}` {what}", help=f's.knob("{name}", [4, 8, 16]) gives one of the values')
        self.offered[name] = tuple(values)
        return values[min(self.chosen.get(name, 0), len(values) - 1)]

    def build(self) -> Operator:
        """An operator that replays this schedule for every signature it is called with."""
        remember_finished(self)
        return self._operator.with_schedule(self.trace)


@told_at_the_call
def schedule(
    op: Operator, /, *args: Any, numerics: Numerics = "strict", target: str | None = None, **named: Any
) -> OperatorSchedule:
    """The schedule of ``op`` for the sizes of these arguments: arrays or shapes; without any, sizes are symbolic.

    It is for ``target``, or for where the arrays are.

    >>> s = weft.schedule(weft.ops.matmul, A=(1024, 1024), B=(1024, 1024))
    >>> m, n, k = s.loops("C")
    >>> s.parallel(m)
    >>> mm = s.build()
    """
    if not isinstance(op, Operator):
        raise ArgumentError(f"schedule takes an operator, not {type(op).__name__}", help="weft.schedule(op)")
    made = op._build(*_kind_of_call(op, args, named, target))
    started = OperatorSchedule(op, numerics=numerics, made=made)
    if op.trace is not None:
        started.apply(op.trace)
    return started


@collector_paused()
def explained_schedule(
    op: Operator, args: tuple[Any, ...], named: Mapping[str, Any], target: str | None = None
) -> tuple[OperatorSchedule, tuple[Decision, ...]]:
    """The schedule that ``op`` is compiled with for these arguments, and the decisions it came from."""
    signature, machine = _kind_of_call(op, args, named, target)

    def scheduled(how: Scheduling) -> tuple[OperatorSchedule, tuple[Decision, ...]]:
        made = op._build(signature, machine, how)
        started = OperatorSchedule(op, numerics=how.numerics, made=made, form=how.form)
        return started, apply_scheduling(started, how, machine, frozenset(op._definition.bound))

    return op._by_record(signature, machine, scheduled)


def _kind_of_call(
    op: Operator, args: tuple[Any, ...], named: Mapping[str, Any], target: str | None
) -> tuple[Signature | None, MachineDescription]:
    """What code for these arguments would be made for."""
    given = [*args, *named.values()]
    devices = [d for d in map(device_of, given) if d == "cpu" or is_on_gpu(d)]
    machine = choose_machine(target or op._target, devices[0] if devices and devices[0] else op._definition.device)
    return _signature(op.interface, args, named) if args or named else None, machine


def _signature(interface: Interface, args: tuple[Any, ...], named: Mapping[str, Any]) -> Signature:
    """What the given arrays, shapes and constants say; scalars that are only values may be left out."""
    given = dict(zip((p.name for p in interface.params), args))
    names = {p.name for p in interface.params} | {o.name for o in interface.outputs}
    wrong = [n for n in named if n not in names or n in given]
    if wrong or len(args) > len(interface.params):
        what = f"`{wrong[0]}` does not fit" if wrong else f"{len(args)} arguments are too many for"
        raise ArgumentError(f"{what} {interface.name}", why=f"it is {interface}")
    given.update(named)
    missing = [p.name for p in interface.params if p.role != "scalar" and p.name not in given]
    if missing:
        raise ArgumentError(
            f"the shape of `{missing[0]}` is missing",
            why=f"{interface.name} is {interface}",
            help="give all shapes, or none for symbolic sizes",
        )
    tensors = tuple((p.name, _layout(p.name, p.dtype, given[p.name])) for p in interface.params if p.role == "tensor")
    constants = tuple(
        (p.name, int(scalar_value(given[p.name], p.dtype, name=p.name)))
        for p in interface.params
        if p.role == "constant"
    )
    outputs = tuple((o.name, _layout(o.name, o.dtype, given[o.name])) for o in interface.outputs if o.name in given)
    return Signature(tensors, constants, outputs)


def _layout(name: str, dtype: str, value: Any) -> Layout:
    """The layout of an array, or a dense one of the shape given."""
    if isinstance(value, (tuple, list)) and all(isinstance(n, int) and n >= 0 for n in value):
        return Layout.dense(dtype, tuple(value))
    return layout_of(describe(value, name=name, dtype=dtype))
