"""Places: reading and writing variables, elements of memory and fields; making those of local variables."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import NoReturn

from weft.from_cuda.arithmetic import convert, grows, is_index, settle, wrap
from weft.from_cuda.choices import choose
from weft.from_cuda.context import Binding, Context, close
from weft.from_cuda.memory import at_field, flat, in_window, load, store
from weft.from_cuda.types import Array, CType, Opaque, Pointer, Record, Reference, Scalar, has_union
from weft.from_cuda.unit import Node
from weft.from_cuda.values import (
    ZERO,
    Address,
    Alias,
    Either,
    Element,
    Fields,
    Fixed,
    Memory,
    Nothing,
    Number,
    Place,
    PointerVariable,
    Struct,
    Target,
    Value,
    Variable,
    index_var,
)
from weft.ir import dtype as dt
from weft.ir.expr import Compare, Const, Expr, Select, Var, cast, const, idx
from weft.ir.interval import Interval
from weft.ir.stmt import Assign, If

_NOWHERE = -(1 << 48)


def read(c: Context, n: Node, place: Place) -> Value:
    """The value in ``place`` now."""
    match place:
        case Fixed():
            return place.value
        case Variable():
            return Number(place.type, place.var)
        case Fields():
            return Struct(
                place.type, {f.name: _read_field(c, n, place.fields[f.name], f.type) for f in place.type.fields}
            )
        case PointerVariable():
            return read_pointer(c, place)
        case Element():
            return load(c, n, place.address, place.type)
        case Either():
            return choose(c, n, place.test, read(c, n, place.then), read(c, n, place.otherwise))


def _read_field(c: Context, n: Node, place: Place, type: CType) -> Value:
    """A field as a value: a reference is the place that it is bound to."""
    return Alias(place) if isinstance(type, Reference) else read(c, n, place)


def read_pointer(c: Context, place: PointerVariable) -> Address:
    known = tuple(c.facts.pointees.get(place.key, {}).values())
    targets = tuple(Target(current(c, m), place.offset, place.to.align) for m in known)
    is_set = Compare("!=", place.offset, _null_at(c, place)) if place.key in c.facts.nullable else None
    return Address(place.to, targets, place.which if len(known) > 1 else None, is_set)


def _null_at(c: Context, place: PointerVariable) -> Expr:
    """The offset that a null pointer has: no element is there; on the heap, which begins at address 0, it is that."""
    return ZERO if set(c.facts.pointees.get(place.key, {})) == {"heap"} else idx(_NOWHERE)


def current(c: Context, memory: Memory) -> Memory:
    """This attempt's memory for one that an earlier attempt found."""
    if memory.key not in c.memories:
        c.memories[memory.key] = replace(memory, views={}, written=set())
    return c.memories[memory.key]


def assign(c: Context, n: Node, place: Place, value: Value) -> None:
    """Puts ``value`` into ``place``."""
    match place:
        case Variable():
            assert isinstance(value, Number)
            c.emit(Assign(place.var, held(c, place, value), span=c.span))
        case Fields():
            _assign_fields(c, n, place, value)
        case PointerVariable():
            _assign_pointer(c, n, place, value)
        case Element():
            store(c, n, place.address, value)
        case Either():
            value = keep_value(c, "assigned", value)
            with c.scope() as then:
                assign(c, n, place.then, value)
            with c.scope() as otherwise:
                assign(c, n, place.otherwise, value)
            c.emit(If(place.test, close(then), close(otherwise), span=c.span))
        case Fixed():
            c.refuse(n, "something that is a parameter or a temporary value is assigned to")


def held(c: Context, place: Variable, value: Number) -> Expr:
    """``value`` as the variable has it; one that is assigned an index holds indices from the next attempt on."""
    value = convert(value, place.type, c.ranges)
    if is_index(value) and not isinstance(value.expr, Const) and place.type.dtype != dt.uint64 and place.key:
        c.facts.learn(c.facts.indices, place.key)
    if place.var.dtype == dt.index and place.type.dtype != dt.uint64:
        if place.type.dtype == dt.int32 and is_index(value) and grows(c.written_out(value.expr), place.var.name):
            c.facts.learn(c.facts.wrapping, place.key)
        if place.key in c.facts.wrapping and is_index(value):
            return wrap(value, c.ranges)
        return cast(dt.index, settle(value, c.ranges))
    return cast(place.var.dtype, value.expr)


def _assign_fields(c: Context, n: Node, place: Fields, value: Value) -> None:
    if not isinstance(value, Struct):
        c.refuse(n, "a record is assigned something else")
    kept = keep_fields(c, value)
    for f in place.type.fields:
        bound = kept.fields[f.name]
        if isinstance(f.type, Reference) and isinstance(bound, Alias):
            place.fields[f.name] = bound.place
            continue
        assign(c, n, place.fields[f.name], kept.fields[f.name])


def keep_fields(c: Context, value: Struct) -> Struct:
    """The numbers of a record as they are now: assigning to one field must not change the others."""
    return Struct(value.type, {name: keep_value(c, name, v) for name, v in value.fields.items()})


def keep_value(c: Context, name: str, value: Value) -> Value:
    """``value`` as it is now, whatever is assigned later."""
    match value:
        case Number():
            return Number(value.type, c.keep(name, value.expr))
        case Struct():
            return keep_fields(c, value)
        case Address():
            targets = tuple(
                Target(t.memory, c.keep(name, t.offset), t.unit, t.extra,
                       None if t.indices is None else tuple(c.keep(name, i) for i in t.indices))
                for t in value.targets
            )  # fmt: skip
            which, is_set = (None if e is None else c.keep(name, e) for e in (value.which, value.is_set))
            return Address(value.to, targets, which, is_set)
    return value


def _assign_pointer(c: Context, n: Node, place: PointerVariable, value: Value) -> None:
    """A pointer that changes has an offset of its own; which memories it points into is learned."""
    if isinstance(value, Alias):
        need_memory(c, n, value, "the address of a variable is kept in a pointer that changes")
    if not isinstance(value, Address):
        c.refuse(n, "a pointer is assigned what is none")
    if value.is_null or value.is_set is not None:
        c.facts.learn(c.facts.nullable, place.key)
    if value.is_null:
        c.emit(Assign(place.offset, _null_at(c, place), span=c.span))
        return
    known = c.facts.pointees.setdefault(place.key, {})
    for t in value.targets:
        if t.memory.key not in known:
            known[t.memory.key] = t.memory
            c.facts.is_new = True
    order = list(known)
    offsets = [flat(c, t) for t in value.targets]
    size = place.to.align
    offset, which = offsets[-1].index(size), idx(order.index(offsets[-1].memory.key))
    chosen: Expr = which
    for number, t in reversed(list(enumerate(offsets[:-1]))):
        assert value.which is not None
        is_this = Compare("==", value.which, idx(number))
        offset = Select(is_this, t.index(size), offset)
        chosen = Select(is_this, idx(order.index(t.memory.key)), chosen)
    if value.is_set is not None:
        offset = Select(value.is_set, offset, _null_at(c, place))
    offset = c.keep("at", offset)
    if len(order) > 1:
        c.emit(Assign(place.which, chosen, span=c.span))
    c.emit(Assign(place.offset, offset, span=c.span))


def declare(c: Context, n: Node, type: CType, name: str, value: Value | None, key: str) -> Place:
    """A place for a local variable that starts as ``value``."""
    match type:
        case Scalar() | Pointer() | Record() if key in c.facts.in_memory or has_union(type):
            whole = Element(type, Address(type, (array_target(c, name, Array(type, 1), "local", key),)))
            if isinstance(value, Number) and isinstance(type, Scalar):
                value = convert(value, type, c.ranges)
            if value is not None:
                store(c, n, whole.address, value)
            return whole
        case Scalar():
            return _declare_number(c, type, name, value, key)
        case Pointer():
            return _declare_pointer(c, n, type, name, value, key)
        case Record():
            if value is not None and not isinstance(value, (Struct, Nothing)):
                c.refuse(n, f"a variable of type {type.name} that starts as something else")
            given = value.fields if isinstance(value, Struct) else {}
            fields = {
                f.name: declare(c, n, f.type, f"{name}_{f.name}", given.get(f.name), f"{key}.{f.name}")
                for f in type.fields
            }
            return Fields(type, fields)
        case Array():
            place = Element(type, Address(type.of, (array_target(c, name, type, "local", key),)))
            if value is not None:
                store(c, n, place.address, value)
            return place
        case Reference():
            return value.place if isinstance(value, Alias) else Fixed(Nothing())  # its constructor binds it
    return c.refuse(n, f"a variable of type {getattr(type, 'name', 'unknown')}")


def _declare_number(c: Context, type: Scalar, name: str, value: Value | None, key: str) -> Place:
    start = convert(value, type, c.ranges) if isinstance(value, Number) else None
    dtype = dt.index if key in c.facts.indices else type.dtype
    if start is None:
        initial: Expr = const(0, dtype)
    else:
        initial = held(c, Variable(type, Var(name, dtype), key), start)
    var = c.let(name, initial)
    c.ranges[var.name] = _range(type)
    if key in c.facts.wrapping:
        c.ranges.wrapping.add(var.name)
    if type.is_integer and type.dtype != dt.uint64:
        c.keys[var.name] = key
    return Variable(type, var, key)


def _range(type: Scalar) -> Interval:
    if not type.dtype.is_integer or type.dtype == dt.uint64:
        return Interval(None, None)
    return Interval(type.dtype.min_value, type.dtype.max_value)


def note_range(c: Context, place: Place) -> None:
    """Nothing is assigned to the variable after its start: it has the range of its first value."""
    if isinstance(place, Variable):
        item = c.items[-1] if c.items else None
        if isinstance(item, Binding) and item.what == place.var and item.value is not None:
            c.fixed.add(place.var.name)
            c.kept[place.var.name] = item.value
            found = c.ranges.of(item.value) if item.value.dtype.is_integer else Interval(None, None)
            c.ranges[place.var.name] = found.intersect(_range(place.type))


def _declare_pointer(c: Context, n: Node, type: Pointer, name: str, value: Value | None, key: str) -> Place:
    offset = c.let(f"{name}_at", ZERO)
    known = c.facts.pointees.get(key, {})
    which = c.let(f"{name}_of", ZERO) if len(known) > 1 else index_var(f"{name}_of")
    place = PointerVariable(type.to, key, offset, which)
    if value is not None:
        _assign_pointer(c, n, place, value)
    return place


def array_target(c: Context, name: str, type: Array, kind: str, key: str) -> Target:
    """The memory of an array, as the place where it begins."""
    dims, element = [type.count or 0], type.of
    while isinstance(element, Array):
        dims.append(element.count or 0)
        element = element.of
    if kind == "shared" and c.facts.has_window and not name.startswith("weft_"):
        start = c.facts.place_in_window(key, prod(dims) * element.size)
        return in_window(c, idx(start // element.size), element, element.size).targets[0]
    if key in c.facts.flat:
        dims = [prod(dims)]
    memory = c.memories.get(key)
    if memory is None:
        memory = c.memories[key] = Memory(name, kind, element, tuple(dims), key)
    return Target(memory, ZERO, element.size)


def field_place(c: Context, n: Node, place: Place, name: str) -> Place:
    """The field ``name`` of the record in ``place``."""
    match place:
        case Fields():
            if name in place.fields:
                return place.fields[name]
        case Fixed(value=Struct() as value):
            if name in value.fields:
                held = value.fields[name]
                return held.place if isinstance(held, Alias) and _is_reference(value.type, name) else Fixed(held)
        case Either():
            then, otherwise = (field_place(c, n, p, name) for p in (place.then, place.otherwise))
            return Either(place.test, then, otherwise)
        case Element(type=Record() as type):
            found = type.field(name)
            if found is not None:
                return Element(found.type, at_field(place.address, found.offset, found.type))
    unknown = place.type.name if isinstance(place, Element) and isinstance(place.type, Opaque) else ""
    return c.refuse(n, f"a member `{name}` of {unknown or 'what is no local record or element of memory'}")


def _is_reference(type: Record, name: str) -> bool:
    field = type.field(name)
    return field is not None and isinstance(field.type, Reference)


def address_of(c: Context, n: Node, place: Place) -> Value:
    """The address of a place; that of a local variable is good for a call alone."""
    if isinstance(place, Element):
        return place.address if not isinstance(place.type, Array) else Address(place.type, place.address.targets)
    return Alias(place)


def need_memory(c: Context, n: Node, pointer: Alias, why: str) -> NoReturn:
    """More is done with the address of a local variable than a place allows: it is memory from the next attempt on."""
    key = _variable_of(c, pointer.place)
    if key:
        c.facts.learn(c.facts.in_memory, key)
    c.refuse(n, why)


def _variable_of(c: Context, place: Place) -> str:
    """The key of the variable that ``place`` is, or is a part of."""
    match place:
        case Variable() | PointerVariable():
            return place.key.partition(".")[0]
        case Fields():
            return next(filter(None, (_variable_of(c, f) for f in place.fields.values())), "")
        case Fixed():
            return next((key for key, p in c.places.items() if p is place), "")
    return ""


def dereference(c: Context, n: Node, value: Value, type: CType) -> Place:
    """What a pointer points to."""
    match value:
        case Alias():
            return value.place
        case Address():
            return Element(type, value)
    return c.refuse(n, "something that is no pointer is dereferenced")
