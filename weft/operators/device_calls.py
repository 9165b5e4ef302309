"""Calls with arrays on a GPU that are like one before: found quickly, in Python, by what the arguments look like.

Nothing here waits for the GPU, and memory comes from the caller's framework alone, so calls can be captured in
CUDA graphs. An assert that fails on the GPU is told at the next call or by `weft.cuda.synchronize`.

A kind of call goes through three ways: checked and compiled for the first time (`weft.operators.callee`), read by
Python the second (`call`), and from then on by machine code that never comes here (`weft.runtime.fastcall`). What that
cannot read, arrays of frameworks without a table for DLPack say, stays with the second.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from weft.ir import dtype as dt
from weft.operators.fast_specialization import ArrayKind, fast_device_specialization
from weft.operators.interface import Interface
from weft.operators.quick_arguments import (
    Guard,
    GuardedReader,
    Reader,
    Unusual,
    guarded_reader,
    make_guard,
    quick_reader,
)
from weft.operators.specialization import Specialization
from weft.runtime.argument import ArgumentInfo, Framework
from weft.runtime.arrays import allocate
from weft.runtime.cuda_arrays import address_reader, allocator, main_framework, stream_getter
from weft.runtime.cuda_device import Device
from weft.runtime.cuda_program import LoadedProgram, Plan
from weft.runtime.fastcall import Specialization as FastSpecialization
from weft.runtime.fastcall_native import MISS

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
    """The calls of one program that go to GPUs: ``written`` and ``exact`` as of its `Callee`.

    ``add`` tells machine code of a kind of call.
    """

    def __init__(
        self,
        interface: Interface,
        written: frozenset[str],
        exact: tuple[int, ...],
        add: Callable[[FastSpecialization], None],
    ) -> None:
        self._interface, self._written, self._exact, self._add = interface, written, exact, add
        self._ready: dict[tuple[Any, ...], _Ready] = {}
        self._readers: dict[type, Reader | None] = {}
        self._guarded: GuardedReader | None = None
        self._fresh_guards: list[Guard] = []
        self._given_guards: list[Guard] = []
        tensors = [i for i, p in enumerate(interface.params) if p.role == "tensor"]
        self._first = tensors[0] if tensors else len(interface.params)

    def call(self, args: tuple[Any, ...], out: Any) -> Any:
        """The result of a call like one before, or MISS: then it is to be checked."""
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
        key, values = self._read(args, out)
        return self._ready[key], values

    def _read(self, args: tuple[Any, ...], out: Any) -> tuple[tuple[Any, ...], list[Any]]:
        key, values = self._readers[type(args[self._first])](args, out)  # type: ignore[misc]
        return (key + tuple(values[i] for i in self._exact) if self._exact else key), values

    def _start(self, ready: _Ready, values: list[Any]) -> None:
        program, device = ready.program, ready.program.device
        device.check_records()
        values += ready.fixed
        plan = program.plan(values) if ready.varies else ready.plan
        make = ready.scratch if not ready.varies else _scratch_maker(plan, ready.framework, device)
        scratch = None if make is None else make()
        program.start(plan, values, ready.stream(device.index), 0 if scratch is None else ready.address(scratch))

    def remember(self, special: Specialization, given: Sequence[Any], args: Sequence[Any], out: Any) -> None:
        """Later calls like this one, of which ``given`` are the described values, go straight to the launch."""
        arrays = [v for v in given if isinstance(v, ArgumentInfo)]
        framework = main_framework(arrays)
        if any(info.framework != framework or info.note is not None for info in arrays):
            return
        if out is None and any(o.fill is not None for o in special.outputs):
            return
        try:
            kind = type(args[self._first])
            self._readers.setdefault(kind, quick_reader(self._interface, kind))
            key, values = self._read(tuple(args), out)
        except NOT_QUICK:
            return
        if len(self._ready) >= _READY_AT_MOST:
            self._ready = {}
        ready = self._ready[key] = self._make_ready(special, given, framework, values, out is None)
        if framework == "torch" and not self._exact:
            self._add_guard(ready, args, out)

    def _make_ready(
        self, special: Specialization, given: Sequence[Any], framework: Framework, values: Sequence[Any], fresh: bool
    ) -> _Ready:
        program, fixed, index = special.loaded, special.fixed, special.loaded.device.index
        made = len(special.outputs) if fresh else 0
        plan = program.plan([*values, *[0] * made, *fixed])
        varies = any(i < len(program.params) - len(fixed) and i not in self._exact for i in program.size_slots)
        makes = tuple(allocator(framework, o.dtype, o.shape, index) for o in special.outputs)
        scratch = allocator(framework, dt.uint8, (plan.scratch_bytes,), index) if plan.scratch_bytes else None
        # What is known of the arrays, without keeping them.
        kinds = {n: ArrayKind(type(v.owner), v.pointer) for n, v in self._named(special, given)}
        exact = {self._interface.params[i].name: int(values[i]) for i in self._exact}
        faster = functools.partial(self._make_fast, special, plan, framework, kinds, exact)
        return _Ready(
            program, plan, fixed, program.tail(fixed), makes if made else None, address_reader(framework),
            () if made else self._apart(special, given), stream_getter(framework), framework,
            varies, scratch, [] if varies else [faster],
        )  # fmt: skip

    def _named(self, special: Specialization, given: Sequence[Any]) -> list[tuple[str, ArgumentInfo]]:
        """The arrays among ``given``, values of the first parameters, by name."""
        return [(name, v) for (name, _), v in zip(special.params, given) if isinstance(v, ArgumentInfo)]

    def _apart(self, special: Specialization, given: Sequence[Any]) -> tuple[tuple[int, int, int, int], ...]:
        """For each two arrays, one of them written: see `_Ready`."""
        written = self._written | {o.name for o in self._interface.outputs}
        places = {i for i, (name, _) in enumerate(special.params) if name in written}
        return tuple(pair for pair in pairs_apart(given) if places & {pair[0], pair[1]})

    def _make_fast(
        self,
        special: Specialization,
        plan: Plan,
        framework: Framework,
        kinds: dict[str, ArrayKind],
        exact: dict[str, int],
    ) -> None:
        fast = fast_device_specialization(self._interface, special, plan, framework, kinds, exact, self._written)
        if fast is not None:
            self._add(fast)

    def _add_guard(self, ready: _Ready, args: Sequence[Any], out: Any) -> None:
        """torch's own way to know a call again; the newest are tried first."""
        params = self._interface.params
        given = () if out is None else out if isinstance(out, tuple) else (out,)
        tensors = [*(a for p, a in zip(params, args) if p.role == "tensor"), *given]
        constants = tuple(a for p, a in zip(params, args) if p.role == "constant")
        guard = make_guard(tensors, constants, ready)
        if guard is None:
            return
        self._guarded = self._guarded or guarded_reader(self._interface)
        if out is None:
            self._fresh_guards = [guard, *self._fresh_guards][:_GUARDS_AT_MOST]
        else:
            self._given_guards = [guard, *self._given_guards][:_GUARDS_AT_MOST]


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


def pairs_apart(given: Sequence[Any]) -> list[tuple[int, int, int, int]]:
    """For each two arrays: their places, and the least and the greatest difference of their addresses between which
    they overlap."""
    arrays = [_extent(i, v) for i, v in enumerate(given) if isinstance(v, ArgumentInfo)]
    found = []
    for n, (one, low, high) in enumerate(arrays):
        for other, other_low, other_high in arrays[:n]:
            if low < high and other_low < other_high:
                found.append((one, other, other_low - high, other_high - low))
    return found


def _scratch_maker(plan: Plan, framework: Framework, device: Device) -> Callable[[], Any] | None:
    """Makes memory for the temporaries of a call; given back at once, it is used again only for work after it."""
    if not plan.scratch_bytes:
        return None
    return lambda: allocate(framework, dt.uint8, (plan.scratch_bytes,), device.name)
