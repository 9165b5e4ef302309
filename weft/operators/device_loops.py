"""Calls of `weft.kernel` with arrays on a GPU: as those of operators (`device_calls`), but outputs are always given."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.numerics import is_fast
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel, Param
from weft.ir.visit import free_vars
from weft.operators.alignment import ALIGNMENT, alignments
from weft.operators.device_calls import NOT_QUICK, do_once, pairs_apart
from weft.operators.fast_specialization import ArrayKind, fast_loop_specialization
from weft.operators.interface import Interface
from weft.operators.pause_collector import collector_paused
from weft.operators.quick_arguments import Reader, quick_reader
from weft.operators.scheduling import Numerics
from weft.operators.signature import Layout, layout_of
from weft.runtime.argument import ArgumentInfo, Framework
from weft.runtime.arrays import allocate
from weft.runtime.cuda_arrays import address_of, main_framework, order_streams, stream_getter
from weft.runtime.cuda_device import Device, find_device
from weft.runtime.cuda_driver import capture_relaxed
from weft.runtime.cuda_program import LoadedProgram, Plan
from weft.runtime.fastcall import Specialization
from weft.runtime.store import Artifact, default_store
from weft.target.cuda.program import program_from_json
from weft.version import cache_key


class _Ready(NamedTuple):
    """A call that was checked before: its program and plan, what must not overlap, and the caller's stream.

    ``faster`` is emptied when machine code is told of such calls."""

    program: LoadedProgram
    plan: Plan
    apart: tuple[tuple[int, int, int, int], ...]
    stream: Callable[[int], int]
    faster: list[Callable[[], None]]


class DeviceLoops:
    """The calls of one loop program that go to GPUs; ``add`` tells machine code of a kind of call."""

    def __init__(
        self, kernel: Kernel, numerics: Numerics, interface: Interface, add: Callable[[Specialization], None]
    ) -> None:
        self._kernel, self._numerics, self._interface, self._add = kernel, numerics, interface, add
        self._lock = threading.Lock()
        self._loaded: dict[tuple[str, frozenset[str]], LoadedProgram] = {}
        self._ready: dict[tuple[Any, ...], _Ready] = {}
        self._readers: dict[type, Reader | None] = {}
        arrays = [i for i, p in enumerate(kernel.params) if isinstance(p, Buffer)]
        self._first = arrays[0] if arrays else len(kernel.params)
        self._sizes = _size_positions(kernel)

    def call(self, args: tuple[Any, ...]) -> bool:
        """Runs a call like one before; whether it was one."""
        try:
            key, values = self._readers[type(args[self._first])](args, None)  # type: ignore[misc]
            ready = self._ready[key + tuple(values[i] for i in self._sizes)]
        except NOT_QUICK:
            return False
        if any(least < values[one] - values[other] < most for one, other, least, most in ready.apart):
            return False
        ready.program.start_quickly(ready.plan, values, ready.program.tail(), ready.stream)
        if ready.faster:
            do_once(ready.faster)
        return True

    def run(self, values: Sequence[Any], index: int, args: tuple[Any, ...]) -> None:
        """A checked call: ``values`` describes ``args``."""
        device = find_device(index)
        device.check_records()
        infos = [v for v in values if isinstance(v, ArgumentInfo)]
        named = zip(self._kernel.params, values)
        misaligned = frozenset(p.name for p, v in named if isinstance(v, ArgumentInfo) and v.pointer % ALIGNMENT)
        program = self._program(device, misaligned)
        framework = main_framework(infos)
        stream = stream_getter(framework)(index)
        order_streams(infos, stream)
        slots = program.slots(values)
        plan = program.plan(slots)
        scratch = allocate(framework, dt.uint8, (plan.scratch_bytes,), device.name) if plan.scratch_bytes else None
        program.start(plan, slots, stream, 0 if scratch is None else address_of(scratch))
        if scratch is None and all(i.framework == framework and i.note is None for i in infos):
            faster = functools.partial(self._make_fast, program, plan, framework, self._kinds(values))
            self._remember(_Ready(program, plan, self._apart(values), stream_getter(framework), [faster]), args)

    def _kinds(self, values: Sequence[Any]) -> list[tuple[Layout, ArrayKind] | int | None]:
        """What the arguments of a call are like, without keeping arrays: see `fast_loop_specialization`."""
        return [
            (layout_of(v), ArrayKind(type(v.owner), v.pointer)) if isinstance(v, ArgumentInfo)
            else int(v) if i in self._sizes else None
            for i, v in enumerate(values)
        ]  # fmt: skip

    def _make_fast(self, program: LoadedProgram, plan: Plan, framework: Framework, kinds: Sequence[Any]) -> None:
        fast = fast_loop_specialization(self._kernel, program, plan, framework, kinds)
        if fast is not None:
            self._add(fast)

    def _remember(self, ready: _Ready, args: tuple[Any, ...]) -> None:
        try:
            kind = type(args[self._first])
            reader = self._readers.setdefault(kind, quick_reader(self._interface, kind))
            key, values = reader(args, None)  # type: ignore[misc]
        except NOT_QUICK:
            return
        self._ready[key + tuple(values[i] for i in self._sizes)] = ready

    def _apart(self, values: Sequence[Any]) -> tuple[tuple[int, int, int, int], ...]:
        written = {i for i, p in enumerate(self._kernel.params) if p.name in self._kernel.outputs}
        return tuple(pair for pair in pairs_apart(values, len(values)) if written & {pair[0], pair[1]})

    def _program(self, device: Device, misaligned: frozenset[str]) -> LoadedProgram:
        with self._lock:
            found = self._loaded.get((device.name, misaligned))
            if found is None:
                with device.current(), capture_relaxed():
                    found = self._loaded[device.name, misaligned] = self._load(device, misaligned)
            return found

    @collector_paused()
    def _load(self, device: Device, misaligned: frozenset[str]) -> LoadedProgram:
        from weft.target.cuda.lower import compile_kernel
        from weft.target.cuda.toolchain import toolchain_key

        parts = print_kernel(self._kernel), self._numerics, device.machine.key, ",".join(sorted(misaligned))
        key = cache_key("loops on a GPU", *parts, toolchain_key())
        kept = default_store().get(key)
        if kept is not None:
            program = replace(program_from_json(kept.metadata), cubin=kept.blobs["cubin"])
        else:
            aligned = alignments(self._kernel, misaligned)
            program = compile_kernel(self._kernel, device.machine, fast=is_fast(self._numerics), aligned=aligned)
            default_store().put(key, Artifact(replace(program, cubin=b"").to_json(), {"cubin": program.cubin}))
        return LoadedProgram(program, device, [_typed(p) for p in self._kernel.params], self._kernel.name)


def _typed(param: Param) -> tuple[str, DType | None]:
    return param.name, None if isinstance(param, Buffer) else param.dtype


def _size_positions(kernel: Kernel) -> tuple[int, ...]:
    """Integer parameters: shapes, grids and bounds depend on them, so a call with others is checked again."""
    used = {name for b in kernel.buffers for n in (*b.shape, *(b.strides or ())) for name in free_vars(n)}
    scalars = [(i, p) for i, p in enumerate(kernel.params) if not isinstance(p, Buffer)]
    return tuple(i for i, p in scalars if p.name in used or p.dtype.is_integer)
