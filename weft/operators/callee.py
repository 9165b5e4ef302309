"""How calls of operators and loop kernels find their machine code and run it, on every device and for every target.

A kind of call is checked and compiled for the first time, and goes through machine code alone from the second or, on
a GPU, the third time on (`weft.runtime.fastcall`). What that cannot read stays with the ways of before.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.ir.errors import ArgumentError
from weft.operators.fast_specialization import fast_specialization, fixed_bits
from weft.operators.interface import Interface
from weft.operators.signature import Arguments, Layout, Signature, dense_strides
from weft.operators.specialization import OutputLayout, Specialization
from weft.runtime.argument import ArgumentInfo
from weft.runtime.arrays import describe
from weft.runtime.executor import Executor, find_executor
from weft.runtime.fastcall import MISS, CallTable, make_calls_fast
from weft.runtime.fastcall import Specialization as FastSpecialization
from weft.target import TARGETS

if TYPE_CHECKING:
    from weft.operators.device_calls import DeviceCalls
    from weft.target.description import MachineDescription


class Callee:
    """A program one can call. ``written`` are its parameters that calls write to; ``exact`` the places of numbers that
    shapes and bounds depend on, so that a call with others is checked again."""

    def __init__(self, target: str | None, *, written: Sequence[str] = (), exact: Sequence[int] = ()) -> None:
        self._target, self._written, self._exact = target, frozenset(written), tuple(exact)
        self._known: dict[str, Specialization] = {}
        self._fast: dict[str, FastSpecialization] = {}
        self._lock = threading.RLock()
        self._table: CallTable | None = None
        self._fast_table: object = None
        self._on_device: DeviceCalls | None = None

    @property
    def interface(self) -> Interface:
        raise NotImplementedError

    @property
    def name(self) -> str:
        return self.interface.name

    def _compile(
        self, signature: Signature, machine: MachineDescription, executor: Executor, misaligned: frozenset[str]
    ) -> Specialization:
        """Machine code for such calls, from the store or made now."""
        raise NotImplementedError

    def _call_known(self, args: tuple[Any, ...], out: Any) -> Any:
        """The result of a call on a GPU like one before, or MISS."""
        return MISS if self._on_device is None else self._on_device.call(args, out)

    def _execute(self, call: Arguments, device: str, args: Sequence[Any], out: Any) -> tuple[ArgumentInfo, ...]:
        """Runs a checked call with ``args`` on ``device``; its outputs."""
        executor = find_executor(device)
        key, special, is_known = self._specialize(call, executor)
        arrays = [v for v in (*call.values, *(call.outputs or ())) if isinstance(v, ArgumentInfo)]
        outputs = call.outputs
        if outputs is None:
            self._check_needed()
            outputs = tuple(describe(self._fresh(executor, arrays, o)) for o in special.outputs)
        constants = {name for name, _ in special.signature.constants}
        given = [v for p, v in zip(self.interface.params, call.values) if p.name not in constants]
        slots = [executor.slot(dtype, v) for v, (_, dtype) in zip((*given, *outputs), special.params)]
        executor.run(special.loaded, [*slots, *special.fixed], arrays or self._bound_arrays)
        if device != "cpu":
            self._calls_on_device().remember(special, (*given, *outputs), args, out)
        elif is_known:  # called like this before: worth loading the fast call
            self._make_fast(self._fast_on_host(key, special, call))
        return outputs

    @property
    def _bound_arrays(self) -> list[ArgumentInfo]:
        """Arrays that all calls have in common."""
        return []

    def _fresh(self, executor: Executor, arrays: Sequence[ArgumentInfo], layout: OutputLayout) -> Any:
        framework = executor.framework(arrays or self._bound_arrays)
        return executor.fresh(framework, layout.dtype, layout.shape, layout.fill)

    def _specialize(self, call: Arguments, executor: Executor) -> tuple[str, Specialization, bool]:
        """The code for a call, what it is known by, and whether it was here already."""
        misaligned = self._misaligned(call, executor.code_alignment)
        place = "" if executor.name == "cpu" else f" on {executor.name}"
        place += f" but for {', '.join(sorted(misaligned))}" if misaligned else ""
        with self._lock:
            key = self._known_as(call.signature, place)
            at_hand = self._known.get(key)
            if at_hand is None:
                machine = executor.machine(self._target_on(executor.name))
                with executor.compiling():
                    self._known[key] = self._compile(call.signature, machine, executor, misaligned)
            return key, self._known[key], at_hand is not None

    def _known_as(self, signature: Signature, place: str) -> str:
        """What code for such calls is known by; code that makes outputs serves where given ones are just like those."""
        key = signature.key + place
        if key in self._known or not signature.outputs:
            return key
        fresh = signature._replace(outputs=()).key + place
        kept = self._known.get(fresh)
        if kept is None:
            return key
        made = [(o.name, Layout(o.dtype.name, o.shape, dense_strides(o.shape))) for o in kept.outputs]
        return fresh if made == list(signature.outputs) else key

    def _misaligned(self, call: Arguments, alignment: int) -> frozenset[str]:
        """Arrays that do not begin at a multiple of ``alignment``."""
        if alignment == 1:
            return frozenset()
        named: list[tuple[str, Any]] = [*zip((p.name for p in self.interface.params), call.values)]
        named += zip((o.name for o in self.interface.outputs), call.outputs or ())
        return frozenset(n for n, value in named if isinstance(value, ArgumentInfo) and value.pointer % alignment)

    def _target_on(self, device: str) -> str:
        """The target that makes code for arrays on ``device``: the one that was asked for, where it is for such."""
        kind = device.partition(":")[0]
        if self._target is None:
            return next(t.name for t in TARGETS.values() if t.device == kind)
        wanted = TARGETS[self._target].device
        if wanted != kind:
            raise ArgumentError(
                f'{self.name} is for target="{self._target}", and its arrays are on `{device}`',
                why=f"such code takes arrays on a `{wanted}` device",
                help="pass arrays that are there, or leave target= out to run where the arrays are",
            )
        return self._target

    def _calls_on_device(self) -> DeviceCalls:
        with self._lock:
            if self._on_device is None:
                from weft.operators.device_calls import DeviceCalls

                self._on_device = DeviceCalls(self.interface, self._written, self._exact, self._make_fast)
            return self._on_device

    def _fast_on_host(self, key: str, special: Specialization, call: Arguments) -> FastSpecialization:
        exact = {self.interface.params[i].name: int(call.values[i]) for i in self._exact}  # type: ignore[arg-type]
        key += f" {exact}" if exact else ""
        if key not in self._fast:
            last = fixed_bits([dtype for _, dtype in special.params], special.fixed)
            self._fast[key] = fast_specialization(
                special.loaded, self.interface, special.signature, special.outputs, last,
                release_gil=special.release_gil, exact=exact, written=self._written,
            )  # fmt: skip
        return self._fast[key]

    def _make_fast(self, fast: FastSpecialization) -> None:
        """Later calls like this one go straight to the kernel."""
        with self._lock:  # a table that another thread runs from must not be replaced
            if self._table is None:
                make_calls_fast(type(self))
                self._table = CallTable(len(self.interface.params), len(self.interface.outputs))
                self._fast_table = self._table.capsule
            self._table.add(fast)

    def _check_needed(self) -> None:
        for output in self.interface.outputs:
            if output.needed:
                raise ArgumentError(
                    f"{self.name} needs `{output.name}` passed in",
                    span=self.interface.span(output.place),
                    why=f"`{output.name}` is read before it is written",
                    help=f"call {self.name}(..., out={output.name})",
                )
