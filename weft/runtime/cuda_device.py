"""The GPUs of this machine: what each is like, its context, and the records that failing asserts leave.

Work goes to a device's primary context, the one that torch, CuPy and the CUDA runtime use.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from weft.ir.errors import TargetError
from weft.locks import new_lock
from weft.runtime.cuda_driver import ask, capture_relaxed, device_count, driver
from weft.runtime.kernel import RECORD_LENGTH
from weft.target.cuda.machine import GpuMachine

if TYPE_CHECKING:
    from weft.runtime.cuda_program import LoadedProgram

#: Records, and flags on the device, that there is room for.
_RECORDS = 1 << 14
_RECORD_BYTES = RECORD_LENGTH * 8
_OLDEST = 70


class Device:
    """GPU number ``index``. Made by `find_device`, once."""

    def __init__(self, index: int) -> None:
        if not 0 <= index < device_count():
            raise TargetError(
                f"there is no GPU cuda:{index}",
                why=f"this machine has {device_count()}, counted from 0",
                help="look at nvidia-smi and at CUDA_VISIBLE_DEVICES",
            )
        self.index, self.name = index, f"cuda:{index}"
        self.handle = ask("cuDeviceGet", index)
        self.context = ask("cuDevicePrimaryCtxRetain", self.handle)
        self.machine = _machine(self.handle)
        self._lock = new_lock()
        self._records: ErrorRecords | None = None
        #: Where records are and how many, for machine code.
        self.record_words = (ctypes.c_int64 * 2)()

    @property
    def records(self) -> ErrorRecords:
        with self._lock:
            if self._records is None:
                with self.current(), capture_relaxed():
                    self._records = ErrorRecords(self.record_words)
            return self._records

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """This device's context is the thread's inside."""
        if int(ask("cuCtxGetCurrent")) == int(self.context):
            yield
            return
        ask("cuCtxPushCurrent", self.context)
        try:
            yield
        finally:
            ask("cuCtxPopCurrent")

    def check_records(self) -> None:
        """Raises the error of a program whose assert failed since the last time, if there is one."""
        if self._records is not None:
            self._records.check(self)


class ErrorRecords:
    """Memory that asserts in kernels write to and the host reads without waiting, a record a program."""

    def __init__(self, words: ctypes.Array[ctypes.c_int64]) -> None:
        flags = driver().CU_MEMHOSTALLOC_DEVICEMAP | driver().CU_MEMHOSTALLOC_PORTABLE
        self.address = int(ask("cuMemHostAlloc", _RECORDS * _RECORD_BYTES, flags))
        ctypes.memset(self.address, 0, _RECORDS * _RECORD_BYTES)
        self._on_device = int(ask("cuMemHostGetDevicePointer", self.address, 0))
        self._flags = int(ask("cuMemAlloc", _RECORDS * 8))
        _clear(self._flags, _RECORDS * 8)
        self._programs: list[LoadedProgram] = []
        self._words = words
        words[0] = self.address
        self._clear = b""
        self._seen = (ctypes.c_char * 0).from_address(self.address)

    def add(self, program: LoadedProgram) -> tuple[int, int]:
        """Where ``program`` writes, as addresses on the device: its flag and its record."""
        number = len(self._programs)
        if number >= _RECORDS:
            raise TargetError("too many programs with run-time checks", why=f"a process can have {_RECORDS} of them")
        self._programs.append(program)
        self._clear = bytes((number + 1) * _RECORD_BYTES)
        self._seen = (ctypes.c_char * len(self._clear)).from_address(self.address)
        self._words[1] = number + 1
        return self._flags + number * 8, self._on_device + number * _RECORD_BYTES

    def check(self, device: Device) -> None:
        if self._seen.raw != self._clear:
            self._raise(device)

    def _raise(self, device: Device) -> None:
        for number, program in enumerate(self._programs):
            place = self.address + number * _RECORD_BYTES
            record = list((ctypes.c_int64 * RECORD_LENGTH).from_address(place))
            if not record[0]:
                continue
            ctypes.memset(place, 0, _RECORD_BYTES)
            with device.current(), capture_relaxed():
                _clear(self._flags + number * 8, 8)
            raise program.error(record[0], record[1:])


def _clear(address: int, count: int) -> None:
    """Sets bytes to 0, on a stream of its own: others may be capturing a graph."""
    stream = ask("cuStreamCreate", driver().CUstream_flags.CU_STREAM_NON_BLOCKING)
    try:
        ask("cuMemsetD8Async", address, 0, count, stream)
        ask("cuStreamSynchronize", stream)
    finally:
        ask("cuStreamDestroy", stream)


@functools.cache
def find_device(index: int) -> Device:
    """GPU number ``index``, as CUDA counts."""
    return Device(index)


def _machine(handle: object) -> GpuMachine:
    """What the driver says of a GPU."""
    kinds = driver().CUdevice_attribute

    def read(name: str) -> int:
        return int(ask("cuDeviceGetAttribute", getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}"), handle))

    name = ask("cuDeviceGetName", 128, handle)
    capability = read("COMPUTE_CAPABILITY_MAJOR") * 10 + read("COMPUTE_CAPABILITY_MINOR")
    text = (name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)).partition("\0")[0].strip()
    if capability < _OLDEST:
        raise TargetError(
            f"the GPU {text} is too old",
            why=f"its compute capability is {capability / 10:.1f}; code is made for {_OLDEST / 10:.1f} and later",
            help="pass arrays that are on the CPU",
        )
    return GpuMachine(
        name=text,
        arch=f"sm_{capability}",
        sms=read("MULTIPROCESSOR_COUNT"),
        max_threads_per_sm=read("MAX_THREADS_PER_MULTIPROCESSOR"),
        shared_per_block=read("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        shared_per_sm=read("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        l2_bytes=read("L2_CACHE_SIZE"),
        bandwidth=read("MEMORY_CLOCK_RATE") * 1e3 * read("GLOBAL_MEMORY_BUS_WIDTH") / 8 * 2,
        clock=read("CLOCK_RATE") * 1e3,
        registers_per_sm=read("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        max_threads_per_block=read("MAX_THREADS_PER_BLOCK"),
        max_blocks_per_sm=read("MAX_BLOCKS_PER_MULTIPROCESSOR"),
    )


def default_machine() -> GpuMachine:
    """The GPU that code is made for where no array says: ``WEFT_CUDA_ARCH``, the first one here, or a usual one."""
    import os

    from weft.runtime.cuda_driver import is_available
    from weft.target.cuda.machine import gpu_for_arch

    named = os.environ.get("WEFT_CUDA_ARCH")
    if named:
        return gpu_for_arch(named)
    return find_device(0).machine if is_available() else gpu_for_arch("sm_90")
