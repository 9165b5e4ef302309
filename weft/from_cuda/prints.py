"""``printf`` of kernels that run as whole grids: threads put down what they print, a launch prints it when it is over.

What is put down are words of 64 bits. The first of all says how many there are after it. Each call has the number of
its block, the number of its format, then its arguments: whole numbers, the bits of doubles, of a string its number in
the table of texts (`table_of`) that the formats are in. Calls of a block lie in the order in which they were made:
those of a thread in its order, those before a barrier before those after it. A launch prints block by block. Where
there is no room left, calls are counted but lost.
"""

from __future__ import annotations

import re
import struct
import sys
from array import array
from collections.abc import Iterator, Sequence

from weft.from_cuda import arithmetic as ar
from weft.from_cuda.context import Context, GridKernel, close
from weft.from_cuda.expressions import number
from weft.from_cuda.memory import reinterpret, view
from weft.from_cuda.tables import string_bytes
from weft.from_cuda.types import INT, LONG
from weft.from_cuda.unit import Node
from weft.from_cuda.values import ZERO, Memory, Number, Value
from weft.ir import dtype as dt
from weft.ir.expr import Binary, Compare, Expr, cast, idx
from weft.ir.stmt import Atomic, If, Store

#: Words for what a launch from Python prints.
WORDS = 1 << 20
#: A conversion of a format, as C has it.
CONVERSION = re.compile(r"%(?:%|[-+ #0]*(\*|\d*)(?:\.(\*|\d*))?(?:hh|h|ll|l|j|z|t|L)?([diouxXeEfFgGaAcspn]))")


def print_text(c: Context, n: Node, arguments: list[Node]) -> Value:
    """``printf(format, ...)``, which gives the number of its arguments, as CUDA's does."""
    format = _literal(c, arguments[0])
    given = arguments[1:]
    kinds = list(_kinds(format.decode(errors="replace")))
    if len(kinds) != len(given) or "n" in kinds:
        c.refuse(n, "printf whose arguments are not what its format says")
    words = [_word(c, a, kind) for a, kind in zip(given, kinds)]
    _put_down(c, [_block(c), idx(_place_of(c, format)), *words])
    return Number(INT, idx(len(given)))


def _literal(c: Context, n: Node) -> bytes:
    """The bytes of a string that the source spells out."""
    text = next((i for i in n.walk() if i.kind == "StringLiteral"), None)
    if text is None or any(i.kind in ("DeclRefExpr", "CallExpr", "ConditionalOperator") for i in n.walk()):
        c.refuse(n, "printf of a string that the source does not spell out")
    return string_bytes(text)


def _kinds(format: str) -> Iterator[str]:
    """What each argument is printed as: the letter of its conversion, or ``*`` for a width."""
    for found in CONVERSION.finditer(format):
        for width in found.groups()[:2]:
            if width == "*":
                yield "*"
        if found.group(3):
            yield found.group(3)


def _word(c: Context, n: Node, kind: str) -> Expr:
    if kind == "s":
        return idx(_place_of(c, _literal(c, n)))
    if kind == "p":
        c.refuse(n, "printf of an address")
    value = number(c, n)
    if value.expr.dtype.is_float:
        return c.keep("word", reinterpret(cast(dt.float64, value.expr), dt.int64))
    return c.keep("word", cast(dt.int64, ar.stored(value)))


def _printed(c: Context) -> Memory:
    if "prints" not in c.memories:
        c.memories["prints"] = Memory("prints", "prints", LONG, (), "prints", size_name=c.fresh("prints_bytes"))
    return c.memories["prints"]


def _place_of(c: Context, text: bytes) -> int:
    """The number of a text in the table."""
    memory = _printed(c)
    table = [] if not memory.symbol else memory.symbol.split(",")
    entry = text.hex() or "-"
    if entry not in table:
        table.append(entry)
        memory.symbol = ",".join(table)
    return table.index(entry)


def _block(c: Context) -> Expr:
    """The number of this thread's block in the grid."""
    total: Expr = ZERO
    for at, extent in zip(reversed(c.dims["blockIdx"]), reversed(c.dims["gridDim"])):
        total = ar.fold(Binary("+", ar.fold(Binary("*", total, extent)), at))
    return c.keep("block", total)


def _put_down(c: Context, words: Sequence[Expr]) -> None:
    memory = _printed(c)
    buffer = view(c, memory, dt.int64)
    memory.written.add(dt.int64)
    before = c.let("before", idx(0))
    c.emit(Atomic("+", buffer, (ZERO,), idx(len(words)), result=before, span=c.span))
    with c.scope() as items:
        for at, word in enumerate(words, 1):
            c.emit(Store(buffer, (Binary("+", before, idx(at)),), word, span=c.span))
    room = Compare("<", Binary("+", before, idx(len(words))), buffer.shape[0])
    c.emit(If(room, close(items), span=c.span))


class Printed:
    """Memory for what a launch from Python prints."""

    def __init__(self, program: GridKernel) -> None:
        self.table = next((slot.symbol for slot in program.slots if slot.kind == "prints"), None)
        self.words = array("q", bytes(0 if self.table is None else 8 * WORDS))

    def addresses(self) -> dict[str, tuple[int, int]]:
        """Where it is and how large, by the symbol of its slot."""
        if self.table is None:
            return {}
        address, count = self.words.buffer_info()
        return {self.table: (address, count * 8)}

    def show(self) -> None:
        if self.table is not None:
            sys.stdout.write(printed_text(self.words, table_of(self.table)))


def table_of(symbol: str) -> list[str]:
    return [bytes.fromhex(entry.strip("-")).decode(errors="replace") for entry in symbol.split(",")]


def printed_text(words: Sequence[int], table: Sequence[str]) -> str:
    """What ``words`` say, block by block."""
    calls: list[tuple[int, str]] = []
    at, end = 1, min(words[0] + 1, len(words))
    while at + 1 < end:
        block, format = words[at], table[words[at + 1]]
        count = sum(1 for _ in _kinds(format))
        if at + 2 + count > end:
            break
        calls.append((block, _formatted(format, iter(words[at + 2 : at + 2 + count]), table)))
        at += 2 + count
    lost = "(more was printed than there is room for)\n" if words[0] + 1 > len(words) else ""
    return "".join(text for _, text in sorted(calls, key=lambda call: call[0])) + lost


def _formatted(format: str, words: Iterator[int], table: Sequence[str]) -> str:
    def one(found: re.Match[str]) -> str:
        kind, text = found.group(3), found.group(0)
        if kind is None:
            return "%"
        while "*" in text:
            text = text.replace("*", str(next(words)), 1)
        spec, word = re.sub(r"[hljztL]", "", text[:-1]), next(words)
        wide = any(letter in text for letter in "ljzt")
        if kind == "s":
            return (spec + "s") % table[word]
        if kind in "eEfFgGaA":
            (value,) = struct.unpack("<d", struct.pack("<q", word))
            return value.hex() if kind in "aA" else str((spec + kind) % value)
        if kind in "uxXo":
            word &= (1 << (64 if wide else 32)) - 1
        elif not wide:
            word = (word + (1 << 31)) % (1 << 32) - (1 << 31)
        return str((spec + {"u": "d", "i": "d"}.get(kind, kind)) % (word & 255 if kind == "c" else word))

    return CONVERSION.sub(one, format)
