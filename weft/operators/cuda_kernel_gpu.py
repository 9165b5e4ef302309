"""A kernel of a CUDA source on a GPU: its text goes to NVRTC as it is, or as a version that tuning has chosen."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from weft.from_cuda.coarsen import Version
from weft.from_cuda.launch import Dim3
from weft.runtime.argument import ArgumentInfo
from weft.runtime.cuda_arrays import main_framework, order_streams, stream_getter
from weft.runtime.cuda_device import Device, find_device
from weft.runtime.cuda_driver import ask, capture_relaxed, driver
from weft.target.cuda.nvrtc import compile_source

#: Dynamic shared memory that every launch may have; more is asked for.
_PLAIN_SHARED = 48 << 10


class GpuKernel:
    """The machine code of one kernel, on each GPU it was launched on; ``text`` is the source as ``version`` has it."""

    def __init__(self, text: str, file: str, name: str, options: Sequence[str], version: Version | None = None) -> None:
        self.text, self.file, self.name, self.options = text, file, name, tuple(options)
        self.version = version or Version()
        self._functions: dict[int, Any] = {}

    def launch(
        self, device: str, raw: Sequence[bytes], arrays: Sequence[ArgumentInfo], grid: Dim3, block: Dim3, shared: int
    ) -> None:
        """Starts the kernel on the stream that the arrays' framework is on; nothing waits for it."""
        found = find_device(int(device[5:]))
        with found.current():
            stream = stream_getter(main_framework(arrays))(found.index)
            order_streams(arrays, stream)
            self.start(found, stream, raw, grid, block, shared)

    def start(self, device: Device, stream: int, raw: Sequence[bytes], grid: Dim3, block: Dim3, shared: int) -> None:
        """Starts a launch of the source's sizes on ``stream`` of the current device."""
        function = self._function(device)
        if shared > _PLAIN_SHARED:
            kinds = driver().CUfunction_attribute
            ask("cuFuncSetAttribute", function, kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
        if self.version.is_coarser:
            raw = [*raw, grid[0].to_bytes(4, "little")]
            grid = (-(-grid[0] // self.version.blocks), *grid[1:])
            block = (block[0] // self.version.threads, *block[1:])
        held = [ctypes.create_string_buffer(value, len(value)) for value in raw]
        places = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
        ask("cuLaunchKernel", function, *grid, *block, shared, stream, ctypes.addressof(places), 0)

    def _function(self, device: Device) -> Any:
        if device.index not in self._functions:
            with capture_relaxed():
                cubin, lowered = compile_source(self.text, self.file, self.name, device.machine.arch, self.options)
                module = ask("cuModuleLoadData", cubin)
                self._functions[device.index] = ask("cuModuleGetFunction", module, lowered)
        return self._functions[device.index]
