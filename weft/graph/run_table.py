"""A table of kernels run by machine code: one call from Python, whatever their number.

A row is the address of a kernel and that of its argument slots.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from weft.runtime.native import load_native
from weft.runtime.short_llvm import expand

_TEXT = """
define i64 @weft_run_table(ptr %table, i64 %from, i64 %to) {
  br i64 %from sge %to, label %done, label %row
row:
  %n = phi i64 [ %from, %0 ], [ %next, %more ]
  %place = mul i64 %n, 2
  %other = add i64 %place, 1
  %kernel = load ptr, %table[%place]
  %slots = load ptr, %table[%other]
  %status = call i32 %kernel(ptr %slots)
  br i32 %status ne 0, label %failed, label %more
more:
  %next = add i64 %n, 1
  br i64 %next eq %to, label %done, label %row
failed:
  %wide = zext i32 %status to i64
  %count = add i64 %n, 1
  %high = shl i64 %count, 32
  %both = or i64 %high, %wide
  ret i64 %both
done:
  ret i64 0
}
"""


@functools.cache
def _native() -> tuple[Any, Any]:
    loaded = load_native(expand(_TEXT, {}), {})
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return prototype(loaded.address("weft_run_table")), loaded


def table_runner() -> Any:
    """``run(table, first, end)``: 0, or one more than the row that failed in the upper and its status in the lower
    half. Python may run other threads meanwhile."""
    return _native()[0]
