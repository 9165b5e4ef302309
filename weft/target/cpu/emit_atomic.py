"""Atomic updates: an instruction for integers, a compare-and-swap loop on the bits for the rest."""

from __future__ import annotations

from weft.ir.stmt import Atomic
from weft.target.cpu.emit_arith import emit_binary
from weft.target.cpu.emit_context import Function, storage_type
from weft.target.cpu.emit_convert import narrow_to_memory, round_to, widen_from_memory
from weft.target.cpu.emit_expr import emit_expr
from weft.target.cpu.emit_memory import emit_address
from weft.target.cpu.llvm_values import Value

_INSTRUCTIONS = {"+": "add", "&": "and", "|": "or", "^": "xor", "exchange": "xchg"}


def emit_atomic(f: Function, s: Atomic) -> Value:
    """Performs the update; the value is the old one."""
    pointer = emit_address(f, s.buffer, s.indices, emit_expr).pointer
    value = emit_expr(f, s.value)
    if s.op == "cas":
        assert s.expected is not None
        return _from_bits(
            f, s, _swap(f, s, pointer, _to_bits(f, s, emit_expr(f, s.expected)), _to_bits(f, s, value))[0]
        )
    if s.buffer.dtype.is_integer or s.op == "exchange":
        return _emit_instruction(f, s, pointer, value)
    return _emit_swap_loop(f, s, pointer, value)


def _emit_instruction(f: Function, s: Atomic, pointer: Value, value: Value) -> Value:
    signed = s.buffer.dtype.is_signed
    name = _INSTRUCTIONS.get(s.op) or (s.op if signed else f"u{s.op}")
    bits = _to_bits(f, s, value)
    old = f.b.emit(bits.type, f"atomicrmw {name} ptr {pointer.text}, {bits.typed} monotonic")
    return _from_bits(f, s, old)


def _emit_swap_loop(f: Function, s: Atomic, pointer: Value, value: Value) -> Value:
    """Read, combine, and store if nobody else did meanwhile."""
    dtype = s.buffer.dtype
    retry, done = f.b.new_label("retry"), f.b.new_label("swapped")
    first = _load_bits(f, s, pointer)
    before = f.b.label
    f.b.block(retry)
    seen = f.b.phi(first.type, [(first, before)])
    old = _from_bits(f, s, seen)
    op = "max" if dtype.is_bool and s.op == "+" else s.op
    new = round_to(f, emit_binary(f, op, old, value, dtype), dtype)
    now, swapped = _swap(f, s, pointer, seen, _to_bits(f, s, new))
    f.b.add_incoming(seen, now, f.b.label)
    f.b.cond_branch(swapped, done, retry)
    f.b.block(done)
    return old


def _swap(f: Function, s: Atomic, pointer: Value, expected: Value, new: Value) -> tuple[Value, Value]:
    pair_type = f"{{ {new.type}, i1 }}"
    text = f"cmpxchg ptr {pointer.text}, {expected.typed}, {new.typed} monotonic monotonic"
    pair = f.b.emit(pair_type, text)
    old = f.b.emit(new.type, f"extractvalue {pair_type} {pair.text}, 0")
    return old, f.b.emit("i1", f"extractvalue {pair_type} {pair.text}, 1")


def _integer_type(s: Atomic) -> str:
    return f"i{s.buffer.dtype.itemsize * 8}"


def _load_bits(f: Function, s: Atomic, pointer: Value) -> Value:
    size = s.buffer.dtype.itemsize
    type = _integer_type(s)
    return f.b.emit(type, f"load atomic {type}, ptr {pointer.text} monotonic, align {size}")


def _to_bits(f: Function, s: Atomic, value: Value) -> Value:
    return f.b.bitcast(narrow_to_memory(f, value, s.buffer.dtype), _integer_type(s))


def _from_bits(f: Function, s: Atomic, bits: Value) -> Value:
    return widen_from_memory(f, f.b.bitcast(bits, storage_type(s.buffer.dtype)), s.buffer.dtype)
