"""What the fast call starts for a plan of a GPU: the launches of a program, as its machine code reads them."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.ir import dtype as dt
from weft.ir.errors import Error
from weft.runtime import fastcall_text as text
from weft.runtime.argument import ArgumentInfo, Framework
from weft.runtime.cuda_arrays import allocator, main_framework, stream_getter
from weft.runtime.cuda_driver import device_count, driver_address, error_of, recent_ring
from weft.runtime.cuda_maps import encode_map
from weft.runtime.cuda_program import LoadedProgram, Plan, launch_config
from weft.runtime.executor import ALIGNMENT, FastStart, Made
from weft.runtime.fastcall_native import native_calls
from weft.runtime.fastcall_records import DeviceMemory, Records, TensorLayout

if TYPE_CHECKING:
    from weft.runtime.fastcall_native import Exchange


class DeviceStart:
    """``program`` for the sizes of ``plan``, on the stream that the function at ``stream`` tells.

    Takes the place of a kernel in `fastcall.Specialization`; ``scratch`` is the memory of its temporaries, if any.
    """

    def __init__(self, program: LoadedProgram, plan: Plan, stream: int, scratch: TensorLayout | None) -> None:
        self.program, self.plan = program, plan
        self.params = program.names
        self._stream, self._scratch = stream, scratch

    @property
    def last_slots(self) -> list[int]:
        """The slots after those of the parameters: temporaries, where asserts write to."""
        return [*[0] * len(self.program.program.temporaries), *self.program.record_addresses]

    def error(self, status: int, record: Sequence[int]) -> Error:
        return error_of("cuLaunchKernelEx", status)

    def fields(self, records: Records) -> list[int]:
        """What `fastcall_text.START` says."""
        device, plan = self.program.device, self.plan
        several = device_count() > 1
        first = len(self.program.params)
        fields = {
            "launch": driver_address("cuLaunchKernelEx"),
            "current": driver_address("cuCtxGetCurrent") if several else 0,
            "context": int(device.context),
            "stream": self._stream,
            "device": device.index,
            "records": ctypes.addressof(device.record_words),
            "owner": self.program.owner_number,
            "recent": ctypes.addressof(recent_ring),
            "nlaunches": len(plan.launches),
            "launches": records.words(word for n in range(len(plan.launches)) for word in self._launch(n, records)),
            "scratch": records.words(records.record(self._scratch, first, allocate=True)) if self._scratch else 0,
            "offsets": records.words(plan.offsets),
            "noffsets": len(plan.offsets),
            "move": driver_address("cuTensorMapReplaceAddress") if any(x.maps for x, _ in plan.launches) else 0,
        }
        records.address_of(self)
        return [fields[name] for name in text.START]

    def _launch(self, number: int, records: Records) -> list[int]:
        launch, grid = self.plan.launches[number]
        config, attribute = launch_config(launch, grid, stream=0)
        records.address_of(attribute)
        # A slot by its number, a step of a loop around launches by the address of a word that holds it.
        steps = self.plan.steps
        with self.program.device.current():
            maps = {made.name: encode_map(made) for made in launch.maps}
        for memory, _ in maps.values():
            records.address_of(memory)
        places = [word for m in launch.maps for word in (maps[m.name][1], self.params.index(m.buffer))]
        own = {n: at for n, (_, at) in maps.items()} | {
            n: records.words([steps[n]]) for n in launch.params if n in steps
        }
        params = [own[n] if n in own else self.params.index(n) for n in launch.params]
        words = struct.unpack("=7q", bytes(config))
        lists = len(params), records.words(params), len(maps), records.words(places)
        return [self.program.functions[launch.name], *lists, *words]


def start_of(
    program: LoadedProgram, plan: Plan, arrays: Mapping[str, ArgumentInfo], outputs: Sequence[Made]
) -> FastStart | None:
    """How machine code launches calls with such ``arrays``; None where it cannot read them or find their stream."""
    framework, index = main_framework(list(arrays.values())), program.device.index
    exchange = _common_exchange([type(v.owner) for v in arrays.values()])
    unusual = any(v.framework != framework or v.note is not None for v in arrays.values())
    unusual = unusual or any(
        len(launch.steps) > text.MAX_STEPS or len(launch.maps) > text.MAX_MAPS for launch, _ in plan.launches
    )
    if unusual or exchange is None or not _tells_stream(exchange, framework, index):
        return None

    def memory(offset: int, make: Callable[[], Any] | None = None) -> DeviceMemory:
        return DeviceMemory(index, exchange.framework, ALIGNMENT, offset, make)

    places = {name: memory(v.pointer % ALIGNMENT) for name, v in arrays.items()}
    makers = {o.name: allocator(framework, o.dtype, o.shape, index) for o in outputs}
    places |= {name: places[name]._replace(make=make) for name, make in makers.items()}
    scratch, room = None, (plan.scratch_bytes,)
    if plan.scratch_bytes:
        scratch = TensorLayout(dt.uint8, room, (1,), memory(0, allocator(framework, dt.uint8, room, index)))
    start = DeviceStart(program, plan, exchange.stream, scratch)
    return FastStart(start, places, start.last_slots)


def _common_exchange(classes: Sequence[type]) -> Exchange | None:
    """How arrays of all these ``classes`` are read; None where they are of several frameworks, or one is unknown."""
    native = native_calls()
    exchanges = [None if native is None else native.bind_class(cls) for cls in classes]
    numbers = {None if exchange is None else exchange.framework for exchange in exchanges}
    return exchanges[0] if len(numbers) == 1 else None


def torch_exchange(index: int) -> Exchange | None:
    """How machine code reads torch's tensors on a GPU, where it can, and finds the stream that torch works on."""
    torch, native = sys.modules.get("torch"), native_calls()
    found = None if native is None or torch is None else native.bind_class(torch.Tensor)
    return found if found is not None and _tells_stream(found, "torch", index) else None


def _tells_stream(exchange: Exchange, framework: Framework, index: int) -> bool:
    """Whether the function that machine code asks names the stream that the framework itself does."""
    stream = ctypes.c_void_p()
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
    try:
        status = prototype(exchange.stream)(text.ON_CUDA, index, ctypes.addressof(stream))
    except Exception:  # the function is foreign code, and says in its own words that it has no such device
        return False
    return status == 0 and (framework == "dlpack" or (stream.value or 0) == stream_getter(framework)(index))
