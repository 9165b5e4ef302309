"""Conversions: of numbers, of pointers, of arrays to pointers, of records to their bases."""

from __future__ import annotations

from dataclasses import replace

from weft.from_cuda import arithmetic as ar
from weft.from_cuda.context import Context
from weft.from_cuda.expressions import PLACES, VALUES, condition, expression, lvalue, number
from weft.from_cuda.literals import null
from weft.from_cuda.memory import byte_address, flat
from weft.from_cuda.places import address_of, dereference, field_place, need_memory, read
from weft.from_cuda.types import (
    BOOL,
    Array,
    CType,
    Opaque,
    Pointer,
    Record,
    Scalar,
    Void,
)
from weft.from_cuda.unit import Node
from weft.from_cuda.values import (
    Address,
    Alias,
    Element,
    Fields,
    Fixed,
    Nothing,
    Number,
    Place,
    Struct,
    Value,
    Variable,
)
from weft.ir import dtype as dt
from weft.ir.expr import Var


def _cast(c: Context, n: Node) -> Value:
    kind, inner = n.raw.get("castKind", "NoOp"), n.inner[-1]
    if kind == "LValueToRValue":
        bare = inner.inner[0] if inner.kind == "ParenExpr" else inner
        return expression(c, bare) if bare.kind == "ConditionalOperator" else read(c, n, lvalue(c, inner))
    if kind == "ArrayToPointerDecay":
        return _decay(c, n, inner)
    if kind in ("IntegralCast", "FloatingCast", "IntegralToFloating", "FloatingToIntegral", "IntegralToBoolean",
                "FloatingToBoolean", "BooleanToSignedIntegral"):  # fmt: skip
        to, value = c.type_of(n), number(c, inner)
        assert isinstance(to, Scalar)
        if to.dtype == dt.uint32 and isinstance(value.expr, Var) and value.expr.name in c.numbers:
            return Number(to, c.unsigned_parameter(value.expr))
        return ar.convert(value, to, c.ranges)
    if kind == "PointerToBoolean":
        return Number(BOOL, condition(c, inner))
    if kind == "NullToPointer":
        return null(c, n)
    if kind == "ToVoid":
        expression(c, inner)
        return Nothing()
    if kind in ("BitCast", "AddressSpaceConversion"):
        return _cast_pointer(c, n, expression(c, inner))
    if kind == "PointerToIntegral":
        return _pointer_as_number(c, n, expression(c, inner))
    if kind in ("NoOp", "FunctionToPointerDecay", "BuiltinFnToFnPtr", "ConstructorConversion", "UserDefinedConversion",
                "Dependent"):  # fmt: skip
        return expression(c, inner)
    if kind in ("UncheckedDerivedToBase", "DerivedToBase"):
        return _to_base(c, n, inner)
    return c.refuse(n, f"a conversion of the kind {kind}")


def _pointer_as_number(c: Context, n: Node, value: Value) -> Value:
    """A pointer of the launch as a number of bytes: programs ask so how it is aligned."""
    to = c.type_of(n)
    if not isinstance(value, Address) or not isinstance(to, Scalar) or to.size != 8:
        return c.refuse(n, "a number made from a pointer to a variable, or one too small for it")
    return Number(to, c.keep("bytes", byte_address(c, n, value)))


def _to_base(c: Context, n: Node, inner: Node) -> Value:
    """A record, or a pointer to one, seen as its base class."""
    type = c.type_of(n)
    if isinstance(type, Pointer):
        value = expression(c, inner)
        under = dereference(c, n, value, c.type_of(inner).to)  # type: ignore[union-attr]
        return address_of(c, n, _base_place(c, n, under, type.to))
    return read(c, n, _base_place(c, n, lvalue(c, inner), type))


def _base_place(c: Context, n: Node, place: Place, base: CType) -> Place:
    if not isinstance(base, Record) or not base.fields:
        return place
    whole = place.type if isinstance(place, (Fields, Element)) else None
    while isinstance(whole, Record) and whole != base:
        step = next((f for f in whole.fields if isinstance(f.type, Record) and _inherits(f.type, base)), None)
        if step is None:
            break
        place, whole = field_place(c, n, place, step.name), step.type
    return place


def _inherits(type: Record, base: Record) -> bool:
    return type == base or any(isinstance(f.type, Record) and _inherits(f.type, base) for f in type.fields)


def _decay(c: Context, n: Node, inner: Node) -> Value:
    place = lvalue(c, inner.inner[-1] if inner.kind == "PredefinedExpr" and inner.inner else inner)
    if not isinstance(place, Element) or not isinstance(place.type, Array):
        c.refuse(n, "an array that is no memory")
    targets = tuple(flat(c, t) for t in place.address.targets)
    return Address(place.type.of, targets, place.address.which)


def _cast_pointer(c: Context, n: Node, value: Value) -> Value:
    type = c.type_of(n)
    if isinstance(value, Address) and isinstance(type, Pointer):
        return replace(value, to=type.to)
    if isinstance(value, Alias) and isinstance(type, Pointer):
        return _retyped(c, n, value, type.to)
    return value


def _retyped(c: Context, n: Node, value: Alias, to: CType) -> Value:
    """``*(int *)&x``: the bits of a variable."""
    from weft.from_cuda.memory import reinterpret

    place = value.place
    if isinstance(place, (Variable, Fixed)) and isinstance(to, Scalar):
        held = read(c, n, place)
        if isinstance(held, Number) and held.type.size == to.size and _is_read(n):
            return Alias(Fixed(Number(to, reinterpret(ar.stored(held), to.dtype))))
    if _held_type(place) == to or isinstance(to, (Void, Opaque)):
        return value
    return need_memory(c, n, value, f"the address of a variable as one of {to}")


def _is_read(n: Node) -> bool:
    """Whether what a converted address points to is read at once, and nothing else is done with it."""
    above = n.parent
    while above is not None and (
        above.kind == "ParenExpr" or (above.kind == "UnaryOperator" and above.raw["opcode"] == "*")
    ):
        above = above.parent
    return above is not None and above.raw.get("castKind") == "LValueToRValue"


def _held_type(place: Place) -> CType | None:
    """What a variable is of."""
    if isinstance(place, Fixed):
        return place.value.type if isinstance(place.value, (Number, Struct)) else None
    return place.type if isinstance(place, (Variable, Fields)) else None


def _cast_place(c: Context, n: Node) -> Place:
    kind, inner = n.raw.get("castKind", "NoOp"), n.inner[-1]
    if kind == "NoOp":
        return lvalue(c, inner)
    if kind in ("UncheckedDerivedToBase", "DerivedToBase"):
        return _base_place(c, n, lvalue(c, inner), c.type_of(n))
    if kind == "LValueBitCast":
        place = lvalue(c, inner)
        type = c.type_of(n)
        if isinstance(place, Element):
            return Element(type, Address(type, place.address.targets, place.address.which))
        found = _retyped(c, n, Alias(place), type)
        return found.place if isinstance(found, Alias) else place
    return Fixed(expression(c, n))


def _bit_cast(c: Context, n: Node) -> Value:
    """``__builtin_bit_cast(int, x)``: the bits of a number."""
    from weft.from_cuda.memory import reinterpret

    held, to = read(c, n, lvalue(c, n.inner[-1])), c.type_of(n)
    if not isinstance(held, Number) or not isinstance(to, Scalar):
        return c.refuse(n, "the bits of something that is no number")
    return Number(to, reinterpret(ar.stored(held), to.dtype))


VALUES["BuiltinBitCastExpr"] = _bit_cast
for _kind in (
    "ImplicitCastExpr", "CStyleCastExpr", "CXXStaticCastExpr", "CXXFunctionalCastExpr", "CXXReinterpretCastExpr",
    "CXXConstCastExpr",
):  # fmt: skip
    VALUES[_kind], PLACES[_kind] = _cast, _cast_place
