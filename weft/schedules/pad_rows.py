"""``pad_rows``: the rows of a temporary further apart in memory than they are long.

Shared memory has 32 banks of 4 bytes: threads that read a column of a matrix whose rows are a multiple of that ask one
bank for everything. A few unused elements at the end of each row send them to different ones. With strides instead of
longer rows, what fetches whole rows by itself still knows where they end. The last step on a buffer, since what fills
the rows up never has a value.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.buffer import dense_strides
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Kernel
from weft.ir.visit import replace_buffers
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_alloc
from weft.schedules.loop_facts import check_number
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt
from weft.schedules.trace import Numerics


def check_pad_rows(kernel: Kernel, buffer: str, elements: int, strided: bool = False, *, numerics: Numerics) -> Verdict:
    """Where a temporary's rows lie is nobody else's business."""
    alloc = find_alloc(kernel, buffer)
    if not alloc.buffer.shape:
        return refuse(f"`{buffer}` is a single element")
    number = check_number("number of elements", elements, 1)
    return number if not number.ok else OK


@primitive(check_pad_rows, "cannot move the rows of `{0}` apart")
def pad_rows(kernel: Kernel, buffer: str, elements: int, strided: bool = False) -> Rewrite:
    """Each row is followed by ``elements`` that nobody uses; ``strided``: they are no part of it."""
    alloc = find_alloc(kernel, buffer)
    *outer, row = alloc.buffer.shape
    shape = (*outer, simplify(row + elements))
    wide = replace(alloc.buffer, shape=shape, strides=None)
    if strided:
        wide = replace(alloc.buffer, strides=dense_strides(shape))
    body = replace_buffers(alloc.body, {alloc.buffer: wide})
    return Rewrite(replace_stmt(kernel, alloc, Alloc(wide, body, span=alloc.span)))
