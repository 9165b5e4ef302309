"""Where an access goes: a buffer's pointer and one offset in elements, as text."""

from __future__ import annotations

from collections.abc import Callable

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Const, Expr, idx
from weft.ir.offsets import linear_offset
from weft.ir.simplify import simplify
from weft.target.c_text.context import LEVEL, Code, TextFunction

EmitExpr = Callable[[TextFunction, Expr], Code]


def offset_expr(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """Elements from the start of ``buffer``, as one expression."""
    linear = linear_offset(buffer, indices)
    if linear is not None:
        return linear.expr(dt.index)
    total: Expr = idx(0)
    for index, stride in zip(indices, map(simplify, buffer.element_strides())):
        part = index if stride == idx(1) else Binary("*", index, stride)
        total = part if total == idx(0) else Binary("+", total, part)
    return total


def emit_element(f: TextFunction, buffer: Buffer, indices: tuple[Expr, ...], emit: EmitExpr) -> str:
    """``pointer[offset]``."""
    if f.memory(buffer).is_swizzled:
        return f"{emit_pointer(f, buffer, indices, emit)}[0]"
    return f"{f.memory(buffer).pointer}[{emit(f, offset_expr(buffer, indices)).text}]"


def emit_pointer(f: TextFunction, buffer: Buffer, indices: tuple[Expr, ...], emit: EmitExpr) -> str:
    """``pointer + offset``."""
    offset = offset_expr(buffer, indices)
    pointer = f.memory(buffer).pointer
    if f.memory(buffer).is_swizzled:
        return f.program.swizzled(pointer, emit(f, offset).text)
    if isinstance(offset, Const) and offset.value == 0:
        return pointer
    return f"{pointer} + {emit(f, offset).inside(LEVEL['+'] + 1)}"
