"""Operators: callables that compile themselves for the arrays they are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from weft.ir.at_the_call import told_at_the_call
from weft.ir.errors import ArgumentError, Error, InternalError
from weft.ir.shown import Shown, as_html
from weft.ir.span import Source
from weft.operators.bind import bind_values, check_bound_device
from weft.operators.callee import Callee
from weft.operators.choose_machine import choose_machine
from weft.operators.definition import Definition
from weft.operators.dynamic import dynamic_sizes
from weft.operators.interface import Interface
from weft.operators.reproduce import faults_reproduced
from weft.operators.scheduling import Numerics, Scheduling, choose_scheduling
from weft.operators.signature import Signature, bind_arguments, check_call
from weft.operators.specialization import Specialization, find_specialization
from weft.operators.tuned import by_record
from weft.operators.warn import warn_once
from weft.runtime.argument import ArgumentInfo
from weft.runtime.arrays import overlaps
from weft.runtime.executor import Executor
from weft.runtime.fastcall import MISS

if TYPE_CHECKING:
    from weft.operators.schedule import OperatorSchedule
    from weft.operators.stages import Build
    from weft.target.description import MachineDescription
    from weft.tensor.program import TensorProgram

T = TypeVar("T")


class Operator(Callee):
    """A tensor program one can call.

    >>> mm = weft.define("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")
    >>> C = mm(A, B)                      # compiled for these types, shapes and strides on first use
    >>> mm(A, B, out=C)                   # into a given array
    >>> print(mm.show("loops", A, B))     # any stage of the compilation
    """

    def __init__(self, definition: Definition, *, checks: bool = True) -> None:
        super().__init__(definition.how.target)
        self._definition = definition
        self._checks = checks

    @property
    def interface(self) -> Interface:
        return self._definition.interface

    @property
    def program(self) -> TensorProgram:
        """The tensor program, sizes symbolic."""
        return self._definition.program

    @property
    def source(self) -> str:
        """The text of the definition."""
        return self._definition.source.text

    @property
    def defs(self) -> dict[str, Operator]:
        """Every definition of the same text, as an operator."""
        programs = self._definition.programs
        return {name: Operator(self._definition.sibling(name), checks=self._checks) for name in programs}

    @property
    def trace(self) -> str | None:
        """The text of the schedule it replays for every signature; None where Weft chooses."""
        return self._definition.how.trace

    @told_at_the_call
    def with_schedule(self, schedule: Any, *, numerics: Numerics | None = None) -> Operator:
        """This operator scheduled another way: "auto", "naive", "polyhedral", a trace or its text, or a schedule."""
        how = choose_scheduling(schedule, numerics, self._target)
        return Operator(self._definition.scheduled(how), checks=self._checks)

    @told_at_the_call
    def bind(self, /, **values: Any) -> Operator:
        """This operator with some arguments fixed: what depends on them alone, packing included, is done once.

        Arrays are copied: later changes to them have no effect.

        >>> layer = linear.bind(W=weights, b=bias)
        >>> layer(x)
        """
        return Operator(bind_values(self._definition, values), checks=self._checks)

    def guards(self) -> str:
        """A table of what is compiled so far, and what in a call would cause a new compilation."""
        from weft.operators.guards import describe_guards

        return Shown(describe_guards(self._definition, self._known))

    @told_at_the_call
    def schedule(self, /, *args: Any, target: str | None = None, **named: Any) -> OperatorSchedule:
        """The schedule that a call with these arguments uses, to be read, changed and built: arrays or shapes.

        Without ``target=``, it is for the operator's own, or for where the arrays are.

        >>> s = mm.schedule(A=(512, 512), B=(512, 512))
        >>> print(s.trace)
        """
        from weft.operators.schedule import explained_schedule

        return explained_schedule(self, args, named, target)[0]

    @told_at_the_call
    def explain(self, /, *args: Any, target: str | None = None, **named: Any) -> str:
        """What the schedule for these arguments (arrays or shapes) does and why, in words and numbers."""
        from weft.operators.explain import explain

        return Shown(explain(self, args, named, target))

    def tune(self, /, *args: Any, seconds: float = 30.0, **options: Any) -> Any:
        """Measures other schedules for calls with these arrays, for about so many seconds of wall time, and keeps the
        fastest: calls like this one use it from then on, here and in later processes. Ctrl-C keeps what was found.

        ``strategy=`` is one of `weft.tune.strategies.STRATEGIES`, ``seed=`` draws the same candidates again; with
        ``schedule=`` they are the knobs of a function of a schedule. ``out=`` gives outputs that are read.

        >>> print(mm.tune(A, B, seconds=30))
        """
        from weft import operators

        if operators.tune_operator is None:
            raise InternalError("weft.tune is not there")
        return operators.tune_operator(self, args, seconds=seconds, **options)

    def _repr_html_(self) -> str:
        return as_html(self.source.strip(), str(self.interface))

    def __repr__(self) -> str:
        return f"<weft operator {self.interface}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold the definition alone; machine code is found again where they are used."""
        source = self._definition.source
        definition = self._definition
        bound = {n: v.owner if isinstance(v, ArgumentInfo) else v for n, v in definition.bound.items()}
        options = definition.entry, definition.how, definition.dynamic
        return _restore, (source.name, source.text, options, self._checks, bound)

    @told_at_the_call
    def _call_slowly(self, /, *args: Any, out: Any = None, **named: Any) -> Any:
        """A call no known specialization fits as it stands: check everything, compile if need be, run."""
        try:
            bound = bind_arguments(self.interface, args, named)
            if named and self._table is not None:
                result = self._table.call(out, *bound)
                if result is not MISS:
                    return result
            call = check_call(self.interface, bound, out)
        except Error:
            if self._definition.is_misread():
                return self._call_slowly(*args, out=out, **named)
            raise
        if call.outputs is not None:
            check_overlap(self.interface, call.values, call.outputs)
        device = call.device or self._definition.device
        if self._definition.bound:
            check_bound_device(self._definition, device)
        outputs = self._execute(call, device)
        results = tuple(o.owner for o in outputs) if out is None else out
        return results[0] if out is None and len(results) == 1 else results

    __call__ = _call_slowly  # `make_calls_fast` puts machine code in front of it

    @property
    def _bound_arrays(self) -> list[ArgumentInfo]:
        return [v for v in self._definition.bound.values() if isinstance(v, ArgumentInfo)]

    @told_at_the_call
    def show(self, stage: str, /, *args: Any, target: str | None = None, **named: Any) -> str:
        """The program at ``stage`` of its compilation for these arguments; without any, sizes stay symbolic.

        Stages that several targets have are for ``target``, or for where the arrays are.
        """
        signature, device = None, self._definition.device
        if args or named or not self.interface.params:
            call = check_call(self.interface, bind_arguments(self.interface, args, named), None)
            signature, device = call.signature, call.device or device
        machine = choose_machine(target or self._target, device, stage)
        with faults_reproduced(self._definition, signature, self._checks, machine.target):
            return Shown(
                self._by_record(signature, machine, lambda how: self._build(signature, machine, how).show(stage))
            )

    def _by_record(self, signature: Signature | None, machine: MachineDescription, use: Callable[[Scheduling], T]) -> T:
        """``use`` of how calls of ``signature`` are scheduled: by a record of tuning where there is one."""
        definition = self._definition
        whole = None if signature is None else definition.complete(signature)
        sizes = {} if whole is None else dynamic_sizes(definition.whole_interface, whole, definition.dynamic)
        return by_record(definition, whole, machine, sizes, lambda found: use(found.how))

    def _build(self, signature: Signature | None, machine: MachineDescription, how: Scheduling | None = None) -> Build:
        """As a call of ``signature`` is compiled; without one, with all sizes symbolic."""
        from weft.operators.stages import build

        definition = self._definition
        whole = None if signature is None else definition.complete(signature)
        sizes = {} if whole is None else dynamic_sizes(definition.whole_interface, whole, definition.dynamic)
        given = definition.program, whole, machine, self._checks, how or definition.how
        return build(*given, symbolic=frozenset(sizes), constants=frozenset(definition.bound))

    def _compile(
        self, signature: Signature, machine: MachineDescription, executor: Executor, misaligned: frozenset[str]
    ) -> Specialization:
        with faults_reproduced(self._definition, signature, self._checks, machine.target):
            special = find_specialization(self._definition, signature, self._checks, machine, executor, misaligned)
        warn_once(special.remarks, self._definition.told)
        return special


def _restore(
    name: str,
    text: str,
    options: tuple[str | None, Scheduling, tuple[str, ...]],
    checks: bool,
    bound: Mapping[str, Any],
) -> Operator:
    op = Operator(Definition(Source(name, text), *options), checks=checks)
    return op.bind(**bound) if bound else op


def check_overlap(interface: Interface, values: Sequence[Any], outputs: Sequence[ArgumentInfo]) -> None:
    """No output may share memory with another argument: the order of reads and writes would matter."""
    inputs = [(p.name, v) for p, v in zip(interface.params, values) if isinstance(v, ArgumentInfo)]
    written: list[tuple[str, ArgumentInfo]] = []
    for output, info in zip(interface.outputs, outputs):
        span = interface.span(output.place)
        for name, _ in (n for n in inputs if overlaps(info, n[1])):
            raise ArgumentError(
                f"output `{output.name}` overlaps `{name}` in memory",
                span=span,
                why="elements would be overwritten while they are still to be read",
                help=f"pass a copy of `{name}`, or another array as out=",
            )
        for name, _ in (n for n in written if overlaps(info, n[1])):
            raise ArgumentError(
                f"outputs `{name}` and `{output.name}` overlap in memory",
                span=span,
                why="one would overwrite elements of the other",
                help="pass arrays that share no memory",
            )
        written.append((output.name, info))
