"""Operators: callables that compile themselves for the arrays they are given."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.ir.errors import ArgumentError
from weft.ir.span import Source
from weft.operators.bind import bind_values, check_bound_device
from weft.operators.choose_machine import choose_machine
from weft.operators.definition import Definition
from weft.operators.dynamic import dynamic_sizes
from weft.operators.interface import Interface
from weft.operators.reproduce import faults_reproduced
from weft.operators.scheduling import STAGE_TARGETS, Numerics, Scheduling, Target, choose_scheduling, target_of
from weft.operators.signature import Arguments, Layout, Signature, bind_arguments, check_call, dense_strides
from weft.operators.specialization import OutputLayout, Specialization, find_specialization
from weft.runtime.argument import ArgumentInfo
from weft.runtime.arrays import allocate, describe, overlaps
from weft.runtime.fastcall import MISS, CallTable, make_calls_fast
from weft.runtime.fastcall import Specialization as FastSpecialization

if TYPE_CHECKING:
    from weft.operators.device_calls import DeviceCalls
    from weft.operators.schedule import OperatorSchedule
    from weft.operators.stages import Build
    from weft.target.cpu.host import Machine
    from weft.target.cuda.machine import GpuMachine
    from weft.tensor.program import TensorProgram


class Operator:
    """A tensor program one can call.

    >>> mm = weft.define("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")
    >>> C = mm(A, B)                      # compiled for these types, shapes and strides on first use
    >>> mm(A, B, out=C)                   # into a given array
    >>> print(mm.show("loops", A, B))     # any stage of the compilation
    """

    def __init__(self, definition: Definition, *, checks: bool = True) -> None:
        self._definition = definition
        self._checks = checks
        self._known: dict[str, Specialization] = {}
        self._lock = threading.RLock()
        self._table: CallTable | None = None
        self._fast_table: object = None
        self._on_device: DeviceCalls | None = None

    @property
    def interface(self) -> Interface:
        return self._definition.interface

    @property
    def program(self) -> TensorProgram:
        """The tensor program, sizes symbolic."""
        return self._definition.program

    @property
    def name(self) -> str:
        return self.interface.name

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

    def with_schedule(self, schedule: Any, *, numerics: Numerics | None = None) -> Operator:
        """This operator scheduled another way: "auto", "naive", "polyhedral", a trace or its text, or a schedule."""
        how = choose_scheduling(schedule, numerics)
        return Operator(self._definition.scheduled(how), checks=self._checks)

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

        on_gpus = {} if self._on_device is None else self._on_device.known
        return describe_guards(self._definition, self._known, on_gpus)

    def schedule(self, /, *args: Any, target: Target | None = None, **named: Any) -> OperatorSchedule:
        """The schedule that a call with these arguments uses, to be read, changed and built: arrays or shapes.

        Without ``target="cuda"`` or ``"cpu"``, it is for where the arrays are.

        >>> s = mm.schedule(A=(512, 512), B=(512, 512))
        >>> print(s.trace)
        """
        from weft.operators.schedule import chosen_schedule

        return chosen_schedule(self, args, named, target)

    def explain(self, /, *args: Any, target: Target | None = None, **named: Any) -> str:
        """What the schedule for these arguments (arrays or shapes) does and why, in words and numbers."""
        from weft.operators.explain import explain

        return explain(self, args, named, target)

    def __repr__(self) -> str:
        return f"<weft operator {self.interface}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold the definition alone; machine code is found again where they are used."""
        source = self._definition.source
        definition = self._definition
        bound = {n: v.owner if isinstance(v, ArgumentInfo) else v for n, v in definition.bound.items()}
        options = definition.entry, definition.how, definition.dynamic
        return _restore, (source.name, source.text, options, self._checks, bound)

    def _call_slowly(self, /, *args: Any, out: Any = None, **named: Any) -> Any:
        """A call no known specialization fits as it stands: check everything, compile if need be, run."""
        if self._on_device is not None and not named:
            result = self._on_device.call(args, out)
            if result is not MISS:
                return result
        bound = bind_arguments(self.interface, args, named)
        if named and self._table is not None:
            result = self._table.call(out, *bound)
            if result is not MISS:
                return result
        call = check_call(self.interface, bound, out)
        if call.outputs is not None:
            check_overlap(self.interface, call.values, call.outputs)
        device = call.device or self._definition.device
        if self._definition.bound:
            check_bound_device(self._definition, device)
        if device != "cpu":
            return self._calls_on_device().run(call, device, bound, out)
        known = self._known_for(call.signature)
        special = known or self._specialize(call.signature)
        result = self._run(special, call, out)
        if known is not None:  # called like this before: worth loading the fast call
            self._make_fast(special.fast)
        return result

    def _known_for(self, signature: Signature) -> Specialization | None:
        """What is loaded for such calls; one that makes its outputs serves where given ones are just like those."""
        found = self._known.get(signature.key)
        if found is not None or not signature.outputs:
            return found
        found = self._known.get(signature._replace(outputs=()).key)
        if found is None:
            return None
        made = [(o.name, Layout(o.dtype.name, o.shape, dense_strides(o.shape))) for o in found.outputs]
        return found if made == list(signature.outputs) else None

    __call__ = _call_slowly  # `make_calls_fast` puts machine code in front of it

    def _calls_on_device(self) -> DeviceCalls:
        with self._lock:
            if self._on_device is None:
                from weft.operators.device_calls import DeviceCalls

                self._on_device = DeviceCalls(self)
            return self._on_device

    def _make_fast(self, fast: FastSpecialization) -> None:
        """Later calls like this one go straight to the kernel."""
        with self._lock:  # a table that another thread runs from must not be replaced
            if self._table is None:
                make_calls_fast(Operator)
                self._table = CallTable(len(self.interface.params), len(self.interface.outputs))
                self._fast_table = self._table.capsule
            self._table.add(fast)

    def show(self, stage: str, /, *args: Any, target: Target | None = None, **named: Any) -> str:
        """The program at ``stage`` of its compilation for these arguments; without any, sizes stay symbolic.

        Stages that both targets have are for where the arrays are, or for ``target``.
        """
        signature, device = None, self._definition.device
        if args or named or not self.interface.params:
            call = check_call(self.interface, bind_arguments(self.interface, args, named), None)
            signature, device = call.signature, call.device or device
        machine = choose_machine(target or STAGE_TARGETS.get(stage), device)
        with faults_reproduced(self._definition, signature, self._checks, target_of(machine)):
            return self._build(signature, machine).show(stage)

    def _build(self, signature: Signature | None, machine: Machine | GpuMachine) -> Build:
        """As a call of ``signature`` is compiled; without one, with all sizes symbolic."""
        from weft.operators.stages import build

        definition = self._definition
        whole = None if signature is None else definition.complete(signature)
        sizes = {} if whole is None else dynamic_sizes(definition.whole_interface, whole, definition.dynamic)
        options = {"symbolic": frozenset(sizes), "constants": frozenset(definition.bound)}
        return build(definition.program, whole, machine, self._checks, definition.how, **options)

    def _specialize(self, signature: Signature) -> Specialization:
        with self._lock:
            if signature.key not in self._known:
                with faults_reproduced(self._definition, signature, self._checks):
                    self._known[signature.key] = find_specialization(self._definition, signature, self._checks)
            return self._known[signature.key]

    def _run(self, special: Specialization, call: Arguments, out: Any) -> Any:
        arrays = [v for v in call.values if isinstance(v, ArgumentInfo)]
        outputs = call.outputs
        if outputs is None:
            self._check_needed()
            framework = arrays[0].framework if arrays else "numpy"
            outputs = tuple(describe(_fresh(framework, o)) for o in special.outputs)
        constants = {name for name, _ in special.signature.constants}
        values = [v for p, v in zip(self.interface.params, call.values) if p.name not in constants]
        pointers = (v.pointer if isinstance(v, ArgumentInfo) else v for v in (*values, *outputs))
        special.kernel.run([*pointers, *special.fixed])
        results = tuple(o.owner for o in outputs) if out is None else out
        return results[0] if out is None and len(results) == 1 else results

    def _check_needed(self) -> None:
        for output in self.interface.outputs:
            if output.needed:
                raise ArgumentError(
                    f"{self.name} needs `{output.name}` passed in",
                    span=self.interface.span(output.place),
                    why=f"`{output.name}` is read before it is written",
                    help=f"call {self.name}(..., out={output.name})",
                )


def _restore(
    name: str,
    text: str,
    options: tuple[str | None, Scheduling, tuple[str, ...]],
    checks: bool,
    bound: Mapping[str, Any],
) -> Operator:
    op = Operator(Definition(Source(name, text), *options), checks=checks)
    return op.bind(**bound) if bound else op


def _fresh(framework: Any, layout: OutputLayout) -> Any:
    array = allocate(framework, layout.dtype, layout.shape)
    if layout.fill is not None:
        array[...] = layout.fill
    return array


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
