"""`weft.cuda.kernel`: a kernel of a CUDA source as a callable, on arrays of the CPU or of a GPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.from_cuda.coarsen import Version, rewrite
from weft.from_cuda.context import GridKernel, Launch
from weft.from_cuda.launch import (
    UNKNOWN,
    Dim3,
    check_sizes,
    dim3,
    launch_for,
    overlapping,
    pointers_of,
    slot_values,
)
from weft.from_cuda.packing import pack, pack_record
from weft.from_cuda.prints import Printed
from weft.from_cuda.steering import MOST_VERSIONS, small_numbers, steering_places
from weft.from_cuda.symbols import find_symbol, initial_bytes
from weft.from_cuda.translate import translate
from weft.from_cuda.types import CType, Pointer, Record, Scalar, parse_type
from weft.from_cuda.unit import Unit, find_kernel, read_unit
from weft.ir.at_the_call import methods_told_at_the_call, told_at_the_call
from weft.ir.deep import deep_recursion
from weft.ir.errors import ArgumentError, Error, UnsupportedError
from weft.ir.numerics import CHOICES, NUMERICS, is_fast
from weft.ir.printer import print_kernel
from weft.locks import new_rlock
from weft.operators.interface import Interface
from weft.operators.scheduling import Numerics
from weft.operators.signature import Signature
from weft.operators.specialization import Specialization, code_key, compile_record, find_code, load_record
from weft.operators.stages import show_kernel
from weft.runtime.argument import ArgumentInfo, dense_strides
from weft.runtime.arrays import describe, describe_output, is_on_gpu, scalar_value
from weft.runtime.executor import HOST
from weft.runtime.pause_collector import collector_paused
from weft.runtime.store import Artifact
from weft.version import cache_key

if TYPE_CHECKING:
    from weft.operators.cuda_kernel_gpu import GpuKernel
    from weft.operators.cuda_kernel_threads import ThreadKernel
    from weft.operators.cuda_kernel_tune import Tuned
    from weft.sanitizer.findings import Report

AS_WRITTEN = Version()


@told_at_the_call
def kernel(
    source: str | os.PathLike[str],
    name: str,
    *,
    include: Sequence[str] = (),
    defines: Sequence[str] = (),
    numerics: Numerics = "strict",
) -> CudaKernel:
    """The kernel ``name`` of a CUDA source, a text or the path of a file, as a callable.

    >>> scale = weft.cuda.kernel('''
    ... __global__ void scale(const float *x, float *y, int n) {
    ...   int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...   if (i < n) y[i] = 2 * x[i];
    ... }''', "scale")
    >>> scale((blocks,), (256,), (x, y, n))     # grid, block, arguments: as CuPy's RawKernel

    A kernel made from a template is named with its arguments, ``"scale<float>"``. ``include`` are folders,
    ``defines`` macros such as ``"N=4"``.
    """
    if numerics not in NUMERICS:
        raise ArgumentError(f"numerics={numerics!r} is not known", help=f"use {CHOICES}")
    text, where, folders = _source(source)
    uses = (name,) if "<" in name else ()
    unit = read_unit(text, where, include=(*folders, *include), defines=defines, uses=uses, host_too=False)
    unit.check_device()
    options = (*(f"-I{folder}" for folder in (*folders, *include)), *(f"-D{d}" for d in defines))
    return CudaKernel(unit, name, numerics, options)


def _source(source: str | os.PathLike[str]) -> tuple[str, str, tuple[str, ...]]:
    """Text, name, and the folder it is in."""
    if isinstance(source, str) and ("\n" in source or "{" in source):
        return source, "source.cu", ()
    path = Path(source)
    try:
        return path.read_text(encoding="utf-8", errors="replace"), str(path), (str(path.parent),)
    except OSError as error:
        raise ArgumentError(
            f"cannot read the CUDA source {path}", why=error.strerror or str(error),
            help="give the text of a source, or the path of a file",
        ) from None  # fmt: skip


@methods_told_at_the_call
class CudaKernel:
    """A kernel one can launch: ``k(grid, block, arguments, shared_mem=0)``."""

    def __init__(self, unit: Unit, name: str, numerics: Numerics, options: Sequence[str] = ()) -> None:
        self.unit, self.numerics = unit, numerics
        self._gpu: dict[Version, GpuKernel] = {}
        self._tuned: dict[tuple[str, Dim3], Version] = {}
        self._called, self._options = name, tuple(options)
        self.function = find_kernel(unit, name)
        self.name = self.function.name
        self.types: tuple[CType, ...] = tuple(parse_type(p.type, unit, p) for p in self.function.parameters)
        self._pointers = pointers_of(self.types)
        self._steering = steering_places(self.function)
        self._programs: dict[Launch, GridKernel] = {}
        self._codes: dict[Launch, Specialization] = {}
        self._refused: set[Launch] = set()
        self._threads: ThreadKernel | None = None
        self._lock = new_rlock()

    def __repr__(self) -> str:
        return f"<weft CUDA kernel {self.name}({', '.join(p.type for p in self.function.parameters)})>"

    def __call__(self, grid: Any, block: Any, args: Sequence[Any], *, shared_mem: int = 0) -> None:
        """One launch, done when it returns; arrays that the kernel writes to are changed."""
        sizes, threads = dim3(grid, "grid"), dim3(block, "block")
        check_sizes(self.name, sizes, threads)
        raw, arrays = self._arguments(args)
        device = self._device(arrays)
        if is_on_gpu(device):
            version = self._tuned_for(device, threads)
            if version.restrict and overlapping(raw, self._pointers, _extents(arrays)):
                version = AS_WRITTEN
            self._on_gpu(version).launch(device, raw, arrays, sizes, threads, shared_mem)
            return
        extent = _extents(arrays)
        alias = overlapping(raw, self._pointers, extent)
        launch = launch_for(sizes, threads, shared_mem, alias)
        if self._steering and len(self._codes) < MOST_VERSIONS:
            launch = replace(launch, numbers=small_numbers(self._steering, raw))
        if not self._has_code(launch):
            self._by_threads().launch(raw, sizes, threads, shared_mem, self._symbol_values())
            return
        special = self._code(launch)
        program = self._programs[launch]
        printed = Printed(program)
        addresses = {**self._addresses(program), **printed.addresses()}
        values = slot_values(program, raw, extent, sizes, threads, shared_mem, addresses)
        HOST.run(special.loaded, values, arrays)
        printed.show()

    def _device(self, arrays: Sequence[ArgumentInfo]) -> str:
        """Where all arrays are."""
        devices = {a.device for a in arrays} or {"cpu"}
        if len(devices) > 1:
            raise ArgumentError(
                f"`{self.name}` was given arrays on {' and '.join(sorted(devices))}",
                why="a kernel runs on one device and reads arrays that are there",
                help="copy them to one device",
            )
        return devices.pop()

    def _on_gpu(self, version: Version = AS_WRITTEN) -> GpuKernel:
        with self._lock:
            if version not in self._gpu:
                from weft.operators.cuda_kernel_gpu import GpuKernel

                source = self.unit.source
                text = source.text if version == AS_WRITTEN else rewrite(self.unit, self.function, version)
                self._gpu[version] = GpuKernel(text, source.name, self._called, self._options, version)
            return self._gpu[version]

    def _has_code(self, launch: Launch) -> bool:
        """Whether there is code for such launches; if not, and they cannot run thread by thread either: why."""
        if launch in self._codes or launch in self._refused:
            return launch in self._codes
        try:
            self._code(launch)
        except UnsupportedError as refusal:
            try:
                self._by_threads().build()
            except Error:
                raise refusal from None
            self._refused.add(launch)
        return launch in self._codes

    def _by_threads(self) -> ThreadKernel:
        with self._lock:
            if self._threads is None:
                from weft.operators.cuda_kernel_threads import ThreadKernel

                self._threads = ThreadKernel(self.unit.source, self._called, self._options)
            return self._threads

    def _symbol_values(self) -> dict[str, Any]:
        """Variables that were asked for, by the linker's names."""
        kept: dict[str, Any] = self.unit.__dict__.get("_symbols", {})
        return {self.unit.nodes[id].raw.get("mangledName", self.unit.nodes[id].name): v for id, v in kept.items()}

    def _tuned_for(self, device: str, block: Dim3) -> Version:
        """The version that tuning has chosen for launches with such blocks, here or in an earlier process."""
        if (device, block) not in self._tuned:
            from weft.operators.cuda_kernel_tune import kept_choice

            self._tuned[device, block] = kept_choice(self._choice_key(device, block))
        return self._tuned[device, block]

    def _choice_key(self, device: str, block: Dim3) -> str:
        from weft.runtime.cuda_device import find_device

        name = find_device(int(device[5:])).machine.name
        return cache_key("cuda tune", self.unit.source.text, self._called, *self._options, name, str(block))

    def tune(self, grid: Any, block: Any, args: Sequence[Any], *, shared_mem: int = 0) -> Tuned:
        """Tries versions of the kernel that compute the same on a GPU and takes the fastest for launches with such
        blocks: a block or a thread does the work of several, pointers are `__restrict__`. Arguments are not changed.

        >>> print(k.tune((blocks,), (256,), (x, y, n)))     # arrays of torch or CuPy on a GPU
        """
        from weft.operators.cuda_kernel_tune import keep_choice, legal_versions, tune
        from weft.runtime.cuda_device import find_device

        sizes, threads = dim3(grid, "grid"), dim3(block, "block")
        check_sizes(self.name, sizes, threads)
        raw, arrays = self._arguments(args)
        device = self._device(arrays)
        if not is_on_gpu(device):
            raise ArgumentError(
                f"`{self.name}` cannot be tuned on the CPU", why="tuning times versions of the text on a GPU",
                help="pass arrays that are on a GPU; on the CPU code is made for exactly the launch anyway",
            )  # fmt: skip
        overlap = bool(overlapping(raw, self._pointers, _extents(arrays)))
        versions = list(legal_versions(self.unit, self.function, sizes, threads, overlap=overlap))
        found = find_device(int(device[5:]))

        def run(version: Version, given: Sequence[bytes]) -> None:
            self._on_gpu(version).start(found, 0, given, sizes, threads, shared_mem)

        with found.current():
            report = tune(self.name, versions, arrays, raw, self._pointers, run)
        self._tuned[device, threads] = report.best
        keep_choice(self._choice_key(device, threads), report.best)
        return report

    def symbol(self, name: str) -> Any:
        """The memory of the ``__device__`` or ``__constant__`` variable ``name``, as bytes of a numpy array to read and
        write: ``k.symbol("table").view(numpy.float32)[:] = ...``. Kernels of one source share it."""
        import numpy as np

        found = find_symbol(self.unit, name)
        kept: dict[str, Any] = self.unit.__dict__.setdefault("_symbols", {})
        if found.id not in kept:
            kept[found.id] = np.frombuffer(initial_bytes(self.unit, found), np.uint8)
        return kept[found.id]

    def _addresses(self, program: GridKernel) -> dict[str, tuple[int, int]]:
        """Where the variables are that a kernel uses."""
        if any(slot.kind in ("texture", "surface") for slot in program.slots):
            raise UnsupportedError(
                f"kernel `{self.name}` uses textures or surfaces", why="a call from Python binds nothing to them"
            )
        named = {slot.symbol for slot in program.slots if slot.kind == "symbol"}
        memory = {name: self.symbol(name) for name in named}
        return {name: (array.ctypes.data, array.nbytes) for name, array in memory.items()}

    def program(self, grid: Any = (2, 2, 2), block: Any = (256,), shared_mem: int = 0) -> GridKernel:
        """The loop program for such launches."""
        return self._program(launch_for(dim3(grid, "grid"), dim3(block, "block"), shared_mem))

    def show(self, stage: str = "loops", *, grid: Any = (2, 1, 1), block: Any = (256,), shared_mem: int = 0) -> str:
        """The kernel at ``stage`` of its compilation for such launches: loops, lowered, llvm, asm."""
        program = self.program(grid, block, shared_mem).kernel
        if stage == "loops":
            return print_kernel(program)
        return show_kernel(program, stage, HOST.machine("cpu"), fast=is_fast(self.numerics))

    def check(self, grid: Any, block: Any, args: Sequence[Any], *, shared_mem: int = 0) -> Report:
        """Runs a launch on copies of its arguments with every access watched: see `weft.sanitize`."""
        sizes, threads = dim3(grid, "grid"), dim3(block, "block")
        check_sizes(self.name, sizes, threads)
        raw, arrays = self._arguments(args)
        try:
            made = self._program(launch_for(sizes, threads, shared_mem))
            if any(slot.kind == "prints" for slot in made.slots):
                raise UnsupportedError(f"kernel `{self.name}` prints")
            values = slot_values(made, raw, _extents(arrays), sizes, threads, shared_mem, self._addresses(made))
            given = host_arrays(made, values)
        except UnsupportedError:
            return self._by_threads().check(raw, arrays, sizes, threads, shared_mem, self._symbol_values())
        from weft.sanitizer.sanitize import sanitize_kernel

        return sanitize_kernel(made.kernel, given)

    def _program(self, launch: Launch) -> GridKernel:
        with self._lock:
            if launch not in self._programs:
                with deep_recursion():
                    self._programs[launch] = translate(self.unit, self.function, launch)
            return self._programs[launch]

    def _code(self, launch: Launch) -> Specialization:
        with self._lock:
            if launch not in self._codes:
                self._codes[launch] = self._compile(self._program(launch))
            return self._codes[launch]

    def _compile(self, program: GridKernel) -> Specialization:
        machine, interface = HOST.machine("cpu"), Interface(self.name, (), (), self.unit.source)
        key = code_key("cuda source", machine, frozenset(), print_kernel(program.kernel), self.numerics)

        def make() -> Artifact:
            with collector_paused(), deep_recursion():
                return compile_record(program.kernel, machine, fast=is_fast(self.numerics), misaligned=frozenset())

        def load(kept: Artifact) -> Specialization:
            nothing = Signature((), (), ())
            return load_record(kept.metadata, kept.blobs["code"], HOST, nothing, self.name, interface)

        return find_code(key, make, load)

    def _arguments(self, args: Sequence[Any]) -> tuple[list[bytes], list[ArgumentInfo]]:
        """What CUDA would be given, and the arrays behind the pointers."""
        if len(args) != len(self.types):
            names = ", ".join(f"{p.type} {p.name}" for p in self.function.parameters)
            raise ArgumentError(
                f"`{self.name}` takes {len(self.types)} arguments, got {len(args)}",
                why=f"it is declared with ({names})",
            )
        arrays: list[ArgumentInfo] = []
        raw = []
        for p, type, value in zip(self.function.parameters, self.types, args):
            raw.append(self._argument(p.name, p.raw["type"]["qualType"], type, value, arrays))
        return raw, arrays

    def _argument(self, name: str, text: str, type: CType, value: Any, arrays: list[ArgumentInfo]) -> bytes:
        if isinstance(type, Pointer):
            return _pointer_argument(name, text, type, value, arrays)
        if isinstance(type, Scalar):
            return pack(scalar_value(value, type.dtype, name=name), type.dtype)
        if isinstance(type, Record):
            return pack_record(type, value, name)
        raise UnsupportedError(f"argument `{name}` has the type {text}, which cannot be passed from Python")


def _pointer_argument(name: str, text: str, type: Pointer, value: Any, arrays: list[ArgumentInfo]) -> bytes:
    if value is None:
        return bytes(8)
    is_const = text.startswith("const ") or " const *" in text
    wanted = type.to.dtype if isinstance(type.to, Scalar) else None
    if wanted is not None and getattr(getattr(value, "dtype", None), "kind", "") == "V":
        wanted = None
    info = (describe if is_const else describe_output)(value, name=name, dtype=wanted)
    if tuple(info.strides) != dense_strides(info.shape) and max(info.shape, default=0) > 1 and 0 not in info.shape:
        raise ArgumentError(
            f"argument `{name}` is not contiguous", why=f"its strides are {info.strides}",
            help=f"pass a contiguous copy of `{name}`",
        )  # fmt: skip
    arrays.append(info)
    return info.pointer.to_bytes(8, "little")


def _extents(arrays: Sequence[ArgumentInfo]) -> Any:
    known = {a.pointer: a.extent for a in arrays}
    return lambda pointer: known.get(pointer, (pointer, pointer + UNKNOWN))


def host_arrays(program: GridKernel, values: Sequence[int | float]) -> list[Any]:
    """Arguments of the loop program as numpy arrays and numbers."""
    import ctypes

    import numpy as np

    from weft.ir.buffer import Buffer
    from weft.ir.expr import Const
    from weft.ir.numpy_dtypes import to_numpy

    found: list[Any] = []
    if any(slot.kind == "heap" for slot in program.slots):
        raise UnsupportedError(
            f"kernel `{program.kernel.name}` cannot be watched", why="it follows pointers that lie in memory"
        )
    for p, value in zip(program.kernel.params, values):
        if not isinstance(p, Buffer):
            found.append(value)
            continue
        slot = program.slots[program.kernel.params.index(p)]
        if slot.kind == "table":
            kind = to_numpy(p.dtype)
            shape = [size.value for size in p.shape if isinstance(size, Const)]
            found.append(np.frombuffer(bytes.fromhex(slot.symbol), kind).reshape(shape))
            continue
        size = next(n for s, n in zip(program.slots, values)
                    if s.kind in ("bytes", "symbol bytes") and (s.argument, s.offset, s.symbol) ==
                    (slot.argument, slot.offset, slot.symbol))  # fmt: skip
        kind = to_numpy(p.dtype)
        memory = (ctypes.c_uint8 * int(size)).from_address(int(value)) if size else bytearray()
        found.append(np.frombuffer(memoryview(memory), kind, int(size) // kind.itemsize))
    return found


__all__ = ["CudaKernel", "Dim3", "host_arrays", "kernel"]
