"""A compiled GPU program on a device, and how one call launches it.

Parameters are eight-byte slots, as on the CPU; each launch of a program has a list of pointers into them. What does
not change between calls (configurations, pointer lists) is made once, a `Frame`, for each stream and each size of
the grids. A call takes a frame, writes its slots, and gives it back, so calls of several threads do not meet.

Machine code stays loaded as long as the process lives: graphs captured from calls refer to it.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from weft.ir.dtype import DType
from weft.ir.errors import Error, InternalError
from weft.ir.expr import Var
from weft.ir.span import Span
from weft.ir.visit import free_vars
from weft.runtime.cuda_device import Device
from weft.runtime.cuda_driver import (
    ask,
    capture_relaxed,
    device_count,
    driver,
    error_of,
    launch_function,
    note_launch,
    owner_number,
)
from weft.runtime.cuda_maps import encode_map, move_function, move_map
from weft.runtime.cuda_patch import PatchedLaunches
from weft.runtime.kernel import slot_bits, status_error
from weft.target.cuda.machine import DEFAULT_SHARED
from weft.target.cuda.program import ERROR_RECORD, FAILED, CudaProgram, Launch, evaluate_size, launches_of

#: Where each temporary begins in the memory a call gets for all of them.
ALIGNMENT = 256
#: Answers of a launch in a thread whose context is another, or none.
_OTHER_CONTEXT = (201, 400)


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint32),
    )


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute with a whole number as its value."""

    _fields_ = (
        ("id", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
        ("value", ctypes.c_int32),
        ("rest", ctypes.c_byte * 60),
    )


#: Attributes of a launch: all blocks run at once; it may begin before the one before it has ended.
_COOPERATIVE, _PROGRAMMATIC = 2, 6


class Plan:
    """A program for given sizes: the launches that run, with their grids, and where temporaries are.

    ``frames`` are those that no call has at the moment, for each stream.
    """

    def __init__(
        self,
        launches: Sequence[tuple[Launch, tuple[int, int, int]]],
        offsets: Sequence[int],
        scratch_bytes: int,
        steps: Mapping[str, int],
    ) -> None:
        self.launches, self.offsets, self.scratch_bytes = tuple(launches), tuple(offsets), scratch_bytes
        #: What parameters that no call gives stand for: the steps of loops around launches, by name.
        self.steps = dict(steps)
        self.frames: dict[int, list[Frame]] = {}

    def take(self, program: LoadedProgram, stream: int) -> Frame:
        """A frame for one call on ``stream``, to be put back into ``frames`` after it."""
        try:
            return self.frames.setdefault(stream, []).pop()
        except IndexError:
            return Frame(program, self, stream)


class Frame:
    """Everything one call of a program on one stream hands to the driver."""

    def __init__(self, program: LoadedProgram, plan: Plan, stream: int) -> None:
        names = [*program.names, *plan.steps]
        self.slots = (ctypes.c_uint64 * max(1, len(names)))()
        self.slots[len(program.names) : len(names)] = [step % (1 << 64) for step in plan.steps.values()]
        self.kept: list[Any] = []
        #: Tensor maps, and the slots with the addresses of their arrays.
        self.maps: list[tuple[int, int]] = []
        self._device = program.device
        base = ctypes.addressof(self.slots)
        place = {name: base + 8 * i for i, name in enumerate(names)}
        self.launches = [self._launch(program, launch, grid, place, stream) for launch, grid in plan.launches]

    def _launch(
        self, program: LoadedProgram, launch: Launch, grid: tuple[int, int, int], place: Mapping[str, int], stream: int
    ) -> tuple[Any, ...]:
        for made in launch.maps:
            with program.device.current():
                memory, address = encode_map(made)
            self.kept.append(memory)
            self.maps.append((address, program.names.index(made.buffer)))
            place = {**place, made.name: address}
        pointers = (ctypes.c_void_p * max(1, len(launch.params)))(*(place[name] for name in launch.params))
        config, attribute = launch_config(launch, grid, stream)
        self.kept += [pointers, attribute, config]
        addresses = ctypes.addressof(config), program.functions[launch.name], ctypes.addressof(pointers)
        return (*map(ctypes.c_void_p, addresses), None)

    def move_maps(self) -> None:
        """Tensor maps to where their arrays are now."""
        for address, slot in self.maps:
            if move_function()(address, self.slots[slot]):  # the thread may be in no context
                with self._device.current():
                    move_map(address, self.slots[slot])


def launch_config(launch: Launch, grid: tuple[int, int, int], stream: int) -> tuple[_Config, _Attribute]:
    """How ``launch`` is launched; the second structure is to be kept with the first, which points at it."""
    attribute = _Attribute(_COOPERATIVE if launch.cooperative else _PROGRAMMATIC, 0, 1)
    count = 1 if launch.cooperative or launch.follows else 0
    block = (ctypes.c_uint32 * 3)(*launch.block)
    attributes = ctypes.addressof(attribute) if count else None
    return _Config((ctypes.c_uint32 * 3)(*grid), block, launch.shared_bytes, stream, attributes, count), attribute


class LoadedProgram:
    """``program`` loaded on ``device``; ``params`` has a name and, for a scalar, a type for each value of a call.

    ``messages`` and ``spans`` say what each assert means and where it stands; ``owner`` whose program it is.
    """

    def __init__(
        self,
        program: CudaProgram,
        device: Device,
        params: Sequence[tuple[str, DType | None]],
        owner: str,
        spans: Sequence[Span | None] = (),
    ) -> None:
        self.program, self.device, self.owner, self.spans = program, device, owner, tuple(spans)
        self.owner_number = owner_number(owner)
        self.params = tuple(params)
        self._check_names()
        with device.current(), capture_relaxed():
            self._module = ask("cuModuleLoadData", program.cubin)
            self.functions = {launch.name: self._load(launch) for launch in program.launches}
        uses_records = any(ERROR_RECORD in launch.params or FAILED in launch.params for launch in program.launches)
        #: Where asserts write to.
        self.record_addresses = device.records.add(self) if uses_records else (0, 0)
        #: Parameters that the grids, the conditions and the temporaries depend on.
        self.size_slots = tuple(n for n, (name, _) in enumerate(self.params) if name in _size_names(program))
        self._plans: dict[tuple[int, ...], Plan] = {}
        self._start = launch_function() if device_count() == 1 else self._start_in_context

    @property
    def names(self) -> list[str]:
        """What each slot holds."""
        return [*(name for name, _ in self.params), *(b.name for b in self.program.temporaries), FAILED, ERROR_RECORD]

    def _check_names(self) -> None:
        known = set(self.names)
        for launch in self.program.launches:
            own = {s.name for s in launch.steps} | {m.name for m in launch.maps}
            unknown = [name for name in launch.params if name not in known | own]
            if unknown:
                raise InternalError(f"launch `{launch.name}` wants `{unknown[0]}`, which no call has")

    def _load(self, launch: Launch) -> int:
        function = ask("cuModuleGetFunction", self._module, launch.name.encode())
        if launch.shared_bytes:
            attribute = driver().CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            if launch.shared_bytes > DEFAULT_SHARED:
                ask("cuFuncSetAttribute", function, attribute, launch.shared_bytes)
        return int(function)

    def plan(self, values: Sequence[int | float]) -> Plan:
        """The launches of a call with these parameters."""
        key = tuple(int(values[i]) for i in self.size_slots)
        kept = self._plans.get(key)
        if kept is None:
            if len(self._plans) >= 256:
                self._plans = {}
            kept = self._plans[key] = self._make_plan(dict(zip((self.params[i][0] for i in self.size_slots), key)))
        return kept

    def _make_plan(self, sizes: Mapping[str, int]) -> Plan:
        launches = []
        steps: dict[str, int] = {}
        for launch, here in launches_of(self.program.launches, sizes):
            x, y, z = (int(evaluate_size(n, here)) for n in launch.grid)
            runs = launch.condition is None or bool(evaluate_size(launch.condition, here))
            if runs and min(x, y, z) > 0:
                named = {s.name: f"{s.name} = {here[s.name]}" for s in launch.steps}
                steps |= {text: int(here[name]) for name, text in named.items()}
                params = tuple(named.get(name, name) for name in launch.params)
                launches.append((replace(launch, params=params), (x, y, z)))
        offsets, total = [], 0
        for buffer in self.program.temporaries:
            offsets.append(total)
            count = buffer.element_count()  # with the gaps between rows
            if count is None:
                count = math.prod(max(0, int(evaluate_size(n, sizes))) for n in buffer.shape)
            total += -(-count * buffer.dtype.itemsize // ALIGNMENT) * ALIGNMENT
        return Plan(launches, offsets, total, steps)

    def start(self, plan: Plan, values: Sequence[int | float], stream: int, scratch: int = 0) -> None:
        """One call: ``values`` are addresses and numbers, in range, in the order of the parameters.

        ``scratch`` is the address of the memory that ``plan`` asks for. Returns before the GPU is done.
        """
        frame = plan.take(self, stream)
        self._fill(frame, plan, values, scratch)
        note_launch(self.owner_number)
        for launch in frame.launches:
            self.launch(launch)
        plan.frames[stream].append(frame)

    def record(self, plan: Plan, values: Sequence[int | float], stream: int, scratch: int = 0) -> PatchedLaunches:
        """As `start`, on a stream that records a graph; what it gives changes the call in that graph later."""
        frame = Frame(self, plan, stream)
        self._fill(frame, plan, values, scratch)
        return PatchedLaunches(self, plan, frame, stream)

    def _fill(self, frame: Frame, plan: Plan, values: Sequence[int | float], scratch: int) -> None:
        slots = slot_bits([dtype for _, dtype in self.params], values)
        slots += [*(scratch + offset for offset in plan.offsets), *self.record_addresses]
        for place, bits in enumerate(slots):
            frame.slots[place] = bits
        frame.move_maps()

    def launch(self, launch: tuple[Any, ...]) -> None:
        """One launch of a frame."""
        status = self._start(*launch)
        if status:
            self._launch_again(status, launch)

    def _start_in_context(self, *launch: Any) -> int:
        with self.device.current():
            return int(launch_function()(*launch))

    def _launch_again(self, status: int, launch: tuple[Any, ...]) -> None:
        """In the context of the device, where the thread was in another or in none; an error where that fails."""
        if status in _OTHER_CONTEXT:
            status = self._start_in_context(*launch)
        if status:
            raise error_of("cuLaunchKernelEx", status)

    def error(self, status: int, record: Sequence[int]) -> Error:
        """The error that a record of a failed assert stands for."""
        found = status_error(status, record, [site.message for site in self.program.sites], self.spans)
        found.notes = (("in", f"{self.owner} on cuda:{self.device.index}, found at a later call or synchronization"),)
        found.args = (found.render(),)
        return found


def _size_names(program: CudaProgram) -> frozenset[str]:
    """Scalars that grids, conditions and temporaries depend on."""
    grids = [n for launch in program.launches for n in (*launch.grid, launch.condition) if n is not None]
    shapes = [n for buffer in program.temporaries for n in buffer.shape]
    return frozenset(v.name if isinstance(v, Var) else v for e in (*grids, *shapes) for v in free_vars(e))
