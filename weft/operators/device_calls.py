"""Calls with arrays on a GPU: found quickly by what the arguments look like, else checked and compiled for.

Nothing here waits for the GPU, and memory comes from the caller's framework alone, so calls can be captured in
CUDA graphs. An assert that fails on the GPU is told at the next call or by `weft.cuda.synchronize`.

A kind of call goes through three ways: checked and compiled for the first time (`run`), read by Python the second
(`call`), and from then on by machine code that never comes here (`weft.runtime.fastcall`). What that cannot read,
arrays of frameworks without a table for DLPack say, stays with the second.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.ir import dtype as dt
from weft.operators.alignment import ALIGNMENT
from weft.operators.device_specialization import DeviceSpecialization, find_device_specialization
from weft.operators.fast_specialization import ArrayKind, fast_device_specialization
from weft.operators.quick_arguments import (
    Guard,
    GuardedReader,
    Reader,
    Unusual,
    guarded_reader,
    make_guard,
    quick_reader,
)
from weft.operators.reproduce import faults_reproduced
from weft.operators.signature import Arguments
from weft.operators.specialization import OutputLayout
from weft.runtime.argument import ArgumentInfo, Framework
from weft.runtime.arrays import allocate, describe
from weft.runtime.cuda_arrays import (
    address_of,
    address_reader,
    allocator,
    fill_on_device,
    main_framework,
    order_streams,
    stream_getter,
)
from weft.runtime.cuda_device import Device, find_device
from weft.runtime.cuda_driver import capture_relaxed
from weft.runtime.cuda_program import LoadedProgram, Plan
from weft.runtime.fastcall_native import MISS

if TYPE_CHECKING:
    from weft.operators.operator import Operator


#: What reading arguments raises that are not as before: too few, of another class, on strike.
NOT_QUICK = (Unusual, KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError)
#: How many kinds of calls torch compares a call with.
_GUARDS_AT_MOST = 6
#: Kinds of calls that are remembered; beyond that, all are forgotten.
_READY_AT_MOST = 1 << 12


class _Ready(NamedTuple):
    """A call that was checked before: what is left to do for another one like it.

    ``fixed`` are the last values of the kernel, the same in every call, and ``tail`` what the program says comes after
    those that are not; ``make`` makes outputs, where none are given.
    ``apart`` says of which values the difference must not be in a range, else arrays overlap. The plan of a
    call that ``varies`` depends on its numbers; ``scratch`` makes memory for temporaries, where there are any.
    ``faster`` is emptied when machine code is told of such calls.
    """

    program: LoadedProgram
    plan: Plan
    fixed: tuple[int | float, ...]
    tail: tuple[int | float, ...]
    make: tuple[Callable[[], Any], ...] | None
    address: Callable[[Any], int]
    apart: tuple[tuple[int, int, int, int], ...]
    stream: Callable[[int], int]
    framework: Framework
    varies: bool
    scratch: Callable[[], Any] | None
    faster: list[Callable[[], None]]


class DeviceCalls:
    """The calls of one operator that go to GPUs."""

    def __init__(self, op: Operator) -> None:
        self._op = op
        self._known: dict[str, DeviceSpecialization] = {}
        self._ready: dict[tuple[Any, ...], _Ready] = {}
        self._readers: dict[type, Reader | None] = {}
        self._guarded: GuardedReader | None = None
        self._fresh_guards: list[Guard] = []
        self._given_guards: list[Guard] = []
        tensors = [i for i, p in enumerate(op.interface.params) if p.role == "tensor"]
        self._first = tensors[0] if tensors else len(op.interface.params)

    @property
    def known(self) -> dict[str, DeviceSpecialization]:
        """What is compiled so far, by what it is compiled for."""
        return self._known

    def call(self, args: tuple[Any, ...], out: Any) -> Any:
        """The result of a call like one before, or MISS: then it is to be checked, and run by `run`."""
        found = None
        try:
            if self._guarded is not None:
                found = self._guarded(args, out, self._fresh_guards, self._given_guards)
            ready, values = found or self._look_up(args, out)
        except NOT_QUICK:
            return MISS
        made = None
        try:
            if ready.make is not None:
                made = [make() for make in ready.make]
                values.extend(map(ready.address, made))
            for one, other, least, most in ready.apart:
                if least < values[one] - values[other] < most:
                    return MISS
            if ready.varies or ready.scratch is not None:
                self._start(ready, values)
            else:
                ready.program.start_quickly(ready.plan, values, ready.tail, ready.stream)
        except (RuntimeError, MemoryError, OverflowError):
            return MISS  # out of memory, say: the careful way finds out
        if ready.faster:
            do_once(ready.faster)
        if made is None:
            return out
        return made[0] if len(made) == 1 else tuple(made)

    def _look_up(self, args: tuple[Any, ...], out: Any) -> tuple[_Ready, list[Any]]:
        """What is ready for such a call, and the values of its kernel."""
        key, values = self._readers[type(args[self._first])](args, out)  # type: ignore[misc]
        return self._ready[key], values

    def _start(self, ready: _Ready, values: list[Any]) -> None:
        program, device = ready.program, ready.program.device
        device.check_records()
        values += ready.fixed
        plan = program.plan(values) if ready.varies else ready.plan
        make = ready.scratch if not ready.varies else _scratch_maker(plan, ready.framework, device)
        scratch = None if make is None else make()
        program.start(plan, values, ready.stream(device.index), 0 if scratch is None else ready.address(scratch))

    def run(self, call: Arguments, place: str, args: Sequence[Any], out: Any) -> Any:
        """A checked call with ``args`` on the GPU called ``place``."""
        infos = [v for v in (*call.values, *(call.outputs or ())) if isinstance(v, ArgumentInfo)]
        device = find_device(int(place[5:]))
        device.check_records()
        bound = [v for v in self._op._definition.bound.values() if isinstance(v, ArgumentInfo)]
        framework = main_framework(infos or bound)
        special = self._specialize(call, device)
        stream = stream_getter(framework)(device.index)
        outputs = call.outputs
        if outputs is None:
            self._op._check_needed()
            made = [_fresh(framework, o, device, stream) for o in special.outputs]
            outputs = tuple(describe(array) for array in made)
        order_streams(infos, stream)
        given = self._given(special, call)
        values = [*special.program.slots([*given, *outputs]), *special.fixed]
        plan = special.program.plan(values)
        make = _scratch_maker(plan, framework, device)
        scratch = None if make is None else make()
        special.program.start(plan, values, stream, 0 if scratch is None else address_of(scratch))
        if all(info.framework == framework and info.note is None for info in infos):
            faster = functools.partial(self._make_fast, special, plan, framework, self._kinds(call, outputs))
            self._remember(special, [*given, *outputs], framework, args, out, faster)
        results = tuple(o.owner for o in outputs) if out is None else out
        return results[0] if out is None and len(results) == 1 else results

    def _given(self, special: DeviceSpecialization, call: Arguments) -> list[ArgumentInfo | int | float]:
        """The arguments that are values of the kernel: all but those it is specialized for."""
        constants = {name for name, _ in special.signature.constants}
        return [v for p, v in zip(self._op.interface.params, call.values) if p.name not in constants]

    def _kinds(self, call: Arguments, outputs: Sequence[ArgumentInfo]) -> dict[str, ArrayKind]:
        """What the arrays of a call are like, without keeping them."""
        interface = self._op.interface
        names = [*(p.name for p in interface.params), *(o.name for o in interface.outputs)]
        named = zip(names, (*call.values, *outputs))
        return {name: ArrayKind(type(v.owner), v.pointer) for name, v in named if isinstance(v, ArgumentInfo)}

    def _make_fast(
        self, special: DeviceSpecialization, plan: Plan, framework: Framework, kinds: Mapping[str, ArrayKind]
    ) -> None:
        fast = fast_device_specialization(self._op.interface, special, plan, framework, kinds)
        if fast is not None:
            self._op._make_fast(fast)

    def _remember(
        self,
        special: DeviceSpecialization,
        given: Sequence[Any],
        framework: Framework,
        args: Sequence[Any],
        out: Any,
        faster: Callable[[], None],
    ) -> None:
        """Later calls like this one go straight to the launch."""
        if out is None and any(o.fill is not None for o in special.outputs):
            return
        try:
            kind = type(args[self._first])
            reader = self._readers.setdefault(kind, quick_reader(self._op.interface, kind))
            key, values = reader(tuple(args), out)  # type: ignore[misc]
        except NOT_QUICK:
            return
        program, fixed, index = special.program, special.fixed, special.program.device.index
        made = 0 if out is not None else len(special.outputs)
        plan = program.plan([*values, *[0] * made, *fixed])
        varies = any(i < len(program.params) - len(fixed) for i in program.size_slots)
        makes = tuple(allocator(framework, o.dtype, o.shape, index) for o in special.outputs)
        if len(self._ready) >= _READY_AT_MOST:
            self._ready = {}
        scratch = allocator(framework, dt.uint8, (plan.scratch_bytes,), index) if plan.scratch_bytes else None
        ready = self._ready[key] = _Ready(
            program, plan, fixed, program.tail(fixed), makes if made else None, address_reader(framework),
            () if made else pairs_apart(given, len(special.outputs)), stream_getter(framework), framework,
            varies, scratch, [] if varies else [faster],
        )  # fmt: skip
        if framework == "torch":
            self._add_guard(ready, args, out)

    def _add_guard(self, ready: _Ready, args: Sequence[Any], out: Any) -> None:
        """torch's own way to know a call again; the newest are tried first."""
        params = self._op.interface.params
        given = () if out is None else out if isinstance(out, tuple) else (out,)
        tensors = [*(a for p, a in zip(params, args) if p.role == "tensor"), *given]
        constants = tuple(a for p, a in zip(params, args) if p.role == "constant")
        guard = make_guard(tensors, constants, ready)
        if guard is None:
            return
        self._guarded = self._guarded or guarded_reader(self._op.interface)
        if out is None:
            self._fresh_guards = [guard, *self._fresh_guards][:_GUARDS_AT_MOST]
        else:
            self._given_guards = [guard, *self._given_guards][:_GUARDS_AT_MOST]

    def _specialize(self, call: Arguments, device: Device) -> DeviceSpecialization:
        definition, op = self._op._definition, self._op
        misaligned = frozenset(_misaligned(op, call))
        key = f"{call.signature.key} on {device.name}{' but for ' * bool(misaligned)}{', '.join(sorted(misaligned))}"
        with op._lock:
            if key not in self._known:
                with (
                    faults_reproduced(definition, call.signature, op._checks, "cuda"),
                    device.current(),
                    capture_relaxed(),
                ):
                    self._known[key] = find_device_specialization(
                        definition, call.signature, op._checks, device, misaligned
                    )
            return self._known[key]


def _misaligned(op: Operator, call: Arguments) -> list[str]:
    """Arrays that do not begin at a multiple of 16 bytes."""
    named: list[tuple[str, Any]] = [*zip((p.name for p in op.interface.params), call.values)]
    named += zip((o.name for o in op.interface.outputs), call.outputs or ())
    return [name for name, value in named if isinstance(value, ArgumentInfo) and value.pointer % ALIGNMENT]


def do_once(pending: list[Callable[[], None]]) -> None:
    """Does what is pending, unless another thread was first."""
    try:
        todo = pending.pop()
    except IndexError:
        return
    todo()


def _extent(place: int, info: ArgumentInfo) -> tuple[int, int, int]:
    low, high = info.extent
    return place, low - info.pointer, high - info.pointer


def pairs_apart(given: Sequence[Any], outputs: int) -> tuple[tuple[int, int, int, int], ...]:
    """For each of the last ``outputs`` arrays and each before it: their places, and the least and the greatest
    difference of their addresses between which they overlap."""
    arrays = [_extent(i, v) for i, v in enumerate(given) if isinstance(v, ArgumentInfo)]
    found = []
    for n in range(max(0, len(arrays) - outputs), len(arrays)):
        one, low, high = arrays[n]
        for other, other_low, other_high in arrays[:n]:
            if low < high and other_low < other_high:
                found.append((one, other, other_low - high, other_high - low))
    return tuple(found)


def _fresh(framework: Framework, layout: OutputLayout, device: Device, stream: int) -> Any:
    array = allocate(framework, layout.dtype, layout.shape, device.name)
    if layout.fill is not None:
        fill_on_device(array, layout.fill, stream)
    return array


def _scratch_maker(plan: Plan, framework: Framework, device: Device) -> Callable[[], Any] | None:
    """Makes memory for the temporaries of a call; given back at once, it is used again only for work after it."""
    if not plan.scratch_bytes:
        return None
    return lambda: allocate(framework, dt.uint8, (plan.scratch_bytes,), device.name)
