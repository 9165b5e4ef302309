"""What the fast call starts for a plan of a GPU: the launches of a program, as its machine code reads them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

from weft.ir.errors import Error
from weft.runtime import fastcall_text as text
from weft.runtime.cuda_driver import device_count, driver_address, error_of, recent_ring
from weft.runtime.cuda_program import LoadedProgram, Plan, launch_config
from weft.runtime.fastcall_records import Records, TensorLayout


class DeviceStart:
    """``program`` for the sizes of ``plan``, on the stream that the function at ``stream`` tells.

    Takes the place of a kernel in `fastcall.Specialization`; ``scratch`` is the memory of its temporaries, if any.
    """

    def __init__(self, program: LoadedProgram, plan: Plan, stream: int, scratch: TensorLayout | None) -> None:
        self.program, self.plan = program, plan
        self.params = [*program.names, *plan.steps]
        self._stream, self._scratch = stream, scratch

    def last_slots(self, fixed: Sequence[int]) -> list[int]:
        """The slots after those of a call's own values: ``fixed`` parameters, temporaries, where asserts write to."""
        steps = self.plan.steps.values()
        return [*fixed, *[0] * len(self.program.program.temporaries), *self.program.record_addresses, *steps]

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
        }
        records.address_of(self)
        return [fields[name] for name in text.START]

    def _launch(self, number: int, records: Records) -> list[int]:
        launch, grid = self.plan.launches[number]
        config, attribute = launch_config(launch, grid, stream=0)
        records.address_of(attribute)
        params = [self.params.index(name) for name in launch.params]
        words = struct.unpack("=7q", bytes(config))
        return [self.program.functions[launch.name], len(params), records.words(params), *words]
