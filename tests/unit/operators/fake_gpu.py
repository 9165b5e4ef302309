"""A CUDA driver for tests without a GPU: device memory is memory of the process, and kernels are interpreted.

Instead of machine code, "modules" hold the text of the loop program, so that everything between a call and the
launch is tested as it is: arguments, plans, slots, streams, error records.
"""

from __future__ import annotations

import ctypes
import enum
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import weft
from weft.ir.buffer import Buffer
from weft.ir.errors import Error
from weft.ir.expr import Const, idx
from weft.ir.interpret import interpret
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import Assert, Kernel
from weft.ir.visit import walk
from weft.runtime import cuda_arrays, cuda_device, cuda_driver, cuda_memory, cuda_program, dlpack, fastcall_cuda
from weft.target.cuda.program import ERROR_RECORD, FAILED, CudaProgram, Launch, Site, evaluate_size

ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MULTIPROCESSOR_COUNT": 132,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 233472,
    "L2_CACHE_SIZE": 50 << 20,
    "MEMORY_CLOCK_RATE": 3201000,
    "GLOBAL_MEMORY_BUS_WIDTH": 6144,
    "CLOCK_RATE": 1980000,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
    "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": 32,
}


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900


class FakeDriver:
    """As much of ``cuda.bindings.driver`` as Weft uses; ``log`` has the calls, ``fail`` the answers to give instead."""

    CUresult = CUresult
    CUdevice_attribute = types.SimpleNamespace(**{f"CU_DEVICE_ATTRIBUTE_{name}": name for name in ATTRIBUTES})
    CUpointer_attribute = types.SimpleNamespace(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL=9)
    CUstreamCaptureMode = types.SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)
    CUstream_flags = types.SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUevent_flags = types.SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    CUfunction_attribute = types.SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
    CU_MEMHOSTALLOC_DEVICEMAP = 2
    CU_MEMHOSTALLOC_PORTABLE = 1

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.fail: dict[str, int] = {}
        self.memory: dict[int, Any] = {}
        self.modules: list[Kernel] = []
        self.context = 0
        self.launches: list[tuple[str, int, tuple[int, ...]]] = []
        self.devices = 1
        self.fast_launches = 0
        self._functions = {
            "cuLaunchKernelEx": ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(self._launch_fast),
            "cuCtxGetCurrent": ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._current_fast),
        }

    def address(self, function: str) -> int:
        """Where machine code finds a function of the driver."""
        return ctypes.cast(self._functions[function], ctypes.c_void_p).value or 0

    def _launch_fast(self, *args: int | None) -> int:
        self.fast_launches += 1
        status = self.launch(*map(ctypes.c_void_p, args))
        self.fast_launches -= bool(status)
        return status

    def _current_fast(self, place: int) -> int:
        ctypes.c_int64.from_address(place).value = self.context
        return 0

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*args: Any) -> tuple[Any, ...]:
            self.log.append((name, *args))
            if name in self.fail:
                return (CUresult(self.fail[name]), None)
            answer = getattr(self, f"do_{name}", lambda *_: None)(*args)
            return (CUresult(0),) if answer is None else (CUresult(0), answer)

        return call

    def called(self, name: str) -> int:
        return sum(entry[0] == name for entry in self.log)

    def do_cuDeviceGetCount(self) -> int:
        return self.devices

    def do_cuDeviceGet(self, index: int) -> int:
        return index

    def do_cuDevicePrimaryCtxRetain(self, _: int) -> int:
        return 77

    def do_cuDeviceGetAttribute(self, kind: str, _: int) -> int:
        return ATTRIBUTES[kind]

    def do_cuDeviceGetName(self, *_: Any) -> bytes:
        return b"Fake H200\0\0"

    def do_cuCtxGetCurrent(self) -> int:
        return self.context

    def do_cuCtxPushCurrent(self, context: int) -> None:
        self.context = context

    def do_cuCtxPopCurrent(self) -> int:
        self.context = 0
        return 77

    def do_cuMemAlloc(self, count: int) -> int:
        memory = np.full(count + 256, 0xAB, np.uint8)
        address = -(-memory.ctypes.data // 256) * 256
        self.memory[address] = memory
        return address

    def do_cuMemAllocAsync(self, count: int, _: int) -> int:
        return self.do_cuMemAlloc(count)

    def do_cuMemFreeAsync(self, pointer: int, _: int) -> None:
        self.memory.pop(pointer, None)

    def do_cuMemHostAlloc(self, count: int, _: int) -> int:
        return self.do_cuMemAlloc(count)

    def do_cuMemHostGetDevicePointer(self, pointer: int, _: int) -> int:
        return pointer

    def do_cuMemsetD8Async(self, pointer: int, value: int, count: int, _: int) -> None:
        ctypes.memset(pointer, value, count)

    def do_cuMemsetD32Async(self, pointer: int, value: int, count: int, _: int) -> None:
        (ctypes.c_uint32 * count).from_address(pointer)[:] = [value] * count

    def do_cuMemcpyDtoH(self, host: int, pointer: int, count: int) -> None:
        ctypes.memmove(host, pointer, count)

    def do_cuMemcpyHtoD(self, pointer: int, host: int, count: int) -> None:
        ctypes.memmove(pointer, host, count)

    def do_cuMemcpyDtoDAsync(self, pointer: int, source: int, count: int, _: int) -> None:
        ctypes.memmove(pointer, source, count)

    def do_cuPointerGetAttribute(self, *_: Any) -> int:
        return 0

    def do_cuThreadExchangeStreamCaptureMode(self, _: int) -> int:
        return 0

    def do_cuStreamCreate(self, _: int) -> int:
        return 99

    def do_cuEventCreate(self, _: int) -> str:
        return "event"

    def do_cuModuleLoadData(self, image: bytes) -> int:
        self.modules.append(parse_kernel(image.decode()))
        return len(self.modules) - 1

    def do_cuModuleGetFunction(self, module: int, _: bytes) -> int:
        return 1000 + module

    def launch(self, config: Any, function: Any, pointers: Any, _: Any) -> int:
        if "cuLaunchKernelEx" in self.fail:
            return self.fail["cuLaunchKernelEx"]
        if self.context != 77:
            return int(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        kernel = self.modules[function.value - 1000]
        given = cuda_program._Config.from_address(config.value)
        self.launches.append((kernel.name, given.stream or 0, tuple(given.grid)))
        slots = (ctypes.c_void_p * (len(kernel.params) + 2)).from_address(pointers.value)
        run_from_slots(kernel, [int(s or 0) for s in slots])
        return 0


def run_from_slots(kernel: Kernel, slots: list[int]) -> None:
    """Interprets ``kernel`` on the memory that slots point at, and writes its error record."""
    values: dict[str, Any] = {}
    for param, slot in zip(kernel.params, slots):
        if not isinstance(param, Buffer):
            wide = param.dtype.is_float and param.dtype.bits < 32
            kind = np.dtype(np.float32) if wide else to_numpy(param.dtype)
            values[param.name] = np.frombuffer(ctypes.string_at(slot, kind.itemsize), kind)[0].item()
    flag, record = (ctypes.c_uint64.from_address(s).value for s in slots[len(kernel.params) :])
    if flag and ctypes.c_int64.from_address(flag).value:
        return
    arrays = [
        _view(p, ctypes.c_uint64.from_address(s).value, values) if isinstance(p, Buffer) else values[p.name]
        for p, s in zip(kernel.params, slots)
    ]
    try:
        interpret(kernel, arrays)
    except Error as error:
        if not record or not any(isinstance(n, Assert) for n in walk(kernel)):
            raise
        numbers = [int(t) for t in str(error).replace("`", " ").replace(",", " ").split() if t.lstrip("-").isdigit()]
        (ctypes.c_int64 * 8).from_address(record)[:] = [1, *numbers[:7], *[0] * (7 - len(numbers[:7]))]
        ctypes.c_int64.from_address(flag).value = 1


def _view(buffer: Buffer, address: int, sizes: Mapping[str, Any]) -> Any:
    shape = [int(evaluate_size(n, sizes)) for n in buffer.shape]
    strides = [int(evaluate_size(n, sizes)) for n in buffer.element_strides()]
    kind = to_numpy(buffer.dtype)
    reach = sum((n - 1) * s for n, s in zip(shape, strides)) + 1 if 0 not in shape else 0
    memory = np.frombuffer((ctypes.c_char * max(1, reach * kind.itemsize)).from_address(address), kind)
    return np.lib.stride_tricks.as_strided(memory, shape, [s * kind.itemsize for s in strides])


def fake_compile(kernel: Kernel, machine: Any, *, fast: bool = False, aligned: Any = None) -> CudaProgram:
    """A program of one launch whose machine code is the text of the loop program."""
    assert aligned is not None
    sites = tuple(dict.fromkeys(Site(n.message) for n in walk(kernel) if isinstance(n, Assert)))
    records = (FAILED, ERROR_RECORD)
    sizes = [n for b in kernel.buffers[-1:] for n in b.shape if not isinstance(n, Const)]
    grid = (sizes[0] if sizes else idx(1), idx(1), idx(1))
    launch = Launch(kernel.name, grid, (1, 1, 1), 0, (*(p.name for p in kernel.params), *records))
    return CudaProgram("", print_kernel(kernel).encode(), (launch,), (), sites)


class Table(ctypes.Structure):
    """DLPackExchangeAPI: what a class tells C code of its arrays."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("unused", ctypes.c_void_p * 3),
        ("export", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)),
        ("stream", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)),
    )


def _export(array: OnGpu, place: int) -> int:
    """Fills in a DLTensor."""
    given, kinds = array.array, {"i": 0, "u": 1, "f": 2, "b": 6}
    shape, strides = given.shape, [s // given.itemsize for s in given.strides]
    array.exported = ((ctypes.c_int64 * max(1, given.ndim))(*shape), (ctypes.c_int64 * max(1, given.ndim))(*strides))
    kind = kinds[given.dtype.kind] | given.itemsize * 8 << 8 | 1 << 16
    words = (
        given.ctypes.data,
        2 | array.device << 32,
        given.ndim | kind << 32,
        *map(ctypes.addressof, array.exported),
        0,
    )
    (ctypes.c_int64 * 6).from_address(place)[:] = words
    return 0


#: The stream that work of these arrays goes to.
STREAM = [0]


def _stream(kind: int, device: int, place: int) -> int:
    ctypes.c_int64.from_address(place).value = STREAM[0]
    return 0


TABLE = Table(1, 3, None, (ctypes.c_void_p * 3)(), Table._fields_[4][1](_export), Table._fields_[5][1](_stream))
NAME = b"dlpack_exchange_api"


def _capsule() -> object:
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    made: object = prototype(("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(TABLE), NAME, None)
    return made


class OnGpu:
    """An array that says it is on a GPU; its memory is numpy's."""

    __dlpack_c_exchange_api__ = _capsule()

    def __init__(self, array: Any, device: int = 0) -> None:
        self.array, self.device = np.asarray(array), device
        self.exported: Any = None
        self.pointer = self.array.ctypes.data

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.device)

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> Any:
        from weft.ir.numpy_dtypes import from_numpy

        dtype = from_numpy(self.array.dtype)
        assert dtype is not None
        return dlpack.make_capsule(self, self.array.ctypes.data, self.device, dtype, self.array.shape)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine with one GPU: the driver it has."""
    driver = FakeDriver()
    for module in (cuda_driver, cuda_device, cuda_program, cuda_memory):
        monkeypatch.setattr(module, "driver", lambda: driver, raising=False)
    monkeypatch.setattr(cuda_program, "launch_function", lambda: driver.launch)
    monkeypatch.setattr(fastcall_cuda, "driver_address", driver.address)
    monkeypatch.setattr("weft.target.cuda.lower.compile_kernel", fake_compile)
    monkeypatch.setattr("weft.target.cuda.nvrtc.toolchain_key", lambda: "fake")
    caches = (cuda_driver.device_count, cuda_device.find_device)
    for cache in caches:
        cache.cache_clear()
    yield driver
    for cache in caches:
        cache.cache_clear()


def host(value: Any) -> Any:
    return value.array if isinstance(value, OnGpu) else value.numpy()


__all__ = ["FakeDriver", "OnGpu", "cuda_arrays", "gpu", "host", "weft"]
