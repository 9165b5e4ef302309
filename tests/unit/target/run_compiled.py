"""Runs compiled kernels with a hostile `parallel_for`, and compares them with the interpreter."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.expr import Const, Var
from weft.ir.interpret import interpret
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.parser import parse_kernel
from weft.ir.stmt import Kernel
from weft.runtime.library import load_library
from weft.runtime.loader import load_object
from weft.target.c.lower import compile_kernel as compile_c_kernel
from weft.target.c.toolchain import has_compiler
from weft.target.cpu.host import NAMED, Machine, host_machine
from weft.target.cpu.lower import compile_kernel

_LEVELS = ("x86-64-avx512", "x86-64-avx2", "x86-64-sse4", "x86-64-sse2")
_NEWER = _LEVELS.index(host_machine().name) if host_machine().name in _LEVELS else None
#: This machine and those before it whose code it runs.
MACHINES = [host_machine()] if _NEWER is None else [NAMED[name] for name in _LEVELS[_NEWER:]]
needs_c_compiler = pytest.mark.skipif(not has_compiler(), reason="no C compiler on this machine")
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


@ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
def _with_team(function: int, context: int) -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(function)(context))


#: Bytes before and after what a kernel may write, and what they hold.
_FENCE = 128
_CANARY = b"\xff" * _FENCE  # not a number, as any float
#: Memory that kernels have now: its size by address. And what was found broken when they gave it back.
_alive: dict[int, int] = {}
_broken: list[str] = []


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)
def _alloc(size: int) -> int | None:
    if size > 1 << 40:
        return None
    base = int(_libc.aligned_alloc(64, (size + 63) // 64 * 64 + 2 * _FENCE))
    ctypes.memset(base, _CANARY[0], size + 2 * _FENCE)  # what is read before it is written shows
    _alive[base + _FENCE] = size
    return base + _FENCE


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _free(pointer: int) -> None:
    size = _alive.pop(pointer)
    for fence in (pointer - _FENCE, pointer + size):
        if ctypes.string_at(fence, _FENCE) != _CANARY:
            _broken.append(f"a temporary of {size} bytes")
    _libc.free(ctypes.c_void_p(pointer - _FENCE))


class Fenced:
    """A copy of an array with memory around it that nothing may write."""

    def __init__(self, array: Any) -> None:
        self.memory = np.full(array.nbytes + 3 * _FENCE, _CANARY[0], np.uint8)
        self.start = _FENCE + (-(self.memory.ctypes.data + _FENCE)) % 64
        self.end = self.start + array.nbytes
        self.array = self.memory[self.start : self.end].view(array.dtype).reshape(array.shape)
        self.array[...] = array

    def is_whole(self) -> bool:
        outside = np.concatenate([self.memory[: self.start], self.memory[self.end :]])
        return bool((outside == _CANARY[0]).all())


_SYMBOLS = {
    name: int(ctypes.cast(fn, ctypes.c_void_p).value or 0)
    for name, fn in (
        ("weft_parallel_for", _parallel_for),
        ("weft_with_team", _with_team),
        ("weft_alloc", _alloc),
        ("weft_free", _free),
    )
} | {
    name: int(ctypes.cast(getattr(_libc, name), ctypes.c_void_p).value or 0) for name in ("memset", "memcpy", "memmove")
}


class Runner:
    """A compiled kernel that can be called with arrays and numbers."""

    def __init__(
        self, kernel: Kernel, machine: Machine | None = None, *, fast: bool = False, target: str = "cpu"
    ) -> None:
        self.kernel = kernel
        if target == "c":
            self.compiled = compile_c_kernel(kernel, machine or host_machine(), fast=fast)
            self._code = load_library(self.compiled.object)
        else:
            self.compiled = compile_kernel(kernel, machine, fast=fast)
            self._code = load_object(self.compiled.object, _SYMBOLS)
        self._call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(self._code.address(self.compiled.entry))
        self.record = np.zeros(8, np.int64)

    def __call__(self, *args: Any) -> int:
        """The status; outputs are written in place."""
        slots = np.zeros(len(args) + 1, np.uint64)
        for n, (param, value) in enumerate(zip(self.kernel.params, args)):
            slots[n] = value.ctypes.data if isinstance(param, Buffer) else _scalar_bits(param.dtype, value)
        slots[len(args)] = self.record.ctypes.data
        _broken.clear()
        status = int(self._call(slots.ctypes.data))
        assert not _broken, f"written outside {_broken}"
        return status


def _scalar_bits(dtype: Any, value: Any) -> int:
    if dtype.is_float:
        kind = np.float64 if dtype.bits == 64 else np.float32
        return int.from_bytes(kind(value).tobytes(), "little")
    return int(value) % (1 << 64)


def make_arguments(kernel: Kernel, seed: int = 0) -> list[Any]:
    """Random arrays (specials among the floats) and numbers for the parameters; outputs are filled too."""
    rng = np.random.default_rng(seed)
    named = dict.fromkeys(e.name for b in kernel.buffers for e in b.shape if isinstance(e, Var))
    sizes = {name: int(rng.integers(1, 6)) for name in named}
    made: list[Any] = []
    for p in kernel.params:
        if isinstance(p, Buffer):
            made.append(_laid_out(p, _random(rng, p.dtype, _shape(p, sizes))))
        else:
            made.append(sizes[p.name] if p.name in sizes else _number(rng, p.dtype))
    return made


def _laid_out(buffer: Buffer, array: Any) -> Any:
    """``array`` in the strides that ``buffer`` declares, where those are numbers."""
    steps = [int(e.value) for e in buffer.strides or () if isinstance(e, Const)]
    if buffer.strides is None or len(steps) != array.ndim or not array.size:
        return array
    spans = [(n - 1) * step for n, step in zip(array.shape, steps)]
    first = -sum(min(0, s) for s in spans)
    memory = np.zeros(first + sum(max(0, s) for s in spans) + 1, array.dtype)
    bytes_apart = tuple(step * array.itemsize for step in steps)
    view = np.lib.stride_tricks.as_strided(memory[first:], array.shape, bytes_apart)
    view[...] = array
    return view


def _shape(buffer: Buffer, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(
        sizes[e.name] if isinstance(e, Var) else int(e.value) for e in buffer.shape if isinstance(e, (Const, Var))
    )


def _random(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Any:
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        small = rng.integers(max(dtype.min_value, -9), 10, shape)
        wild = rng.integers(dtype.min_value, dtype.max_value, shape, dtype=to_numpy(dtype), endpoint=True)
        return np.where(rng.random(shape) < 0.7, small, wild).astype(to_numpy(dtype))
    values = rng.standard_normal(shape) * rng.choice([1.0, 1e-3, 1e3], shape)
    special = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 7e4], shape)
    with np.errstate(over="ignore"):
        made = np.where(rng.random(shape) < 0.1, special, values).astype(to_numpy(dtype))
    made[made != made] = np.nan  # of one sign (of -inf float8_e4m3fn makes a NaN with the other), which casts may lose
    return made


def _number(rng: np.random.Generator, dtype: DType) -> Any:
    if dtype.is_float:
        return float(np.float32(rng.standard_normal()))
    return bool(rng.integers(0, 2)) if dtype.is_bool else int(rng.integers(0, 9))


def assert_same_bits(name: str, got: Any, want: Any) -> None:
    """Equal element by element; any NaN equals any other, and the zeros equal each other."""
    both_nan = (got != got) & (want != want) if got.dtype.kind in "fV" else np.zeros(got.shape, bool)
    wrong = ~((got == want) | both_nan)
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(f"{name}{list(where)} is {got[where]!r}, should be {want[where]!r}; {wrong.sum()} differ")


def check_against_interpreter(
    kernel: Kernel | str,
    machines: Sequence[Machine | None] = (None,),
    args: Sequence[Any] | None = None,
    target: str = "cpu",
    also: Sequence[str] = (),
) -> Runner:
    """Compiled code on each machine, by each target, gives what the interpreter gives, bit for bit."""
    kernel = parse_kernel(kernel) if isinstance(kernel, str) else kernel
    args = make_arguments(kernel) if args is None else args
    want = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    interpret(kernel, want)
    for machine, by in itertools.product(machines, (target, *also)):
        runner = Runner(kernel, machine, target=by)
        got = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        assert runner(*got) == 0
        for param, g, w in zip(kernel.params, got, want):
            if isinstance(param, Buffer):
                assert_same_bits(param.name, g, w)
    return runner
