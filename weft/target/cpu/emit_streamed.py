"""Stores past the caches, for results that nobody reads soon: the old contents of their lines are never fetched.

These are streaming, or non-temporal, stores.
"""

from __future__ import annotations

from weft.target.cpu.builder import Value
from weft.target.cpu.emit_context import I64, ZERO, Function
from weft.target.cpu.llvm_types import bits_of

#: A shorter store would leave the processor waiting for the rest of a line.
SMALLEST = 16
METADATA = ", !nontemporal !1"
FOOTER = "!1 = !{i32 1}"


def emit_streamed(f: Function, value: Value, pointer: Value) -> None:
    """Stores a vector past the caches, in pieces as its address allows, which only the call can tell.

    Arrays of numpy start at multiples of 16 bytes; the pieces of neighbouring stores meet in whole lines.
    """
    size = value.lanes * bits_of(value.type) // 8
    align = min(size, f.machine.vector_bits // 8)
    if align < SMALLEST or size % align or align & (align - 1):
        f.b.store(value, pointer)
        return
    address, join = f.b.ptrtoint(pointer), f.b.new_label("stored")
    for piece in dict.fromkeys((align, SMALLEST)):
        past, through = f.b.new_label("past"), f.b.new_label("through")
        low = f.b.and_(address, Value(str(piece - 1), I64))
        f.b.cond_branch(f.b.icmp("eq", low, ZERO), past, through)
        f.b.block(past)
        _emit_pieces(f, value, pointer, piece)
        f.b.branch(join)
        f.b.block(through)
    f.b.store(value, pointer)
    f.b.block(join)
    f.has_streamed = True
    if FOOTER not in f.program.module.footer:
        f.program.module.footer.append(FOOTER)


def _emit_pieces(f: Function, value: Value, pointer: Value, size: int) -> None:
    """``value`` in stores of ``size`` bytes; LLVM cuts what is wider than a register itself."""
    if size * 8 == f.machine.vector_bits:
        f.b.store(value, pointer, align=size, metadata=METADATA)
        return
    lanes = size * 8 // bits_of(value.type)
    for start in range(0, value.lanes, lanes):
        piece = value if lanes == value.lanes else f.b.shuffle(value, None, range(start, start + lanes))
        place = f.b.gep(value.element, pointer, Value(str(start), I64))
        f.b.store(piece, place, align=size, metadata=METADATA)
