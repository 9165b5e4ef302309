"""A table of kernels run by machine code: one call from Python, whatever their number.

A row is the address of a kernel and that of its argument slots. From the first parallel loop on, the threads of all
loops stay awake until the table ends, or a row starts threads of another library's (`weft.runtime.pool`). Frames, which
calls have to themselves, wait in a row of words: who takes one leaves zero there.
"""

from __future__ import annotations

import ctypes
import functools
import time
from typing import Any

from weft.runtime.loader import LoadedObject
from weft.runtime.native import libc_symbols, load_native
from weft.runtime.native_module import NativeModule, words
from weft.runtime.threads import thread_function

#: Frames that are kept for later calls; as many may run at once without making a new one.
KEPT_FRAMES = 16

RUN_TABLE = """
def weft_run_table(table, first, end):
    rows: Rows = room(rows_words)
    rows.table = table
    rows.next = first
    rows.end = end
    rows.status = 0
    weft_with_team(run_rows, rows)
    return rows.status


def run_rows(rows: Rows):
    table = rows.table
    n = rows.next
    while n < rows.end:
        kernel = table[2 * n]
        status = kernel(table[2 * n + 1])
        n += 1
        if status != 0:
            rows.status = n << 32 | status & 0xFFFFFFFF
            return 0
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
    rows: Rows = room(rows_words)
    rows.table = table
    rows.next = first
    rows.end = end
    rows.status = 0
    rows.stamps = stamps
    weft_with_team(time_rows, rows)
    return rows.status


def time_rows(rows: Rows):
    stamps = rows.stamps
    first = rows.next
    for n in range(rows.end - first):
        stamps[n] = now()
        rows.status = weft_run_table(rows.table, first + n, first + n + 1)
        if rows.status != 0:
            return 0
    stamps[rows.end - first] = now()
    return 0
"""
_ROWS = ("table", "next", "end", "status", "stamps")
CONSTANTS = {"kept_frames": KEPT_FRAMES, "rows_words": len(_ROWS)}
STRUCTURES = {"Rows": words(*_ROWS)}
#: Of the runtime's own, see `run_table_symbols`.
FUNCTIONS = {"weft_with_team": "i32 (ptr, ptr)"}


def run_table_symbols() -> dict[str, int]:
    """What `RUN_TABLE` calls."""
    return {name: thread_function(name) for name in FUNCTIONS}


@functools.cache
def _native() -> Any:
    return load_native(NativeModule(RUN_TABLE, CONSTANTS, STRUCTURES, FUNCTIONS), run_table_symbols())


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
    constants = {**CONSTANTS, "monotonic": time.CLOCK_MONOTONIC}
    functions = {**FUNCTIONS, "clock_gettime": "i32 (i32, ptr)"}
    module = NativeModule(RUN_TABLE + _TIMED, constants, STRUCTURES, functions)
    symbols = {**run_table_symbols(), **libc_symbols(["clock_gettime"])}
    loaded = _kept.setdefault("timed", load_native(module, symbols))
    types = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
    return ctypes.CFUNCTYPE(ctypes.c_int64, *types)(loaded.address("weft_time_table"))


#: Code that functions above point into.
_kept: dict[str, LoadedObject] = {}
