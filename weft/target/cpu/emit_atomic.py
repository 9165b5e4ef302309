"""Atomic updates: an instruction for integers, a compare-and-swap loop on the bits for the rest.

Memory of one core needs neither, only one update after another. Lanes of a vector loop update one after another as
well, unless each has an element of its own, or all have one and what they add is combined first.
"""

from __future__ import annotations

from weft.ir.expr import identity
from weft.ir.stmt import Atomic
from weft.target.cpu.emit_arith import emit_binary
from weft.target.cpu.emit_context import Function, any_lane, compute_type, fit, storage_type
from weft.target.cpu.emit_convert import narrow_to_memory, round_to, widen_from_memory
from weft.target.cpu.emit_expr import emit_expr
from weft.target.cpu.emit_memory import Address, emit_address, lane_pointer, load_bits, store_bits
from weft.target.cpu.llvm_values import Value, constant, mangled, vector

_INSTRUCTIONS = {"+": "add", "&": "and", "|": "or", "^": "xor", "exchange": "xchg"}


def emit_atomic(f: Function, s: Atomic) -> Value:
    """Performs the update; the value is the old one."""
    address = emit_address(f, s.buffer, s.indices, emit_expr)
    value = emit_expr(f, s.value)
    expected = None if s.expected is None else emit_expr(f, s.expected)
    if f.lane is None:
        return _emit_update(f, s, address.pointer, value, expected)
    if address.step == 0 and s.result is None and (reduction := _reduction(s)) is not None:
        return _emit_combined(f, s, reduction, address.pointer, value)
    if address.step and s.op != "cas" and f.memory(s.buffer).is_private:
        return _emit_side_by_side(f, s, address, value)
    return _emit_lane_by_lane(f, s, address, value, expected)


def _reduction(s: Atomic) -> str | None:
    """LLVM's name for combining what lanes add to one element; None where that is not done."""
    dtype = s.buffer.dtype
    if dtype.is_bool or dtype.is_narrow_float:
        return None
    if s.op in ("min", "max"):
        return f"{'s' if dtype.is_signed else 'u'}{s.op}" if dtype.is_integer else None
    return "fadd" if s.op == "+" and dtype.is_float else _INSTRUCTIONS[s.op] if s.op in "+&|^" else None


def _emit_combined(f: Function, s: Atomic, reduction: str, pointer: Value, value: Value) -> Value:
    """What all active lanes add to one element, added at once: as updates have no order, sums of lanes need none."""
    element, type = compute_type(s.buffer.dtype), vector(compute_type(s.buffer.dtype), f.lanes)
    nothing = 0 if s.op == "+" else identity(s.op, s.buffer.dtype).value
    active, join = f.b.new_label("lanes"), f.b.new_label("join")
    value = fit(f, value, f.lanes)
    if f.mask is not None:
        value = f.b.select(f.mask, value, constant(type, nothing))
        f.b.cond_branch(any_lane(f, f.mask), active, join)
        f.b.block(active)
    name = f"llvm.vector.reduce.{reduction}.{mangled(type)}"
    if reduction == "fadd":
        f.b.module.declare(name, element, (element, type))
        total = f.b.emit(element, f"call reassoc {element} @{name}({constant(element, nothing).typed}, {value.typed})")
    else:
        total = f.b.call(name, element, [value])
    _emit_update(f, s, pointer, total, None)
    if f.mask is not None:
        f.b.block(join)
    return total


def _emit_side_by_side(f: Function, s: Atomic, address: Address, value: Value) -> Value:
    """Each lane updates an element of its own in memory that no other core sees."""
    dtype = s.buffer.dtype
    old = widen_from_memory(f, load_bits(f, storage_type(dtype), address), dtype)
    new = fit(f, _new_value(f, s, old, fit(f, value, f.lanes), None), f.lanes)
    store_bits(f, narrow_to_memory(f, new, dtype), address)
    return old


def _emit_lane_by_lane(f: Function, s: Atomic, address: Address, value: Value, expected: Value | None) -> Value:
    element = storage_type(s.buffer.dtype)
    values, mask = fit(f, value, f.lanes), None if f.mask is None else fit(f, f.mask, f.lanes)
    expecteds = None if expected is None else fit(f, expected, f.lanes)
    old = constant(vector(compute_type(s.buffer.dtype), f.lanes), 0)
    for lane in range(f.lanes):
        skipped, join, before = f.b.label, f.b.new_label("lane"), old
        if mask is not None:
            active = f.b.new_label("active")
            is_active = f.b.extract(mask, lane)
            skipped = f.b.label
            f.b.cond_branch(is_active, active, join)
            f.b.block(active)
        expected = None if expecteds is None else f.b.extract(expecteds, lane)
        one = _emit_update(f, s, lane_pointer(f, element, address, lane), f.b.extract(values, lane), expected)
        if s.result is not None:
            old = f.b.insert(old, one, lane)
        if mask is not None:
            updated = f.b.label
            f.b.block(join)
            if s.result is not None:
                old = f.b.phi(old.type, [(before, skipped), (old, updated)])
    return old


def _emit_update(f: Function, s: Atomic, pointer: Value, value: Value, expected: Value | None) -> Value:
    """One element updated."""
    if f.memory(s.buffer).is_private:
        return _emit_in_turn(f, s, pointer, value, expected)
    if expected is not None:
        return _from_bits(f, s, _swap(f, s, pointer, _to_bits(f, s, expected), _to_bits(f, s, value))[0])
    if s.buffer.dtype.is_integer or s.op == "exchange":
        return _emit_instruction(f, s, pointer, value)
    return _emit_swap_loop(f, s, pointer, value)


def _emit_in_turn(f: Function, s: Atomic, pointer: Value, value: Value, expected: Value | None) -> Value:
    element = storage_type(s.buffer.dtype)
    old = widen_from_memory(f, f.b.load(element, pointer), s.buffer.dtype)
    f.b.store(narrow_to_memory(f, _new_value(f, s, old, value, expected), s.buffer.dtype), pointer)
    return old


def _new_value(f: Function, s: Atomic, old: Value, value: Value, expected: Value | None) -> Value:
    dtype = s.buffer.dtype
    if s.op == "exchange":
        return value
    if expected is not None:
        is_same = f.b.icmp("eq", _to_bits(f, s, old), _to_bits(f, s, expected))
        return f.b.select(is_same, value, old)
    op = "max" if dtype.is_bool and s.op == "+" else s.op
    return round_to(f, emit_binary(f, op, old, value, dtype), dtype)


def _emit_instruction(f: Function, s: Atomic, pointer: Value, value: Value) -> Value:
    signed = s.buffer.dtype.is_signed
    name = _INSTRUCTIONS.get(s.op) or (s.op if signed else f"u{s.op}")
    bits = _to_bits(f, s, value)
    old = f.b.emit(bits.type, f"atomicrmw {name} ptr {pointer.text}, {bits.typed} monotonic")
    return _from_bits(f, s, old)


def _emit_swap_loop(f: Function, s: Atomic, pointer: Value, value: Value) -> Value:
    """Read, combine, and store if nobody else did meanwhile."""
    retry, done = f.b.new_label("retry"), f.b.new_label("swapped")
    first = _load_bits(f, s, pointer)
    before = f.b.label
    f.b.block(retry)
    seen = f.b.phi(first.type, [(first, before)])
    old = _from_bits(f, s, seen)
    now, swapped = _swap(f, s, pointer, seen, _to_bits(f, s, _new_value(f, s, old, value, None)))
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
