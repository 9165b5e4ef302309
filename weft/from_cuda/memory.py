"""Loads and stores through addresses: which buffer, which element, of which type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.from_cuda.arithmetic import constant, fold, stored
from weft.from_cuda.context import Binding, Context, close
from weft.from_cuda.types import LONG, VOID, Array, CType, Pointer, Record, Scalar, has_union, leaves
from weft.from_cuda.unit import Node
from weft.from_cuda.values import ZERO, Address, Copy, Memory, Nothing, Number, Struct, Target, Value, index_var, plus
from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Load, Select, const, idx
from weft.ir.stmt import Assert, For, If, Store

#: Memory that a launch tells where it is and how large.
GIVEN = ("argument", "symbol", "texture", "surface", "prints")
#: Arrays of up to so many elements are copied one by one.
_UNROLLED = 16


_UNSIGNED = {1: dt.uint8, 2: dt.uint16, 4: dt.uint32, 8: dt.uint64}


def scalar_element(type: CType) -> DType | None:
    """What all of ``type`` is made of, where that is one type."""
    while isinstance(type, Array):
        type = type.of
    if isinstance(type, Scalar):
        return type.dtype
    if isinstance(type, Record):
        kinds = {scalar_element(f.type) for f in type.fields if not (isinstance(f.type, Record) and f.type.is_empty)}
        return kinds.pop() if len(kinds) == 1 else None
    return None


def has_fields_apart(memory: Memory) -> bool:
    """Whether ``memory`` is of records with fields of several types, which lie apart."""
    element = memory.element
    return isinstance(element, Record) and scalar_element(element) is None and not has_union(element)


def held_as(c: Context, memory: Memory, dtype: DType) -> DType:
    """The type of the buffer through which elements of ``dtype`` are reached: the one of that size in which the memory
    was declared or, where that has another size (bytes cut into parts), first used, since one place has one buffer."""
    if has_union(memory.element) or memory.key in c.facts.bits:
        return _UNSIGNED[dtype.itemsize]
    declared = scalar_element(memory.element)
    if declared is not None and declared.itemsize == dtype.itemsize:
        return declared
    if memory.kind == "heap" or has_fields_apart(memory):
        return dtype
    whole = dt.uint8 if dtype.is_bool else dtype
    return next((seen for seen in memory.views if seen.itemsize == dtype.itemsize), whole)


def view(c: Context, memory: Memory, dtype: DType) -> Buffer:
    """The buffer through which ``memory`` is seen as elements of ``dtype``."""
    found = memory.views.get(dtype)
    if found is None:
        found = memory.views[dtype] = _make_view(c, memory, dtype)
    return found


def _make_view(c: Context, memory: Memory, dtype: DType) -> Buffer:
    first = dtype == scalar_element(memory.element) or (not memory.views and scalar_element(memory.element) is None)
    name = c.fresh(memory.name if first else f"{memory.name}_{dtype}")
    if memory.kind in GIVEN:
        return Buffer(name, dtype, (fold(Binary("//", index_var(memory.size_name), idx(dtype.itemsize))),))
    if memory.kind == "heap":
        return Buffer(name, dtype, (index_var("heap_size"),))
    if memory.kind in ("dynamic", "window"):
        before = c.facts.window_bytes if memory.kind == "window" else 0
        dynamic: Expr = idx(0 if memory.kind == "window" and not c.facts.has_dynamic_window else c.launch.shared or 0)
        if c.launch.shared is None and (memory.kind == "dynamic" or c.facts.has_dynamic_window):
            dynamic = index_var("shared_bytes")
        count = fold(Binary("//", plus(dynamic, idx(before)), idx(dtype.itemsize)))
        buffer = Buffer(name, dtype, (count,), scope="shared")
        c.shared.append(buffer)
        return buffer
    shape = _local_shape(memory, dtype)
    if memory.kind == "table":
        return Buffer(name, dtype, shape)
    if memory.kind == "shared":
        buffer = Buffer(name, dtype, shape, scope="shared")
        c.shared.append(buffer)
    else:
        buffer = Buffer(name, dtype, shape, scope="local")
        c.frames[0].start[0].insert(c.frames[0].start[1], Binding(buffer, None, c.span))
    return buffer


def _local_shape(memory: Memory, dtype: DType) -> tuple[Expr, ...]:
    each = -(-memory.element.size // dtype.itemsize)
    *outer, last = memory.dims or (1,)
    return tuple(map(idx, (*outer, last * each)))


def subscripts(c: Context, target: Target, dtype: DType) -> tuple[Expr, ...]:
    """The subscripts of an element of ``dtype`` in its view."""
    if target.indices is None and len(target.memory.dims) > 1:  # an array of one dimension from the next attempt on
        c.facts.learn(c.facts.flat, target.memory.key)
        return (ZERO,) * len(target.memory.dims)
    if target.indices is not None:
        *outer, last = target.indices
        inner = Target(target.memory, last, target.memory.element.size, target.extra)
        return (*outer, inner.index(dtype.itemsize))
    return (target.index(dtype.itemsize),)


def load(c: Context, n: Node, address: Address, type: CType) -> Value:
    """What ``address`` points to, as a value of ``type``."""
    if isinstance(type, Record):
        fields = {f.name: load(c, n, at_field(address, f.offset, f.type), f.type) for f in type.fields}
        return Struct(type, fields)
    if isinstance(type, Pointer):
        if address.is_null:
            _fail(c, n, "a null pointer is read")
            return Address(type.to, ())
        return _load_pointer(c, n, address, type)
    if isinstance(type, Array):
        return Copy(type, address)
    if not isinstance(type, Scalar):
        c.refuse(n, f"a value of type {getattr(type, 'name', type)} cannot be read from memory")
    if address.is_null:
        _fail(c, n, "a null pointer is read")
        return constant(type, 0)
    return Number(type, _choose(c, n, address, lambda t: _load_one(c, t, type.dtype)))


def _fail(c: Context, n: Node, why: str) -> None:
    """What no thread may come to: functions are written out for arguments with which they never get there."""
    c.emit(Assert(const(False, dt.bool_), why, span=c.unit.span(n)))


def _load_pointer(c: Context, n: Node, address: Address, type: Pointer) -> Value:
    """A pointer that lies in memory is a number; it points anywhere, see `on_heap`."""
    at = c.keep("address", _choose(c, n, address, lambda t: _load_one(c, t, dt.int64)))
    return on_heap(c, at, type.to)


def on_heap(c: Context, address: Expr, to: CType) -> Address:
    """The address ``address``, a number of bytes.

    Nothing tells into which array it points. So all arguments of the kernel are seen as parts of one memory, the heap,
    which begins at address 0: a buffer for each type of element.
    """
    c.facts.learn(c.facts.flat, "heap")
    if "heap" not in c.memories:
        c.memories["heap"] = Memory("heap", "heap", VOID, (), "heap")
    unit = to.align
    return Address(to, (Target(c.memories["heap"], fold(Binary("//", address, idx(unit))), unit),))


def in_window(c: Context, at: Expr, to: CType, unit: int = 1) -> Address:
    """The place ``at``, a number of units, in the block's shared memory."""
    if "window" not in c.memories:
        c.memories["window"] = Memory("shared", "window", VOID, (), "window")
    return Address(to, (Target(c.memories["window"], at, unit),))


def window_value(c: Context, n: Node, address: Address) -> Expr:
    """An address within shared memory as a number of bytes; shared memory is one piece from the next attempt on."""
    c.facts.learn(c.facts.flat, "window")
    if any(t.memory.kind != "window" for t in address.targets):
        c.refuse(n, "the address within shared memory of what is elsewhere")
    if len(address.targets) != 1:
        c.refuse(n, "the address within shared memory of one of several variables")
    return address.targets[0].index(1)


def address_value(c: Context, n: Node, address: Address) -> Expr:
    """An address as a number of bytes, for a pointer that is put into memory."""
    if address.is_null:
        return ZERO
    found: Expr | None = None
    for number, t in reversed(list(enumerate(address.targets))):
        if t.memory.kind == "argument":
            c.facts.learn(c.facts.flat, "heap")
        elif t.memory.kind != "heap":
            c.refuse(n, "a pointer to shared or local memory, or to a variable, is put into memory")
        at = t.index(1)
        found = at if found is None else Select(Compare("==", address.which or ZERO, idx(number)), at, found)
    assert found is not None
    return found if address.is_set is None else Select(address.is_set, found, ZERO)


def byte_address(c: Context, n: Node, address: Address) -> Expr:
    """An address as a number of bytes, where nothing is put there that later becomes a pointer again."""
    if address.is_null:
        return ZERO
    number = _choose(c, n, address, lambda t: _byte_address_of(c, n, t))
    return number if address.is_set is None else Select(address.is_set, number, ZERO)


def _byte_address_of(c: Context, n: Node, target: Target) -> Expr:
    memory = target.memory
    if memory.kind == "heap":
        return target.index(1)
    if memory.kind != "argument":
        c.refuse(n, "a number made from a pointer to a variable, or to shared or local memory")
    if any(memory.argument in group for group in c.launch.alias):  # one buffer, of which the lowest is the start
        c.facts.learn(c.facts.flat, "heap")
    return plus(c.start_of(memory), target.index(1))


def _choose(c: Context, n: Node, address: Address, one: Callable[[Target], Expr]) -> Expr:
    made = one(address.targets[-1])
    for number, target in reversed(list(enumerate(address.targets[:-1]))):
        assert address.which is not None
        made = Select(Compare("==", address.which, idx(number)), one(target), made)
    return made


def part_type(c: Context, memory: Memory, dtype: DType) -> DType | None:
    """The type of the elements that an element of ``dtype`` is made of, where ``memory`` is accessed as smaller ones
    too: one place has one buffer, so that the order of accesses stays what it is."""
    size = c.facts.parts.get(memory.key, dtype.itemsize)
    return _UNSIGNED[size] if size < dtype.itemsize else None


def _parts(c: Context, target: Target, part: DType, dtype: DType) -> tuple[Buffer, list[tuple[Expr, ...]]]:
    """The buffer that has the parts of an element of ``dtype``, and where they are, the lowest bits first."""
    held = held_as(c, target.memory, part)
    *outer, last = subscripts(c, target, part)
    places = [(*outer, fold(Binary("+", last, idx(at)))) for at in range(dtype.itemsize // part.itemsize)]
    return view(c, target.memory, held), places


def _load_one(c: Context, target: Target, dtype: DType) -> Expr:
    part = part_type(c, target.memory, dtype)
    if part is None:
        held = held_as(c, target.memory, dtype)
        return reinterpret(Load(view(c, target.memory, held), subscripts(c, target, held)), dtype)
    whole = _UNSIGNED[dtype.itemsize]
    buffer, places = _parts(c, target, part, dtype)
    bits: Expr = Cast(whole, reinterpret(Load(buffer, places[0]), part))
    for number, place in enumerate(places[1:], 1):
        one = Cast(whole, reinterpret(Load(buffer, place), part))
        bits = Binary("|", bits, Binary("<<", one, const(number * part.bits, whole)))
    return reinterpret(bits, dtype)


def reinterpret(e: Expr, dtype: DType) -> Expr:
    """The bits of ``e`` as a value of another type of the same size."""
    if e.dtype == dtype:
        return e
    if e.dtype.is_bool or dtype.is_bool or (e.dtype.is_integer and dtype.is_integer):
        return Cast(dtype, e)
    return Call("reinterpret", (e,), dtype)


def store(c: Context, n: Node, address: Address, value: Value) -> None:
    """Writes ``value`` to where ``address`` points."""
    if address.is_null:
        _fail(c, n, "a null pointer is written through")
        return
    if isinstance(value, Struct):
        for f in value.type.fields:
            store(c, n, at_field(address, f.offset, f.type), value.fields[f.name])
        return
    if isinstance(value, Nothing) and isinstance(address.to, Array):
        _clear(c, n, address, address.to)
        return
    if isinstance(value, Copy):
        _copy(c, n, address, value)
        return
    if isinstance(value, Address):
        value = Number(LONG, address_value(c, n, value))
    if not isinstance(value, Number):
        c.refuse(n, "the address of a local variable is put into memory")
    chosen(c, address, lambda t: _store_one(c, t, value))


def _copy(c: Context, n: Node, address: Address, value: Copy) -> None:
    """An array, element by element."""
    size, count = value.type.of.size, value.type.count or 0

    def one(at: Expr) -> None:
        source, target = (advance(c, a, at, size) for a in (value.address, address))
        store(c, n, Address(value.type.of, target.targets, target.which), load(c, n, source, value.type.of))

    if count <= _UNROLLED:
        for at in range(count):
            one(idx(at))
        return
    var = index_var(c.fresh("element"))
    with c.scope() as items:
        one(var)
    c.emit(For(var, ZERO, idx(count), "serial", close(items), span=c.span))


def _clear(c: Context, n: Node, address: Address, type: CType) -> None:
    """All numbers of an array are zero."""
    if isinstance(type, Array):
        for at in range(type.count or 0):
            _clear(c, n, advance(c, address, idx(at), type.of.size), type.of)
    else:
        for _, leaf, offset in leaves(type):
            if isinstance(leaf, Scalar):
                store(c, n, at_field(address, offset, leaf), constant(leaf, 0))


def chosen(c: Context, address: Address, act: Callable[[Target], None]) -> None:
    """``act`` on the target that ``address`` has."""
    if len(address.targets) == 1:
        act(address.targets[0])
        return
    assert address.which is not None
    for number, target in enumerate(address.targets):
        with c.scope() as items:
            act(target)
        c.emit(If(Compare("==", address.which, idx(number)), close(items), span=c.span))


def _store_one(c: Context, target: Target, value: Number) -> None:
    dtype = value.type.dtype
    part = part_type(c, target.memory, dtype)
    if part is None:
        held = held_as(c, target.memory, dtype)
        buffer = view(c, target.memory, held)
        target.memory.written.add(held)
        c.emit(Store(buffer, subscripts(c, target, held), reinterpret(stored(value), held), span=c.span))
        return
    whole = _UNSIGNED[dtype.itemsize]
    bits = c.keep("bits", reinterpret(stored(value), whole))
    buffer, places = _parts(c, target, part, dtype)
    target.memory.written.add(buffer.dtype)
    for number, place in enumerate(places):
        one = Cast(part, Binary(">>", bits, const(number * part.bits, whole)))
        c.emit(Store(buffer, place, reinterpret(one, buffer.dtype), span=c.span))


def at_field(address: Address, offset: int, type: CType) -> Address:
    """The address of the field that begins ``offset`` bytes behind."""
    targets = tuple(Target(t.memory, t.offset, t.unit, t.extra + offset, t.indices) for t in address.targets)
    return Address(type, targets, address.which)


def advance(c: Context, address: Address, by: Expr, size: int) -> Address:
    """``by`` elements of ``size`` bytes further."""
    if isinstance(by, Const) and by.value == 0:
        return address
    return replace(address, targets=tuple(flat(c, t).advance(by, size) for t in address.targets))


def flat(c: Context, target: Target) -> Target:
    """``target`` in one dimension; its array gets only one from the next attempt on."""
    if len(target.memory.dims) <= 1 and target.indices is None:
        return target
    c.facts.learn(c.facts.flat, target.memory.key)
    return Target(target.memory, ZERO, target.unit, target.extra)


def difference(c: Context, n: Node, a: Address, b: Address, size: int) -> Expr:
    """How many elements of ``size`` bytes lie between two addresses in one memory."""
    if len(a.targets) != 1 or len(b.targets) != 1 or a.targets[0].memory is not b.targets[0].memory:
        c.refuse(n, "the distance of pointers into different arrays")
    left, right = (flat(c, x.targets[0]).index(size) for x in (a, b))
    return fold(Binary("-", left, right))
