"""Arrays of constants: memory that a launch gives the code, for all threads to read.

A small one is an array of each thread instead (`variables.py`): where its subscripts become known, so do its values.
"""

from __future__ import annotations

import ast
import ctypes
import functools

from weft.from_cuda.context import Context, Unsupported
from weft.from_cuda.expressions import PLACES, expression
from weft.from_cuda.packing import pack
from weft.from_cuda.places import array_target
from weft.from_cuda.types import Array, CType, Record, Scalar
from weft.from_cuda.unit import Node
from weft.from_cuda.values import Address, Element, Number, Place, Struct, Value
from weft.ir.expr import Const

#: Arrays of more bytes are tables.
SMALL = 64
#: Bytes of a table that are handed to the code as text.
LARGEST = 1 << 16


def constant_table(c: Context, d: Node, type: Array, initial: Node | None) -> Place | None:
    """The array ``d`` as a table; None where it is no larger than is worth it, may change or starts as no constants."""
    is_const = bool(d.raw.get("constexpr")) or str(d.raw["type"]["qualType"]).startswith("const ")
    if initial is None or not is_const or type.size > LARGEST or initial.kind == "CXXConstructExpr":
        return None
    if type.size <= SMALL and initial.kind != "StringLiteral":
        return None
    made = bytearray(type.size)
    try:
        with c.scope() as items:
            fill_bytes(c, made, 0, type, initial)
    except Unsupported:
        return None
    if items:
        return None
    target = array_target(c, d.name, type, "table", d.id)
    target.memory.symbol = made.hex()
    return Element(type, Address(type.of, (target,)))


def fill_bytes(c: Context, made: bytearray, at: int, type: CType, initial: Node) -> None:
    """Writes what a variable of ``type`` starts as to ``made``, from the byte ``at`` on."""
    if isinstance(type, Array) and initial.kind == "StringLiteral":
        text = string_bytes(initial)
        made[at : at + len(text)] = text
        return
    if isinstance(type, Array):
        for number, i in enumerate(array_values(initial)):
            fill_bytes(c, made, at + number * type.of.size, type.of, i)
        return
    _put(c, made, at, type, expression(c, initial), initial)


def _put(c: Context, made: bytearray, at: int, type: CType, value: Value, n: Node) -> None:
    if isinstance(type, Record) and isinstance(value, Struct):
        for f in type.fields:
            _put(c, made, at + f.offset, f.type, value.fields[f.name], n)
    elif isinstance(type, Scalar) and isinstance(value, Number) and isinstance(value.expr, Const):
        number = value.expr.value if type.dtype.is_float else int(value.expr.value)
        made[at : at + type.size] = pack(number, type.dtype)
    else:
        c.refuse(n, "it is no constant")


def array_values(initial: Node) -> list[Node]:
    """The values that an array's braces name; what stands for all others clang has before them."""
    return initial.inner[1:] if initial.raw.get("array_filler") else initial.inner


def string_bytes(n: Node) -> bytes:
    """The bytes of a string literal."""
    text = n.raw["value"]
    escaped = "".join(x if x.isascii() else "".join(f"\\x{b:02x}" for b in x.encode()) for x in text)
    return bytes(ast.literal_eval("b" + escaped))


def text_bytes(c: Context, n: Node, type: Array) -> bytes:
    """The characters of a string literal as an array of ``type`` has them."""
    if type.of.size != 1:
        c.refuse(n, "a text of wide characters")
    return string_bytes(n)[: type.size].ljust(type.size, b"\0")


def text_place(c: Context, n: Node) -> Place:
    """A string literal: an array of constants."""
    type = c.type_of(n)
    assert isinstance(type, Array)
    made = text_bytes(c, n, type).hex()
    target = array_target(c, "text", type, "table", f"text {made}")
    target.memory.symbol = made
    return Element(type, Address(type.of, (target,)))


PLACES["StringLiteral"] = text_place


@functools.cache
def table_memory(symbol: str) -> tuple[int, object]:
    """The address of a table for calls from Python, and what keeps it there."""
    raw = bytes.fromhex(symbol)
    memory = (ctypes.c_char * len(raw)).from_buffer_copy(raw)
    return ctypes.addressof(memory), memory
