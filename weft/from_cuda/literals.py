"""Literals, names, members, subscripts and records: what expressions are made of."""

from __future__ import annotations

from weft.from_cuda import arithmetic as ar
from weft.from_cuda.context import Context
from weft.from_cuda.expressions import PLACES, VALUES, expression, lvalue, number
from weft.from_cuda.memory import advance
from weft.from_cuda.places import address_of, array_target, dereference, field_place, need_memory
from weft.from_cuda.types import (
    BOOL,
    INT,
    ULONG,
    Array,
    CType,
    Opaque,
    Pointer,
    Record,
    Reference,
    Scalar,
    has_union,
    parse_type,
)
from weft.from_cuda.unit import Node, enumerators
from weft.from_cuda.values import (
    ZERO,
    Address,
    Alias,
    Copy,
    Element,
    Fields,
    Fixed,
    FunctionValue,
    Nothing,
    Number,
    Place,
    Struct,
    Target,
    Value,
)
from weft.ir import dtype as dt
from weft.ir.expr import Const, const


def _integer(c: Context, n: Node) -> Value:
    type = c.type_of(n)
    assert isinstance(type, Scalar)
    return ar.constant(type, int(n.raw["value"]))


def _floating(c: Context, n: Node) -> Value:
    type = c.type_of(n)
    assert isinstance(type, Scalar)
    return Number(type, const(float(n.raw["value"]), type.dtype))


def _boolean(c: Context, n: Node) -> Value:
    return Number(BOOL, Const(bool(n.raw["value"]), dt.bool_))


def null(c: Context, n: Node) -> Value:
    type = c.type_of(n)
    if isinstance(type, Scalar):
        return ar.constant(type, 0)
    return Address(type.to if isinstance(type, Pointer) else type, ())


def _zero(c: Context, n: Node) -> Value:
    return zero_of(c, n, c.type_of(n))


def zero_of(c: Context, n: Node, type: CType) -> Value:
    match type:
        case Scalar():
            return ar.constant(type, 0)
        case Pointer():
            return Address(type.to, ())
        case Record():
            return Struct(type, {f.name: zero_of(c, n, f.type) for f in type.fields})
    return Nothing()


_BUILTIN_DIMS = ("threadIdx", "blockIdx", "blockDim", "gridDim")


def _name(c: Context, n: Node) -> Place:
    declared = n.referenced
    if not declared:
        c.refuse(n, "a name that is not declared")
    key, kind = declared["id"], declared["kind"]
    if key in c.places:
        return c.places[key]
    if key in c.failed:
        c.refuse(n, "")
    if declared["name"] in _BUILTIN_DIMS:
        return _builtin_dims(c, declared["name"])
    if declared["name"] == "warpSize":
        return Fixed(ar.constant(INT, 32))
    if kind == "EnumConstantDecl":
        return Fixed(_enumerator(c, n, key))
    node = c.unit.declaration(key)
    if kind in ("FunctionDecl", "CXXMethodDecl") and node is not None:
        return Fixed(FunctionValue(node))
    if node is not None and node.kind == "VarDecl":
        from weft.from_cuda.variables import outer_variable

        return outer_variable(c, n, node)
    return c.refuse(n, f"`{declared['name']}` is not known here")


def _builtin_dims(c: Context, name: str) -> Place:
    from weft.from_cuda.types import UINT

    record = c.unit.named("uint3")
    assert record is not None
    fields: dict[str, Place] = {a: Fixed(Number(UINT, e)) for a, e in zip("xyz", c.dims[name])}
    return Fields(Record("uint3", record, c.unit), fields)


def _enumerator(c: Context, n: Node, key: str) -> Number:
    node = c.unit.declaration(key)
    type = c.type_of(n)
    scalar = type if isinstance(type, Scalar) else INT
    if node is None or node.parent is None:
        c.refuse(n, "an enumerator that is not declared here")
    return ar.constant(scalar, enumerators(node.parent)[node.name])


def _member(c: Context, n: Node) -> Place:
    static = c.unit.declaration(str(n.raw.get("referencedMemberDecl")))
    if static is not None and static.kind == "VarDecl":
        from weft.from_cuda.variables import outer_variable

        return outer_variable(c, n, static)
    base = n.inner[0]
    if n.raw.get("isArrow"):
        value = expression(c, base)
        pointer = c.type_of(base)
        place = dereference(c, base, value, pointer.to if isinstance(pointer, Pointer) else Opaque("?"))
    else:
        place = lvalue(c, base)
    name = n.name
    if not name:
        name = f"anonymous {n.raw.get('referencedMemberDecl')}"
    return field_place(c, n, place, name)


def _subscript(c: Context, n: Node) -> Place:
    chain = _direct_chain(c, n)
    if chain is not None:
        return chain
    base, at = n.inner
    if isinstance(c.type_of(base), Scalar):
        base, at = at, base
    value = expression(c, base)
    index = ar.to_index(number(c, at), c.ranges)
    type = c.type_of(n)
    if isinstance(value, Alias):
        if isinstance(index, Const) and index.value == 0:
            return value.place
        need_memory(c, n, value, "a pointer to a single variable is subscripted")
    if not isinstance(value, Address):
        c.refuse(n, "something that is no pointer is subscripted")
    return Element(type, Address(type, advance(c, value, index, type.size).targets, value.which))


def _direct_chain(c: Context, n: Node) -> Place | None:
    """``a[i][j]`` of an array of two dimensions: an element by all its subscripts."""
    indices: list[Node] = []
    base = n
    while base.kind == "ArraySubscriptExpr":
        decay = base.inner[0]
        if decay.kind != "ImplicitCastExpr" or decay.raw.get("castKind") != "ArrayToPointerDecay":
            return None
        indices.insert(0, base.inner[1])
        base = decay.inner[0]
        while base.kind == "ParenExpr":
            base = base.inner[0]
    if base.kind != "DeclRefExpr" or len(indices) < 2:
        return None
    place = lvalue(c, base)
    if not isinstance(place, Element) or len(place.address.targets) != 1:
        return None
    target = place.address.targets[0]
    if target.indices is not None or len(target.memory.dims) != len(indices) or target.offset != ZERO:
        return None
    found = tuple(ar.to_index(number(c, i), c.ranges) for i in indices)
    type = c.type_of(n)
    return Element(type, Address(type, (Target(target.memory, ZERO, target.unit, target.extra, found),)))


def _list(c: Context, n: Node) -> Value:
    """``{a, b}`` for a record or a number; the arrays of declarations are filled elsewhere."""
    type = c.type_of(n)
    if isinstance(type, Record) and has_union(type) and n.inner:
        c.refuse(n, "a list of values for a union")
    if isinstance(type, Record):
        fields = {
            f.name: Alias(lvalue(c, i)) if isinstance(f.type, Reference) else expression(c, i)
            for f, i in zip(type.fields, n.inner)
        }
        for f in type.fields[len(n.inner) :]:
            fields[f.name] = zero_of(c, n, f.type)
        return Struct(type, fields)
    if isinstance(type, Array):
        return _listed_array(c, n, type)
    if isinstance(type, Opaque):
        c.refuse(n, f"values for the type {type.name}")
    if len(n.inner) == 1:
        return expression(c, n.inner[0])
    return zero_of(c, n, type)


def _listed_array(c: Context, n: Node, type: Array) -> Value:
    from weft.from_cuda.variables import fill

    key = f"listed {n.id}"
    if isinstance(type.of, Array):
        c.facts.learn(c.facts.flat, key)
    address = Address(type.of, (array_target(c, "listed", type, "local", key),))
    if len(address.targets[0].memory.dims) == 1:
        fill(c, n, Element(type, address), n)
    return Copy(type, address)


def type_text(raw: dict[str, str]) -> str:
    return raw.get("desugaredQualType") or raw["qualType"]


def _size(c: Context, n: Node) -> Value:
    if n.name not in ("sizeof", "alignof", "__alignof"):
        c.refuse(n, f"the operator {n.name}")
    argument = n.raw.get("argType")
    type = parse_type(type_text(argument), c.unit, n) if argument else c.type_of(n.inner[0])
    if isinstance(type, Reference):
        type = type.to
    return ar.constant(ULONG, type.size if n.name == "sizeof" else type.align)


def _this(c: Context, n: Node) -> Value:
    if c.frame.this is None:
        c.refuse(n, "`this` outside a method")
    return address_of(c, n, c.frame.this)


VALUES.update(
    {
        "IntegerLiteral": _integer,
        "CharacterLiteral": _integer,
        "FloatingLiteral": _floating,
        "CXXBoolLiteralExpr": _boolean,
        "CXXNullPtrLiteralExpr": null,
        "GNUNullExpr": null,
        "ImplicitValueInitExpr": _zero,
        "CXXScalarValueInitExpr": _zero,
        "InitListExpr": _list,
        "UnaryExprOrTypeTraitExpr": _size,
        "CXXThisExpr": _this,
    }
)
PLACES.update({"DeclRefExpr": _name, "MemberExpr": _member, "ArraySubscriptExpr": _subscript})
