"""The one ``parallel_for`` of all kernels, and how many threads it uses.

Where an OpenMP runtime is already in the process (PyTorch brings one), loops run on its
threads, so two libraries do not fight over the cores; while those are late, and otherwise, they run on a small pool of
our own, see `pool`. Nothing is created before the first kernel with a parallel loop is loaded.

The number of threads: `set_num_threads`, else ``WEFT_NUM_THREADS``, else ``OMP_NUM_THREADS``,
else the cores this process may use.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re

from weft.ir.errors import ArgumentError
from weft.locks import in_child, new_rlock
from weft.runtime.loader import LoadedObject
from weft.runtime.native import libc_symbols, load_native
from weft.runtime.native_module import NativeModule
from weft.runtime.pool import LATE, POOL_IMPORTS, pool_module

MAX_THREADS = 1024
#: Digits of a number of threads that says more than that.
_DIGITS = 9

#: Without futexes there is no pool: loops run on the calling thread.
_SERIAL = """
def weft_parallel_for(fn, ctx, n):
    return fn(ctx, 0, n) if n > 0 else 0


def weft_with_team(fn, ctx):
    return fn(ctx)


def weft_end_team():
    return 0
"""


class _State:
    code: LoadedObject | None = None
    has_pool = False
    chosen: int | None = None
    openmp: str | None = None
    may_bind = True


_state = _State()
_lock = new_rlock()


def set_num_threads(n: int) -> None:
    """How many threads parallel loops use from now on; 1 runs them on the calling thread."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ArgumentError(f"cannot use {n!r} threads", why="the number of threads is a whole number from 1 on")
    with _lock:
        _state.chosen = min(n, MAX_THREADS)
        _publish()


def get_num_threads() -> int:
    """How many threads parallel loops use at most."""
    return _state.chosen or _default_threads()


def thread_runtime() -> str:
    """Whose threads run parallel loops: the path of an OpenMP library, ``pool``, ``none`` yet, or ``serial``."""
    if _state.code is None:
        return "none"
    return _state.openmp or ("pool" if _state.has_pool else "serial")


def parallel_for_address() -> int:
    """The address of ``i32 weft_parallel_for(ptr fn, ptr ctx, i64 n)``."""
    return thread_function("weft_parallel_for")


def thread_function(name: str) -> int:
    """The address of a function of `pool`: ``weft_parallel_for``; ``i32 weft_with_team(ptr fn, ptr ctx)``, which calls
    ``i32 fn(ptr ctx)`` with loops that keep their threads; or ``void weft_end_team()``, which lets them go."""
    with _lock:
        if _state.code is None:
            _load()
        _bind_openmp()
        assert _state.code is not None
        return _state.code.address(name)


def _default_threads() -> int:
    for name in ("WEFT_NUM_THREADS", "OMP_NUM_THREADS"):
        first = os.environ.get(name, "").split(",")[0].strip()
        if first.isdecimal() and (count := int(first) if len(first) <= _DIGITS else MAX_THREADS) > 0:
            return min(count, MAX_THREADS)
    try:
        return min(len(os.sched_getaffinity(0)), MAX_THREADS)
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def _load() -> None:
    processor = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64"}.get(platform.machine().lower())
    _state.has_pool = processor is not None and platform.system() == "Linux"
    if _state.has_pool and processor is not None:
        _state.code = load_native(pool_module(processor), libc_symbols(POOL_IMPORTS))
        _word("late").value = LATE
    else:
        _state.code = load_native(NativeModule(_SERIAL), {})
    _publish()


def _publish() -> None:
    """Tells the machine code how many threads to use."""
    if _state.has_pool:
        _word("threads").value = get_num_threads()
        _word("follow").value = _state.chosen is None and "WEFT_NUM_THREADS" not in os.environ


def _word(name: str) -> ctypes.c_int64:
    assert _state.code is not None
    return ctypes.c_int64.from_address(_state.code.address(name))


def _bind_openmp() -> None:
    """Moves to the process's OpenMP runtime, if one has been loaded by now."""
    if not _state.has_pool or _state.openmp is not None or not _state.may_bind:
        return
    path = find_openmp()
    if path is None:
        return
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        entries = {
            "gomp_parallel": library.GOMP_parallel,
            "omp_in_parallel": library.omp_in_parallel,
            "omp_get_max_threads": library.omp_get_max_threads,
            "omp_get_thread_num": library.omp_get_thread_num,
            "start_threads": library.GOMP_parallel_start,
            "end_threads": library.GOMP_parallel_end,
        }
    except (OSError, AttributeError):
        return
    assert _state.code is not None
    for name, function in entries.items():
        address = ctypes.cast(function, ctypes.c_void_p).value
        ctypes.c_void_p.from_address(_state.code.address(name)).value = address
    _word("runtime").value = 1
    _state.openmp = path


_OPENMP_LIBRARY = re.compile(rb"/lib(gomp|omp|iomp)\d*[^/]*\.so[^/]*$")


def find_openmp() -> str | None:
    """The path of an OpenMP runtime that is loaded in this process; LLVM's and Intel's have libgomp's entries too."""
    paths: list[bytes] = []
    # The GIL is kept throughout: the loader's own lock is held while the callback runs.
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)

    def visit(info: int, _size: int, _data: int | None) -> int:
        name = ctypes.c_char_p.from_address(info + 8).value or b""
        if b"omp" in name and _OPENMP_LIBRARY.search(name):
            paths.append(name)
        return len(paths)

    ctypes.PyDLL(None).dl_iterate_phdr(prototype(visit), None)
    return os.fsdecode(paths[0]) if paths else None


def _after_fork() -> None:
    """A child starts with a pool of no workers; OpenMP's own team does not survive a fork, so it is left alone."""
    if _state.code is not None and _state.has_pool:
        _state.may_bind = _state.openmp is None and find_openmp() is None
        _state.openmp = None
        ctypes.CFUNCTYPE(None)(_state.code.address("weft_reset_pool"))()
        _publish()  # another thread may have been about to


in_child(_after_fork)
