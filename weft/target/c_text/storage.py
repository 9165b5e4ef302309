"""How much memory a buffer takes."""

from __future__ import annotations

from weft.ir.buffer import Buffer
from weft.ir.expr import Const


def element_count(buffer: Buffer) -> int | None:
    """Elements from the first to the last, holes of its strides included; None where that is not a number."""
    last = 0
    for size, stride in zip(buffer.shape, buffer.element_strides()):
        if not isinstance(size, Const) or not isinstance(stride, Const):
            return None
        if int(size.value) <= 0:
            return 0
        last += (int(size.value) - 1) * int(stride.value)
    return last + 1
