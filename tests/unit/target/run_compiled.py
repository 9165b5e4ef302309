"""Runs a compiled kernel through LLVM's own linker, so that code generation is tested without the runtime."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.ir.buffer import Buffer
from weft.ir.stmt import Kernel
from weft.target.cpu.host import Machine, host_machine
from weft.target.cpu.lower import Compiled, compile_kernel

_PARALLEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_CHUNK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_libc = ctypes.CDLL(None)
_libc.aligned_alloc.restype = ctypes.c_void_p
_libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]


@_PARALLEL
def _parallel_for(function: int, context: int, count: int) -> int:
    """Chunks of 3, last first: an order no correct kernel may depend on."""
    for begin in reversed(range(0, count, 3)):
        status = int(_CHUNK(function)(context, begin, min(begin + 3, count)))
        if status:
            return status
    return 0


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)
def _alloc(size: int) -> int | None:
    if size > 1 << 40:
        return None
    return _libc.aligned_alloc(64, (size + 63) // 64 * 64 + 64)  # type: ignore[no-any-return]


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _free(pointer: int) -> None:
    _libc.free(ctypes.c_void_p(pointer))


def _register_symbols(binding: Any) -> None:
    for name, fn in (("weft_parallel_for", _parallel_for), ("weft_alloc", _alloc), ("weft_free", _free)):
        binding.add_symbol(name, ctypes.cast(fn, ctypes.c_void_p).value)


class Runner:
    """A compiled kernel that can be called with arrays and numbers; keeps its engine alive."""

    def __init__(self, kernel: Kernel, machine: Machine | None = None, compiled: Compiled | None = None) -> None:
        import llvmlite.binding as binding

        self.kernel = kernel
        self.compiled = compiled or compile_kernel(kernel, machine)
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        _register_symbols(binding)
        target = binding.Target.from_triple(host_machine().triple).create_target_machine(jit=True)
        self._engine = binding.create_mcjit_compiler(binding.parse_assembly(""), target)
        self._engine.add_object_file(binding.ObjectFileRef.from_data(self.compiled.object))
        self._engine.finalize_object()
        address = self._engine.get_function_address(self.compiled.entry)
        self._call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(address)
        self.record = np.zeros(8, np.int64)

    def __call__(self, *args: Any) -> int:
        """The status; outputs are written in place."""
        slots = np.zeros(len(args) + 1, np.uint64)
        for n, (param, value) in enumerate(zip(self.kernel.params, args)):
            slots[n] = value.ctypes.data if isinstance(param, Buffer) else _scalar_bits(param.dtype, value)
        slots[len(args)] = self.record.ctypes.data
        return int(self._call(slots.ctypes.data))


def _scalar_bits(dtype: Any, value: Any) -> int:
    if dtype.is_float:
        kind = np.float64 if dtype.bits == 64 else np.float32
        return int.from_bytes(kind(value).tobytes(), "little")
    return int(value) % (1 << 64)


def run(kernel: Kernel, args: Sequence[Any], machine: Machine | None = None) -> int:
    return Runner(kernel, machine)(*args)
