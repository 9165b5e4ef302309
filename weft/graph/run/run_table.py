"""A table of kernels run by machine code: one call from Python, whatever their number.

A row is the address of a kernel and that of its argument slots. Frames, which calls have to themselves, wait in a row
of words: who takes one leaves zero there.
"""

from __future__ import annotations

import ctypes
import functools
import time
from typing import Any

from weft.runtime.loader import LoadedObject
from weft.runtime.native import libc_symbols, load_native
from weft.runtime.native_module import NativeModule

#: Frames that are kept for later calls; as many may run at once without making a new one.
KEPT_FRAMES = 16

RUN_TABLE = """
def weft_run_table(table, first, end):
    n = first
    while n < end:
        kernel = table[2 * n]
        status = kernel(table[2 * n + 1])
        if status != 0:
            return n + 1 << 32 | status & 0xFFFFFFFF
        n += 1
    return 0


def weft_take_frame(frames):
    for i in range(kept_frames):
        if atomic_load(frames + 8 * i) != 0:
            found = atomic_swap(frames + 8 * i, 0)
            if found != 0:
                return found
    return 0


def weft_give_frame(frames, frame):
    for i in range(kept_frames):
        if atomic_replace(frames + 8 * i, 0, frame):
            return 1
    return 0
"""
_TIMED = """
def now():
    time = room(2)
    clock_gettime(monotonic, time)
    return 1000000000 * time[0] + time[1]


def weft_time_table(table, first, end, stamps):
    for n in range(end - first):
        stamps[n] = now()
        status = weft_run_table(table, first + n, first + n + 1)
        if status != 0:
            return status
    stamps[end - first] = now()
    return 0
"""
CONSTANTS = {"kept_frames": KEPT_FRAMES}


@functools.cache
def _native() -> Any:
    return load_native(NativeModule(RUN_TABLE, CONSTANTS), {})


def _function(name: str, *types: Any) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int64, *types)(_native().address(name))


@functools.cache
def table_runner() -> Any:
    """``run(table, first, end)``: 0, or one more than the row that failed in the upper and its status in the lower
    half. Python may run other threads meanwhile."""
    return _function("weft_run_table", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@functools.cache
def frame_keeper() -> tuple[Any, Any]:
    """``take(frames)``, which gives a frame or 0, and ``give(frames, frame)``, 0 where there is no place for it."""
    take = _function("weft_take_frame", ctypes.c_void_p)
    return take, _function("weft_give_frame", ctypes.c_void_p, ctypes.c_int64)


@functools.cache
def table_timer() -> Any:
    """As `table_runner`, with a last argument: where nanoseconds go, before each row and after the last one."""
    module = NativeModule(
        RUN_TABLE + _TIMED, {**CONSTANTS, "monotonic": time.CLOCK_MONOTONIC}, {}, {"clock_gettime": "i32 (i32, ptr)"}
    )
    loaded = _kept.setdefault("timed", load_native(module, libc_symbols(["clock_gettime"])))
    types = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
    return ctypes.CFUNCTYPE(ctypes.c_int64, *types)(loaded.address("weft_time_table"))


#: Code that functions above point into.
_kept: dict[str, LoadedObject] = {}
