"""Variables: those of a function, shared memory, and those outside of functions."""

from __future__ import annotations

from weft.from_cuda import arithmetic as ar
from weft.from_cuda.calls import construct_elements, construct_there
from weft.from_cuda.context import Context
from weft.from_cuda.expressions import expression, lvalue
from weft.from_cuda.literals import zero_of
from weft.from_cuda.memory import advance, in_window, store
from weft.from_cuda.places import array_target, declare, keep_value, note_range
from weft.from_cuda.tables import array_values, constant_table, text_bytes
from weft.from_cuda.types import INT, Array, CType, Opaque, Pointer, Record, Reference, Scalar
from weft.from_cuda.unit import Node
from weft.from_cuda.values import ZERO, Address, Element, Fixed, Memory, Number, Place, Target, Value
from weft.ir.expr import idx


def _is_constant(d: Node) -> bool:
    """Whether a static variable never changes: what initializes one on a device is known beforehand."""
    return bool(d.raw.get("constexpr")) or str(d.raw["type"]["qualType"]).startswith("const ")


def declare_variable(c: Context, d: Node) -> None:
    """A variable of a function, as one of its statements."""
    type = c.type_of(d)
    if d.has("CUDASharedAttr"):
        c.places[d.id] = shared_variable(c, d, type)
        return
    initial = next((i for i in d.inner if not i.kind.endswith("Attr")), None) if "init" in d.raw else None
    if d.raw.get("storageClass") == "static" and not _is_constant(d):
        c.refuse(d, f"the static variable `{d.name}` of a function")
    if isinstance(type, Reference):
        assert initial is not None
        c.places[d.id] = lvalue(c, initial)
    elif isinstance(type, Array):
        c.places[d.id] = constant_table(c, d, type, initial) or _array(c, d, type, initial)
    else:
        c.places[d.id] = _value(c, d, type, initial)


def _value(c: Context, d: Node, type: CType, initial: Node | None) -> Place:
    if isinstance(type, Record) and initial is not None and not address_escapes(c, d):
        made = construct_there(c, initial, type, d.id, d.name)
        if made is not None:
            return made
    value = expression(c, initial) if initial is not None else None
    fixed = not is_changed(c, d)
    if isinstance(type, Pointer) and fixed and value is not None and d.id not in c.facts.in_memory:
        return Fixed(keep_value(c, d.name, value))
    if isinstance(type, Opaque):
        if value is None:
            c.refuse(d, f"a variable of the type {type.name}")
        return Fixed(value)
    if address_escapes(c, d):
        target = array_target(c, d.name, Array(type, 1), "local", d.id)
        place = Element(type, Address(type, (target,)))
        if value is not None:
            store(c, d, place.address, _converted(c, value, type))
        return place
    place_made = declare(c, d, type, d.name, value, d.id)
    if fixed:
        note_range(c, place_made)
    return place_made


def _converted(c: Context, value: Value, type: CType) -> Value:
    if isinstance(value, Number) and isinstance(type, Scalar):
        return ar.convert(value, type, c.ranges)
    return value


def is_changed(c: Context, d: Node) -> bool:
    """Whether the variable is ever anything but read."""
    return d.id in changed_in(c, c.frame.function)


def changed_in(c: Context, function: Node) -> set[str]:
    kept: dict[str, set[str]] = c.unit.__dict__.setdefault("_changed", {})
    if function.id not in kept:
        found: set[str] = set()
        _collect_changed(function, found, False)
        kept[function.id] = found
    return kept[function.id]


def _collect_changed(n: Node, found: set[str], is_read: bool) -> None:
    if n.kind == "DeclRefExpr":
        if not is_read and n.referenced.get("kind") in ("VarDecl", "ParmVarDecl", "BindingDecl"):
            found.add(n.referenced["id"])
        return
    reads = n.kind == "ImplicitCastExpr" and n.raw.get("castKind") == "LValueToRValue"
    for i in n.inner:
        _collect_changed(i, found, reads or (is_read and n.kind in ("ParenExpr", "ConditionalOperator")))


def address_escapes(c: Context, d: Node) -> bool:
    """Whether the address of a local variable is used for more than a call, a place, or an assignment to it."""
    kept: dict[str, set[str]] = c.unit.__dict__.setdefault("_escaping", {})
    function = c.frame.function
    if function.id not in kept:
        kept[function.id] = set(_escaping(function))
    return d.id in kept[function.id]


def _escaping(function: Node) -> list[str]:
    found = []
    for n in function.walk():
        if n.kind != "VarDecl" and not (n.kind == "BinaryOperator" and n.raw.get("opcode") == "="):
            continue
        value = n.inner[-1] if n.inner else None
        while value is not None and value.kind in ("ImplicitCastExpr", "CStyleCastExpr", "ParenExpr"):
            value = value.inner[-1]
        if value is not None and value.kind == "UnaryOperator" and value.raw["opcode"] == "&":
            under = value.inner[0]
            if under.kind == "DeclRefExpr":
                found.append(under.referenced["id"])
    return found


def shared_variable(c: Context, d: Node, type: CType) -> Place:
    """Memory that the threads of a block share; ``extern`` arrays are all one, as large as the launch says."""
    if isinstance(type, Array) and type.count is None:
        key = "dynamic"
        if c.facts.has_window:
            c.facts.learn(c.facts.flat, "dynamic in window")
            unit = _unit(type.of)
            return Element(type, in_window(c, idx(c.facts.window_bytes // unit), type.of, unit))
        if key not in c.memories:
            c.memories[key] = Memory(d.name, "dynamic", type.of, (), key)
        return Element(type, Address(type.of, (Target(c.memories[key], ZERO, _unit(type.of)),)))
    whole = type if isinstance(type, Array) else Array(type, 1)
    target = array_target(c, d.name, whole, "shared", d.id)
    return Element(type, Address(type.of if isinstance(type, Array) else type, (target,)))


def _unit(type: CType) -> int:
    while isinstance(type, Array):
        type = type.of
    return type.size


def outer_variable(c: Context, n: Node, d: Node) -> Place:
    """A variable outside of functions: shared, constant or device memory, or a constant of the source."""
    type = c.type_of(d)
    c.check_read(n, d)
    if d.has("CUDASharedAttr"):
        return shared_variable(c, d, type)
    # clang itself puts constants that kernels use into constant memory: those are read from the source.
    marks = [i for i in d.inner if i.kind in ("CUDADeviceAttr", "CUDAConstantAttr", "HIPManagedAttr")]
    if any(not mark.raw.get("implicit") for mark in marks):
        return _symbol(c, d, type)
    constant = d.raw.get("constexpr") or "const" in d.raw.get("type", {}).get("qualType", "")
    initial = next((i for i in d.inner if not i.kind.endswith("Attr")), None) if "init" in d.raw else None
    if constant and initial is not None:
        if isinstance(type, Array):
            place = _array(c, d, type, initial)
            c.places[d.id] = place
            return place
        return Fixed(expression(c, initial))
    return c.refuse(n, f"`{d.name}` is a variable of the host")


def _symbol(c: Context, d: Node, type: CType) -> Place:
    element = type
    while isinstance(element, Array):
        element = element.of
    key = f"symbol {d.raw.get('mangledName', d.name)}"
    if key not in c.memories:
        size_name = c.fresh(f"{d.name}_bytes")
        c.memories[key] = Memory(d.name, "symbol", element, (), key, symbol=d.raw.get("mangledName", d.name),
                                 size_name=size_name)  # fmt: skip
    target = Target(c.memories[key], ZERO, element.size)
    return Element(type, Address(type.of if isinstance(type, Array) else type, (target,)))


def _array(c: Context, d: Node, type: Array, initial: Node | None) -> Place:
    target = array_target(c, d.name, type, "local", d.id)
    place = Element(type, Address(type.of, (target,)))
    if initial is not None and len(target.memory.dims) > 1:
        c.facts.learn(c.facts.flat, d.id)
    elif initial is not None:
        fill(c, d, place, initial)
    return place


def fill(c: Context, d: Node, place: Element, initial: Node) -> None:
    """The values that an array starts with; what is not named is zero."""
    type = place.type
    assert isinstance(type, Array)
    if initial.kind == "CXXConstructExpr":
        construct_elements(c, initial, place)
        return
    if initial.kind == "StringLiteral":
        for at, byte in enumerate(text_bytes(c, initial, type)):
            letter = _converted(c, ar.constant(INT, byte), type.of)
            store(c, d, advance(c, place.address, idx(at), type.of.size), letter)
        return
    given = array_values(initial)
    for at in range(type.count or 0):
        element = Element(type.of, Address(type.of, advance(c, place.address, idx(at), type.of.size).targets))
        value = given[at] if at < len(given) else None
        if isinstance(type.of, Array):
            if value is not None:
                fill(c, d, element, value)
            else:
                _zero_all(c, d, element)
        else:
            found = expression(c, value) if value is not None else zero_of(c, d, type.of)
            store(c, d, element.address, _converted(c, found, type.of))


def _zero_all(c: Context, d: Node, place: Element) -> None:
    type = place.type
    if isinstance(type, Array):
        for at in range(type.count or 0):
            _zero_all(c, d, Element(type.of, advance(c, place.address, idx(at), type.of.size)))
    else:
        store(c, d, place.address, zero_of(c, d, type))
