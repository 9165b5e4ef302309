"""How calls of operators and loop kernels find their machine code and run it, on every device and for every target.

A kind of call is checked and compiled for the first time, and goes through machine code alone from the third time on
(`weft.runtime.fastcall`). What that cannot read is checked every time: arrays of a framework without a table for
DLPack, say.

Nothing here waits for a GPU, and memory comes from the caller's framework alone, so calls can be captured in CUDA
graphs. An assert that fails on a GPU is told at the next call or by `weft.cuda.synchronize`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.ir.errors import ArgumentError
from weft.locks import new_rlock
from weft.operators.fast_specialization import fast_specialization
from weft.operators.interface import Interface
from weft.operators.signature import Arguments, Layout, Signature
from weft.operators.specialization import OutputLayout, Specialization
from weft.runtime.argument import ArgumentInfo
from weft.runtime.arrays import describe
from weft.runtime.executor import Executor, find_executor, slot_value
from weft.runtime.fastcall import CallTable, make_calls_fast
from weft.runtime.fastcall import Specialization as FastSpecialization
from weft.target import TARGETS

if TYPE_CHECKING:
    from weft.target.description import MachineDescription


class Callee:
    """A program one can call. ``written`` are its parameters that calls write to; ``exact`` the places of numbers that
    shapes and bounds depend on, so that a call with others is checked again."""

    def __init__(self, target: str | None, *, written: Sequence[str] = (), exact: Sequence[int] = ()) -> None:
        self._target, self._written, self._exact = target, frozenset(written), tuple(exact)
        self._known: dict[str, Specialization] = {}
        self._fast: dict[tuple[object, ...], FastSpecialization | None] = {}
        self._lock = new_rlock()
        self._table: CallTable | None = None
        self._fast_table: object = None
        self._left: list[tuple[CallTable | None, object]] = []

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

    def _execute(self, call: Arguments, device: str) -> tuple[ArgumentInfo, ...]:
        """Runs a checked call on ``device``; its outputs."""
        executor = find_executor(device)
        key, special, is_known = self._specialize(call, executor)
        arrays = [v for v in (*call.values, *(call.outputs or ())) if isinstance(v, ArgumentInfo)]
        outputs = call.outputs
        if outputs is None:
            self._check_needed()
            outputs = tuple(describe(self._fresh(executor, arrays, o)) for o in special.outputs)
        constants = {name for name, _ in special.signature.constants}
        given = [v for p, v in zip(self.interface.params, call.values) if p.name not in constants]
        given += outputs
        executor.run(special.loaded, [*map(slot_value, given), *special.fixed], arrays or self._bound_arrays)
        if is_known:  # called like this before: worth loading the fast call
            self._make_fast(key, special, executor, call, given)
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
        made = [(o.name, Layout.dense(o.dtype, o.shape)) for o in kept.outputs]
        return fresh if made == list(signature.outputs) else key

    def _look_again(self) -> None:
        """Later calls look for their code again, as if there had been none."""
        with self._lock:
            self._known.clear()
            self._fast.clear()
            self._left.append((self._table, self._fast_table))  # another thread may run from it
            self._table = self._fast_table = None

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

    def _make_fast(
        self, key: str, special: Specialization, executor: Executor, call: Arguments, given: Sequence[Any]
    ) -> None:
        """Later calls like this one, of which ``given`` are the kernel's values, go straight to the kernel."""
        exact = {self.interface.params[i].name: int(call.values[i]) for i in self._exact}  # type: ignore[arg-type]
        known_as = (key, *exact.values(), *executor.kinds(given))
        with self._lock:  # a table that another thread runs from must not be replaced
            if known_as not in self._fast:
                self._fast[known_as] = fast_specialization(
                    self.interface, special, executor, given, exact, self._written
                )
            fast = self._fast[known_as]
            if fast is None:
                return
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
