"""Addresses, loads and stores.

The element an access touches is ``pointer + offset`` (see `weft.target.cpu.emit_offset`). Where the offset
is linear in the lane number, ``base + step * lane``, the access is one scalar (step 0), one vector (step 1
or -1) or a gather with known step; anything else is a gather from computed offsets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from weft.ir.buffer import Buffer
from weft.ir.expr import Expr, Load
from weft.target.cpu.emit_context import (
    I64,
    ZERO,
    Function,
    Memory,
    all_lanes,
    any_lane,
    fit,
    lane_numbers,
    literal,
    multiply,
    storage_type,
)
from weft.target.cpu.emit_convert import narrow_to_memory, widen_from_memory
from weft.target.cpu.emit_lanes import first_lanes
from weft.target.cpu.emit_offset import EmitExpr, Linear, as_vector, emit_offset
from weft.target.cpu.emit_stepped import (
    LONGEST_STEP,
    SHORT_STEPS,
    is_room_around,
    load_stepped,
    load_stepped_masked,
    load_together,
)
from weft.target.cpu.llvm_values import Value, bits_of, constant, element_align, mangled, vector

INVARIANT = ", !invariant.load !0"


@dataclass(frozen=True, slots=True)
class Address:
    """Where an access goes: a scalar pointer and a step between lanes, or a pointer per lane (step None).

    The pointer is ``plus`` elements after ``base``. ``is_own``: all lanes, active or not, are surely in memory of this
    function's own.
    """

    base: Value
    plus: int
    pointer: Value
    step: int | None
    lanes: int
    is_own: bool = False


def emit_load(f: Function, load: Load, emit: EmitExpr) -> Value:
    memory = f.memory(load.buffer)
    address = emit_address(f, load.buffer, load.indices, emit)
    metadata = INVARIANT if memory.invariant else ""
    element = storage_type(load.buffer.dtype)
    bits = _load_shared(f, load, element, address) or load_bits(f, element, address, metadata)
    return widen_from_memory(f, bits, load.buffer.dtype)


def _load_shared(f: Function, load: Load, element: str, address: Address) -> Value | None:
    """Every second or so element of an input, from vectors it shares with loads that begin between; else None."""
    step, lanes = address.step, address.lanes
    if step not in SHORT_STEPS or step is None or lanes < max(SHORT_STEPS) or _mask_for(f, lanes) is not None:
        return None
    skip = address.plus % step
    if not f.memory(load.buffer).invariant or not is_room_around(f, load, skip, lanes, step):
        return None
    pointer = _gep(f, element, address.base, literal(address.plus - skip))
    return load_together(f, vector(element, lanes), element, pointer, step, skip, INVARIANT)


def emit_store(f: Function, buffer: Buffer, indices: tuple[Expr, ...], value: Value, emit: EmitExpr) -> None:
    address = emit_address(f, buffer, indices, emit)
    bits = narrow_to_memory(f, value, buffer.dtype)
    if f.memory(buffer).streams and address.step == 1 and _mask_for(f, address.lanes) is None:
        emit_streamed(f, fit(f, bits, address.lanes), address.pointer)
    else:
        store_bits(f, bits, address)


def emit_address(f: Function, buffer: Buffer, indices: tuple[Expr, ...], emit: EmitExpr) -> Address:
    memory = f.memory(buffer)
    element = storage_type(buffer.dtype)
    offset = emit_offset(f, buffer, indices, emit)
    if memory.lanes > 1:
        offset = _spread_over_lanes(f, offset, memory)
    if isinstance(offset, Linear):
        first = offset.plus if offset.base.text == "0" else None
        is_own = first is not None and 0 <= first <= memory.own_elements - offset.lanes and offset.step == 1
        # The number comes last: accesses side by side share the rest, and instructions add it for nothing.
        base = _gep(f, element, memory.pointer, offset.base)
        pointer = _gep(f, element, base, literal(offset.plus))
        return Address(base, offset.plus, pointer, offset.step, offset.lanes, is_own)
    pointers = _gep(f, element, memory.pointer, offset)
    return Address(pointers, 0, pointers, None, offset.lanes)


def _gep(f: Function, element: str, pointer: Value, offset: Value) -> Value:
    # Not "inbounds": a lane that is masked off, or a guarded access, may name an address outside.
    return pointer if offset.text == "0" else f.b.gep(element, pointer, offset, inbounds=False)


def _spread_over_lanes(f: Function, offset: Linear | Value, memory: Memory) -> Linear | Value:
    """The offset in a private buffer, which holds ``memory.lanes`` copies of each element side by side."""
    if isinstance(offset, Linear) and offset.step == 0:
        base = multiply(f, offset.base, Value(str(memory.lanes), I64))
        return Linear(base, 1, memory.lanes, offset.plus * memory.lanes)
    offsets = as_vector(f, offset, memory.lanes)
    scaled = f.b.mul(offsets, constant(offsets.type, memory.lanes))
    return f.b.add(scaled, lane_numbers(memory.lanes))


def _mask_for(f: Function, lanes: int) -> Value | None:
    return f.mask if f.mask is not None and f.mask.lanes == lanes else None


def load_bits(f: Function, element: str, address: Address, metadata: str = "") -> Value:
    if address.step == 0:
        value = _load_scalar(f, element, address.pointer, metadata)
        return fit(f, value, address.lanes) if f.lane is None else value
    mask = _mask_for(f, address.lanes)
    type = vector(element, address.lanes)
    if address.step == 1:
        if mask is None or address.is_own:
            return f.b.load(type, address.pointer, metadata=metadata, pure=metadata == INVARIANT)
        return _masked_load(f, type, address.pointer, mask)
    if address.step == -1 and mask is None:
        return _load_reversed(f, type, element, address)
    step = address.step or 0
    if _picks_lanes(f, step, address.lanes) and mask is None:
        return load_stepped(f, type, element, address.pointer, step, metadata)
    if _picks_lanes(f, step, address.lanes) and mask is not None and _has_masked_loads(f, element, mask):
        return load_stepped_masked(f, element, address.pointer, step, mask, partial(_masked_load, f, type))
    count = _accessed_one_by_one(f, address, mask)
    if count is not None:
        return _load_one_by_one(f, type, element, address, count, metadata)
    pointers = _lane_pointers(f, element, address)
    arguments = [pointers, _align(element), mask or all_lanes(address.lanes), constant(type, 0)]
    return f.b.call(f"llvm.masked.gather.{mangled(type)}.{mangled(pointers.type)}", type, arguments, reads=True)


def _picks_lanes(f: Function, step: int, lanes: int) -> bool:
    """Whether elements ``step`` apart are picked from whole vectors."""
    if step in SHORT_STEPS:
        return lanes >= max(SHORT_STEPS)
    return f.machine.has_masks and 1 < step <= min(lanes, LONGEST_STEP)


def _has_masked_loads(f: Function, element: str, mask: Value) -> bool:
    """Whether loading some lanes is one instruction and, where it is not of AVX-512, its mask costs nothing."""
    return f.machine.has_masks or (first_lanes(mask) is not None and bits_of(element) >= 32)


def _accessed_one_by_one(f: Function, address: Address, mask: Value | None) -> int | None:
    """How many first lanes, a known step apart, are accessed one by one; None where one instruction does it.

    Where LLVM takes gathers and scatters apart, it computes all addresses in vectors, and takes them out of these.
    """
    if f.machine.has_masks or not address.step or address.lanes > f.machine.vector_bits // 8:
        return None
    return address.lanes if mask is None else first_lanes(mask)


def _load_one_by_one(f: Function, type: str, element: str, address: Address, count: int, metadata: str) -> Value:
    value = constant(type, 0)
    for lane in range(count):
        pointer = lane_pointer(f, element, address, lane)
        value = f.b.insert(value, f.b.load(element, pointer, metadata=metadata, pure=bool(metadata)), lane)
    return value


def lane_pointer(f: Function, element: str, address: Address, lane: int) -> Value:
    """Where one lane of an access goes."""
    if address.step is None:
        return f.b.extract(address.pointer, lane)
    return _gep(f, element, address.base, literal(address.plus + lane * (address.step or 0)))


def _load_reversed(f: Function, type: str, element: str, address: Address) -> Value:
    lowest = f.b.gep(element, address.pointer, Value(str(1 - address.lanes), I64), inbounds=False)
    return f.b.shuffle(f.b.load(type, lowest), None, range(address.lanes - 1, -1, -1))


def _load_scalar(f: Function, element: str, pointer: Value, metadata: str) -> Value:
    """One element for all lanes. Where perhaps no lane is active it must not be touched at all."""
    if f.mask is None or f.mask_is_live:
        return f.b.load(element, pointer, metadata=metadata)
    one = f"<1 x {element}>"
    mask = f.b.emit("<1 x i1>", f"insertelement <1 x i1> poison, {any_lane(f, f.mask).typed}, i64 0")
    return f.b.extract(_masked_load(f, one, pointer, mask), 0)


def _masked_load(f: Function, type: str, pointer: Value, mask: Value) -> Value:
    element = type[type.index("x") + 2 : -1]
    half = mask.lanes // 2
    if not f.machine.has_masks and mask.lanes > f.machine.lanes(bits_of(type)) and mask.lanes % 2 == 0:
        # Without masks in hardware LLVM takes wider loads apart itself, and fails where part of a mask is constant.
        low, high = (f.b.shuffle(mask, None, range(n, n + half)) for n in (0, half))
        above = f.b.gep(element, pointer, Value(str(half), I64), inbounds=False)
        half_type = vector(element, half)
        halves = _masked_load(f, half_type, pointer, low), _masked_load(f, half_type, above, high)
        return f.b.shuffle(*halves, range(mask.lanes))
    arguments = [pointer, _align(element), mask, Value("zeroinitializer", type)]
    name = type[1 : type.index(" ")]
    return f.b.call(f"llvm.masked.load.v{name}{mangled(element)}.p0", type, arguments, reads=True)


def _lane_pointers(f: Function, element: str, address: Address) -> Value:
    if address.step is None:
        return address.pointer
    offsets = f.b.mul(lane_numbers(address.lanes), constant(vector(I64, address.lanes), address.step))
    return f.b.gep(element, address.pointer, offsets, inbounds=False)


def _align(element: str) -> Value:
    return Value(str(element_align(element)), "i32")


def store_bits(f: Function, value: Value, address: Address) -> None:
    # All lanes may have one address, where only one of them is active: the diagonal of a matrix, say.
    lanes = max(address.lanes, value.lanes) if address.step == 0 else address.lanes
    if address.step == 0 and lanes == 1:
        f.b.store(value, address.pointer)
        return
    mask = _mask_for(f, lanes)
    value = fit(f, value, lanes)
    if address.step == 1 and mask is not None and address.is_own:
        # A masked store would keep the buffer in memory; a blend leaves it to be a register.
        f.b.store(f.b.select(mask, value, f.b.load(value.type, address.pointer)), address.pointer)
    elif address.step == 1 and mask is None:
        f.b.store(value, address.pointer)
    elif address.step == 1 and mask is not None and (count := _stored_apart(f, mask)) is not None:
        _store_first(f, value, address.pointer, count)
    elif address.step == 1:
        assert mask is not None
        arguments = [value, address.pointer, _align(value.element), _opaque_mask(f, mask, value)]
        f.b.call(f"llvm.masked.store.{mangled(value.type)}.p0", "void", arguments)
    elif (count := _accessed_one_by_one(f, address, mask)) is not None:
        for lane in range(count):
            f.b.store(
                f.b.extract(value, lane), _gep(f, value.element, address.pointer, literal(lane * (address.step or 0)))
            )
    else:
        pointers = _lane_pointers(f, value.element, replace(address, lanes=lanes))
        arguments = [value, pointers, _align(value.element), mask or all_lanes(lanes)]
        f.b.call(f"llvm.masked.scatter.{mangled(value.type)}.{mangled(pointers.type)}", "void", arguments)


def _stored_apart(f: Function, mask: Value) -> int | None:
    """How many first lanes are stored in pieces: without AVX-512 a masked store is dozens of micro-operations."""
    return None if f.machine.has_masks else first_lanes(mask)


def _store_first(f: Function, value: Value, pointer: Value, count: int) -> None:
    """The first ``count`` lanes, in as few stores as powers of two allow."""
    start = 0
    while start < count:
        lanes = 1 << (count - start).bit_length() - 1
        piece = f.b.extract(value, start) if lanes == 1 else f.b.shuffle(value, None, range(start, start + lanes))
        f.b.store(piece, _gep(f, value.element, pointer, literal(start)))
        start += lanes


def _opaque_mask(f: Function, mask: Value, value: Value) -> Value:
    """``mask`` in a form LLVM cannot see through.

    Where LLVM knows that exactly one lane of a store is active and the value was truncated to its type, it stores
    that lane untruncated: eight bytes for one. The error record's address is never 1, but LLVM does not know.
    """
    if value.element not in ("i8", "i16", "i32"):
        return mask
    is_true = f.b.icmp("ne", f.error_record, Value("inttoptr (i64 1 to ptr)", "ptr"))
    return f.b.and_(mask, f.b.splat(is_true, mask.lanes))


#: A shorter store would leave the processor waiting for the rest of a line.
SMALLEST = 16
METADATA = ", !nontemporal !1"
FOOTER = "!1 = !{i32 1}"


def emit_streamed(f: Function, value: Value, pointer: Value) -> None:
    """Stores a vector past the caches (non-temporal), in pieces as its address allows, which only the call can tell.

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
