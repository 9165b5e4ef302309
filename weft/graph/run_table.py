"""A table of kernels run by machine code: one call from Python, whatever their number.

A row is the address of a kernel and that of its argument slots.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from weft.runtime.native import load_native
from weft.runtime.native_module import NativeModule

_SOURCE = """
def weft_run_table(table, first, end):
    n = first
    while n < end:
        kernel = table[2 * n]
        status = kernel(table[2 * n + 1])
        if status != 0:
            return n + 1 << 32 | status & 0xFFFFFFFF
        n += 1
    return 0
"""


@functools.cache
def _native() -> tuple[Any, Any]:
    loaded = load_native(NativeModule(_SOURCE), {})
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return prototype(loaded.address("weft_run_table")), loaded


def table_runner() -> Any:
    """``run(table, first, end)``: 0, or one more than the row that failed in the upper and its status in the lower
    half. Python may run other threads meanwhile."""
    return _native()[0]
