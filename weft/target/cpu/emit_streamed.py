"""Stores past the caches, for results that nobody reads soon: the old contents of their lines are never fetched."""

from __future__ import annotations

from weft.target.cpu.builder import Value
from weft.target.cpu.emit_context import I64, ZERO, Function
from weft.target.cpu.llvm_types import bits_of

#: A shorter store would leave the processor waiting for the rest of a line.
SMALLEST = 16
METADATA = ", !nontemporal !1"
FOOTER = "!1 = !{i32 1}"


def emit_streamed(f: Function, value: Value, pointer: Value) -> None:
    """Stores a vector past the caches where its address allows that, which only the call can tell."""
    size = value.lanes * bits_of(value.type) // 8
    align = min(size, f.machine.vector_bits // 8)
    if align < SMALLEST or size % align or align & (align - 1):
        f.b.store(value, pointer)
        return
    low = f.b.and_(f.b.ptrtoint(pointer), Value(str(align - 1), I64))
    past, through, join = (f.b.new_label(hint) for hint in ("past", "through", "stored"))
    f.b.cond_branch(f.b.icmp("eq", low, ZERO), past, through)
    f.b.block(past)
    f.b.store(value, pointer, align=align, metadata=METADATA)
    f.b.branch(join)
    f.b.block(through)
    f.b.store(value, pointer)
    f.b.block(join)
    f.has_streamed = True
    if FOOTER not in f.program.module.footer:
        f.program.module.footer.append(FOOTER)
