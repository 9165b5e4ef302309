"""Generated CUDA C++ built by the host's compiler and run without a GPU, compared with the interpreter.

What only NVRTC understands (instructions written as text) is replaced by C++ of the same meaning; everything else is
run as generated. Each kernel is built by NVRTC too, so that both are sure: it compiles, and it means what it should.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_compiled import Fenced, _scalar_bits, assert_same_bits, make_arguments

from weft.ir.buffer import Buffer
from weft.ir.interpret import interpret
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.parser import parse_kernel
from weft.ir.stmt import Kernel
from weft.ir.verify import verify
from weft.target.cuda import async_copies, emit_fetch, emit_mma, emit_roles, emit_wgmma, prelude
from weft.target.cuda.lower import compile_kernel, lower_kernel
from weft.target.cuda.machine import GpuMachine, gpu_for_arch
from weft.target.cuda.program import ERROR_RECORD, FAILED, CudaProgram, Launch, evaluate_size, launches_of

HERE = Path(__file__).parent
COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on this machine")
H200 = gpu_for_arch("sm_90")
_OPTIONS = ("-std=c++17", "-Og", "-ffp-contract=off")

#: Functions written with instructions, by what they mean.
_IN_CPP = {
    "widen_float16": "inline float widen(float16 x) { _Float16 y; memcpy(&y, &x, 2); return (float)y; }",
    "to_float16": "inline float16 to_float16(float x) {"
    " _Float16 y = (_Float16)x; float16 z; memcpy(&z, &y, 2); return z; }",
    "quick_exp2": "inline float quick_exp2(float x) { return exp2f(x); }",
    "atomic_add_float16": "inline float16 atomic_add_float16(float16* p, float16 x) {"
    " return host_add<_Float16>(p, x); }",
    "atomic_add_bfloat16": "inline bfloat16 atomic_add_bfloat16(bfloat16* p, bfloat16 x) {"
    " return host_add<HostBfloat>(p, x); }",
}
#: Copies that run on their own arrive at once here.
_COPIES = (
    (async_copies._COPY, "template <int BYTES> void async_copy(void* to, const void* from) {"
     " memcpy(to, from, BYTES); }"),
    (async_copies._COPY_IF, "template <int BYTES> void async_copy_if(bool wanted, void* to, const void* from) {"
     " if (wanted) memcpy(to, from, BYTES); }"),
    (async_copies._COPY_OR_ZERO, "template <int BYTES> void async_copy_or_zero(void* to, const void* from,"
     " bool there) { if (there) memcpy(to, from, BYTES); else memset(to, 0, BYTES); }"),
    (async_copies._COMMIT, "inline void async_commit() {}"),
    (async_copies._WAIT, "template <int PENDING> void async_wait() {}"),
    (emit_mma._ROUND, "inline void round_tf32(unsigned (&x)[4]) {"
     " for (unsigned& u : x) u = u + 0x1000 & ~0x1fffu; }"),
    (emit_fetch._FETCH, "template <int ALIGN> void fetch_words(unsigned (&x)[4], const void* p) {"
     " memcpy(x, p, sizeof(x)); }"),
    (emit_fetch._READ, "inline void read_words(unsigned (&x)[4], const void* p) { memcpy(x, p, sizeof(x)); }"),
    (async_copies._PUBLISH, "inline void publish() {}"),
    (emit_wgmma._PLACE, ""),
    (emit_wgmma._START, "inline void wgmma_start() {}"),
    (emit_wgmma._COMMIT, "inline void wgmma_commit() {}"),
    (emit_wgmma._WAIT, "template <int PENDING> void wgmma_wait() {}"),
    (emit_wgmma._HOLD, "template <int COUNT, class T> void hold_sums(T*) {}"),
    # A turn is a word: phases that are over, arrivals that are missing, and how many there are of these.
    (emit_roles._START, "template <int TURNS, int WARPS> void start_turns(unsigned long long* turns) {"
     " if (host_thread.x + host_thread.y + host_thread.z == 0)"
     " for (int i = 0; i < 2 * TURNS; ++i) host_turn_start(turns + i, i < TURNS ? 1 : WARPS); __syncthreads(); }"),
    (emit_roles._WAIT, "inline void turn_wait(unsigned long long* turn, int parity) { host_turn_wait(turn, parity); }"),
    (emit_roles._PREFETCH, "inline void prefetch_map(const TensorMap*) {}"),
    (emit_roles._EXPECT, "inline void turn_expect(unsigned long long* turn, int bytes) {"
     " host_turn_expect(turn, bytes); }"),
    (emit_roles._RELEASE, "inline void turn_release(unsigned long long* turn) {"
     " __syncwarp(); if (host_lane() == 0) host_turn_arrive(turn, 0); }"),
    (emit_roles._SAME, "inline int same_in_warp(int x) { return x; }"),
    (emit_roles._SYNC, "template <int THREADS> void sync_consumers() { host_sync_some(THREADS); }"),
    *((emit_roles._REGISTERS.format(name=name, way=way), f"template <int COUNT> void {name}_registers() {{}}")
      for name, way in (("give", "dec"), ("take", "inc"))),
)  # fmt: skip


class HostRunner:
    """A kernel compiled for CUDA, run on the host; ``failed`` and ``record`` are what asserts report."""

    def __init__(
        self, kernel: Kernel, machine: GpuMachine = H200, *, fast: bool = False, aligned: int | None = None
    ) -> None:
        self.kernel = kernel
        known = None if aligned is None else {b.name: aligned for b in kernel.buffers}
        self.program: CudaProgram = compile_kernel(kernel, machine, fast=fast, aligned=known)
        self.library = build(self.program)
        self.failed, self.record = np.zeros(1, np.int64), np.zeros(8, np.int64)

    def __call__(self, *args: Any) -> int:
        """The number of the assert that failed, or 0; outputs are written in place."""
        slots: dict[str, Any] = {FAILED: self.failed.ctypes.data, ERROR_RECORD: self.record.ctypes.data}
        sizes: dict[str, Any] = {}
        for param, value in zip(self.kernel.params, args):
            if isinstance(param, Buffer):
                slots[param.name] = value.ctypes.data
            else:
                sizes[param.name] = value
                slots[param.name] = _scalar_bits(param.dtype, value)
        kept = [_temporary(b, sizes) for b in self.program.temporaries]
        slots |= {b.name: t.array.ctypes.data for b, t in zip(self.program.temporaries, kept)}
        for launch, here in launches_of(self.program.launches, sizes):
            self._launch(launch, slots | {s.name: here[s.name] for s in launch.steps}, here)
        assert all(t.is_whole() for t in kept), "written outside a temporary"
        return int(self.record[0])

    def _launch(self, launch: Launch, slots: Mapping[str, Any], sizes: Mapping[str, Any]) -> None:
        if launch.condition is not None and not evaluate_size(launch.condition, sizes):
            return
        grid = (ctypes.c_uint * 3)(*(max(0, evaluate_size(n, sizes)) for n in launch.grid))
        block = (ctypes.c_uint * 3)(*launch.block)
        maps = {m.name: _Map(slots[m.buffer], len(m.sizes), m.strides, m.sizes, m.box, m.itemsize) for m in launch.maps}
        given = [slots.get(p, 0) % (1 << 64) for p in launch.params]
        values = (ctypes.c_uint64 * max(1, len(launch.params)))(*given)
        places = (ctypes.c_void_p * max(1, len(launch.params)))()
        for n, name in enumerate(launch.params):
            places[n] = ctypes.addressof(maps[name]) if name in maps else ctypes.addressof(values) + 8 * n
        call = ctypes.cast(getattr(self.library, f"call_{launch.name}"), ctypes.c_void_p)
        waits = int(any(word in self.program.source for word in ("__sync", "__shfl")))
        assert _host().host_launch(call, places, grid, block, waits), "threads wait for each other for ever"


class _Map(ctypes.Structure):
    """What `host_bulk_copy` reads, in the place of a map that the driver encodes."""

    _fields_ = (
        ("base", ctypes.c_uint64),
        ("rank", ctypes.c_int64),
        ("strides", ctypes.c_int64 * 4),
        ("sizes", ctypes.c_int32 * 5),
        ("box", ctypes.c_int32 * 5),
        ("itemsize", ctypes.c_int32),
        ("rest", ctypes.c_byte * 36),
    )

    def __init__(self, base: int, rank: int, strides: Any, sizes: Any, box: Any, itemsize: int) -> None:
        arrays = (ctypes.c_int64 * 4)(*strides), (ctypes.c_int32 * 5)(*sizes), (ctypes.c_int32 * 5)(*box)
        super().__init__(base, rank, *arrays, itemsize)


def _temporary(buffer: Buffer, sizes: Mapping[str, Any]) -> Fenced:
    count = buffer.element_count()  # holes between rows included
    shape = [evaluate_size(n, sizes) for n in buffer.shape] if count is None else [count]
    return Fenced(np.zeros(shape, to_numpy(buffer.dtype)))


@functools.cache
def _folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="weft-cuda-on-host-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@functools.cache
def _host() -> ctypes.CDLL:
    library = _folder() / "libhost.so"
    _compile(HERE / "cuda_on_host.cpp", library, "-std=c++20", "-O1", "-U_FORTIFY_SOURCE", "-shared")
    # Reading the header takes longer than all else, so that is done once.
    _compile(HERE / "cuda_on_host.h", _folder() / "cuda_on_host.h.gch", *_OPTIONS, "-x", "c++-header")
    host = ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    host.host_launch.restype = ctypes.c_bool
    return host


def _compile(source: Path, made: Path, *options: str) -> None:
    assert COMPILER is not None
    command = [COMPILER, *options, "-w", "-fPIC", "-o", str(made), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]


@functools.lru_cache(maxsize=64)
def build(program: CudaProgram) -> ctypes.CDLL:
    """The program's text as a library of the host."""
    _host()
    text = program.source
    for name, meaning in _IN_CPP.items():
        text = text.replace(prelude._TEXTS[name], meaning)
    for old, new in _COPIES:
        text = text.replace(old, new)
    text = _in_cpp_matrices(text)
    bulk = r"__device__ __forceinline__\nvoid bulk_copy_(\d)\((.*?)\) \{.*?\n}\n"
    text = re.sub(bulk, lambda m: f"void bulk_copy_{m[1]}({m[2]}) {{ const int at[] = {{"
                  f"{', '.join(f'c{i}' for i in range(int(m[1])))}}}; host_bulk_copy(to, map, turn, at); }}\n",
                  text, flags=re.DOTALL)  # fmt: skip
    text = re.sub(r"extern __shared__ (.*)\[\];", r"static \1[1 << 18];", text)
    calls = [f'extern "C" void call_{n.name}(void** args) {{ host_call({n.name}, args); }}' for n in program.launches]
    number = len(list(_folder().glob("*.cpp")))
    source, library = _folder() / f"k{number}.cpp", _folder() / f"k{number}.so"
    source.write_text(f'#include "cuda_on_host.h"\n{text}\n' + "\n".join(calls))
    _compile(source, library, *_OPTIONS, "-I", str(HERE), "-shared")
    return ctypes.CDLL(str(library))


def _in_cpp_matrices(text: str) -> str:
    """``text`` with the functions that are matrix instructions as C++."""
    loads = r"template <bool TRANSPOSED>[^{]*load_matrices_x(\d)\(.*?\n}\n"
    by_lanes = (
        r"template <bool TRANSPOSED> void load_matrices_x\1(unsigned (&x)[4], const void* p)"
        r" { host_load_matrices<\1>(x, p, TRANSPOSED); }\n"
    )
    text = re.sub(loads, by_lanes, text, flags=re.DOTALL)
    products = r"__device__ __forceinline__ void mma_(\w+)\((.*?)\) \{.*?\n}\n"
    kinds = {"bf16": "HostBfloat", "f16": "_Float16", "tf32": "float", "s8": "signed char", "u8": "unsigned char",
             "e4m3": "HostSmall<4>", "e5m2": "HostSmall<5>"}  # fmt: skip

    def both(name: str) -> str:
        first, *others = (kinds[part] for part in name.split("x"))
        return ", ".join([first, *(others or [first])])

    groups = r"__device__ __forceinline__ void wgmma_([a-z0-9]+)_n(\d+)(?:_by_(\d+))?(_first)?\((.*?)\) \{.*?\n}\n"
    given = (
        "c, (const char*)a + a_on, (const char*)b + b_on, BLOCK, TILE, HALF, ODD, A_TRANSPOSED, B_TRANSPOSED, B_LEAD"
    )
    text = re.sub(
        groups,
        lambda m: (
            f"void wgmma_{m[1]}_n{m[2]}{f'_by_{m[3]}' if m[3] else ''}{m[4] or ''}({m[5]}) {{ "
            + (f"for (int i = 0; i < {int(m[2]) // 2}; ++i) c[i] = 0; " if m[4] else "")
            + f"host_wgmma<{both(m[1])}, {m[2]}, {m[3] or 64}>({given}); }}\n"
        ),
        text,
        flags=re.DOTALL,
    )
    left = r"__device__ __forceinline__ void wgmma_(bf16|f16)_n(\d+)_registers\((.*?)\) \{.*?\n}\n"
    own = given.replace("A_TRANSPOSED, ", "").replace("(const char*)a + a_on", "a")
    text = re.sub(
        left,
        lambda m: (
            f"void wgmma_{m[1]}_n{m[2]}_registers({m[3]}) {{ host_wgmma_registers<{kinds[m[1]]}, {m[2]}>({own}); }}\n"
        ),
        text,
        flags=re.DOTALL,
    )
    return re.sub(
        products,
        lambda m: f"inline void mma_{m[1]}({m[2]}) {{ host_mma<{both(m[1])}>(c0, c1, c2, c3, a, b0, b1); }}\n",
        text,
        flags=re.DOTALL,
    )


def check_on_host(
    kernel: Kernel | str,
    args: Sequence[Any] | None = None,
    *,
    fast: bool = False,
    aligned: bool = True,
    tolerance: float = 0.0,
) -> HostRunner:
    """Generated code gives what the interpreter gives for the kernel: bit for bit, or within ``tolerance``."""
    kernel = parse_kernel(kernel) if isinstance(kernel, str) else kernel
    verify(kernel)
    verify(lower_kernel(kernel, H200, fast=fast))
    args = make_arguments(kernel) if args is None else args
    want = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    interpret(kernel, want)
    runner = HostRunner(kernel, fast=fast, aligned=16 if aligned else None)
    fenced = [Fenced(a) if isinstance(a, np.ndarray) and a.flags.c_contiguous else None for a in args]
    got = [f.array if f is not None else (a.copy() if isinstance(a, np.ndarray) else a) for f, a in zip(fenced, args)]
    assert runner(*got) == 0
    for param, g, w in zip(kernel.params, got, want):
        if isinstance(param, Buffer) and not tolerance:
            assert_same_bits(param.name, g, w)
        elif isinstance(param, Buffer):
            np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=tolerance, atol=tolerance)
    assert all(f is None or f.is_whole() for f in fenced), "written outside an array"
    return runner
