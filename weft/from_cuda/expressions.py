"""Expressions: a function for each kind of node that clang makes of them."""

from __future__ import annotations

from collections.abc import Callable

from weft.from_cuda import arithmetic as ar
from weft.from_cuda.context import Context, Item, close, negate
from weft.from_cuda.memory import address_value, advance, difference, flat, on_heap
from weft.from_cuda.places import address_of, array_target, assign, declare, dereference, field_place, keep_value, read
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
    parse_type,
)
from weft.from_cuda.unit import Node
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
    Text,
    Value,
    Variable,
)
from weft.ir import dtype as dt
from weft.ir.expr import Binary, Compare, Const, Expr, Select, Var, const, idx
from weft.ir.stmt import Assign, If

#: Nodes that stand for what is below them.
_THROUGH = frozenset({
    "ParenExpr", "ExprWithCleanups", "MaterializeTemporaryExpr", "ConstantExpr", "SubstNonTypeTemplateParmExpr",
    "CXXBindTemporaryExpr", "CXXDefaultArgExpr", "CXXDefaultInitExpr", "FullExpr", "CXXStdInitializerListExpr",
})  # fmt: skip
_CASTS = frozenset({
    "ImplicitCastExpr", "CStyleCastExpr", "CXXStaticCastExpr", "CXXFunctionalCastExpr", "CXXReinterpretCastExpr",
    "CXXConstCastExpr",
})  # fmt: skip


def expression(c: Context, n: Node) -> Value:
    """The value of an expression; what it does besides is written down first."""
    if n.kind in _THROUGH:
        return _through(c, n, expression)
    if n.kind in _CASTS:
        return _cast(c, n)
    found = _VALUES.get(n.kind)
    if found is not None:
        return found(c, n)
    if n.kind in _PLACES:
        return read(c, n, lvalue(c, n))
    if n.kind == "RecoveryExpr":
        c.refuse(n, "clang could not read this")
    return c.refuse(n, f"expressions of the kind {n.kind}")


def _through(c: Context, n: Node, go: Callable[[Context, Node], Value]) -> Value:
    inner = [i for i in n.inner if i.kind not in ("NonTypeTemplateParmDecl", "TemplateArgument")]
    if n.kind == "CXXDefaultArgExpr" and not inner:
        c.refuse(n, "a default argument that this clang does not show")
    return go(c, inner[-1])


def lvalue(c: Context, n: Node) -> Place:
    """The place that an expression names."""
    if n.kind in _THROUGH:
        if n.kind == "MaterializeTemporaryExpr":
            return _temporary(c, n)
        return lvalue(c, n.inner[-1])
    if n.kind in _CASTS:
        return _cast_place(c, n)
    found = _PLACES.get(n.kind)
    if found is not None:
        return found(c, n)
    if n.raw.get("valueCategory") == "lvalue" and n.kind in ("CallExpr", "CXXMemberCallExpr", "CXXOperatorCallExpr"):
        from weft.from_cuda.calls import call_place

        return call_place(c, n)
    return Fixed(expression(c, n))


def _temporary(c: Context, n: Node) -> Place:
    inner = n.inner[-1]
    return Fixed(keep_value(c, "temporary", expression(c, inner)))


def number(c: Context, n: Node) -> Number:
    """An expression that is a number."""
    value = expression(c, n)
    if not isinstance(value, Number):
        c.refuse(n, "a number is needed here")
    return value


def condition(c: Context, n: Node) -> Expr:
    """An expression as a condition."""
    value = expression(c, n)
    if isinstance(value, Address):
        return _is_not_null(c, n, value)
    if not isinstance(value, Number):
        c.refuse(n, "a condition that is no number")
    return ar.truth(value)


def _is_not_null(c: Context, n: Node, value: Address) -> Expr:
    """Whether a pointer is not null: those into an array are not; an argument may be."""
    if value.is_null:
        return Const(False, dt.bool_)
    (target, *others) = value.targets
    if not others and target.memory.kind == "heap":
        return Compare("!=", target.offset, ZERO)
    if others or target.memory.kind != "argument":
        return Const(True, dt.bool_)
    return Compare(">", Var(target.memory.size_name, dt.index), ZERO)


# ---- literals and names


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


def _null(c: Context, n: Node) -> Value:
    type = c.type_of(n)
    if isinstance(type, Scalar):
        return ar.constant(type, 0)
    return Address(type.to if isinstance(type, Pointer) else type, ())


def _text(c: Context, n: Node) -> Value:
    import ast

    raw = str(n.raw.get("value", '""')).lstrip("uUL8")
    try:
        return Text(str(ast.literal_eval(raw)))
    except (SyntaxError, ValueError):
        return Text(raw.strip('"'))


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

    record = c.unit.record("uint3")
    assert record is not None
    fields: dict[str, Place] = {a: Fixed(Number(UINT, e)) for a, e in zip("xyz", c.dims[name])}
    return Fields(Record("uint3", record, c.unit), fields)


def _enumerator(c: Context, n: Node, key: str) -> Number:
    node = c.unit.declaration(key)
    type = c.type_of(n)
    scalar = type if isinstance(type, Scalar) else INT
    if node is None or node.parent is None:
        c.refuse(n, "an enumerator that is not declared here")
    value = -1
    for e in node.parent.inner:
        if e.kind != "EnumConstantDecl":
            continue
        given = next((i.raw["value"] for i in e.walk() if "value" in i.raw), None)
        value = int(given) if given is not None else value + 1
        if e is node:
            break
    return ar.constant(scalar, value)


# ---- members and subscripts


def _member(c: Context, n: Node) -> Place:
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
        c.refuse(n, "a pointer to a single variable is subscripted")
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


# ---- casts


def _cast(c: Context, n: Node) -> Value:
    kind, inner = n.raw.get("castKind", "NoOp"), n.inner[-1]
    if kind == "LValueToRValue":
        return read(c, n, lvalue(c, inner))
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
        return _null(c, n)
    if kind == "ToVoid":
        expression(c, inner)
        return Nothing()
    if kind in ("BitCast", "AddressSpaceConversion"):
        return _cast_pointer(c, n, expression(c, inner))
    if kind in ("NoOp", "FunctionToPointerDecay", "BuiltinFnToFnPtr", "ConstructorConversion", "UserDefinedConversion",
                "Dependent"):  # fmt: skip
        return expression(c, inner)
    if kind in ("UncheckedDerivedToBase", "DerivedToBase"):
        return _to_base(c, n, inner)
    return c.refuse(n, f"a conversion of the kind {kind}")


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
    if inner.kind in ("StringLiteral", "PredefinedExpr"):
        return _text(c, inner)
    place = lvalue(c, inner)
    if not isinstance(place, Element) or not isinstance(place.type, Array):
        c.refuse(n, "an array that is no memory")
    targets = tuple(flat(c, t) for t in place.address.targets)
    return Address(place.type.of, targets, place.address.which)


def _cast_pointer(c: Context, n: Node, value: Value) -> Value:
    type = c.type_of(n)
    if isinstance(value, Address) and isinstance(type, Pointer):
        return Address(type.to, value.targets, value.which)
    if isinstance(value, Alias) and isinstance(type, Pointer):
        return _retyped(c, n, value, type.to)
    return value


def _retyped(c: Context, n: Node, value: Alias, to: CType) -> Value:
    """``*(int *)&x``: the bits of a variable."""
    from weft.from_cuda.memory import reinterpret

    place = value.place
    if isinstance(place, (Variable, Fixed)) and isinstance(to, Scalar):
        held = read(c, n, place)
        if isinstance(held, Number) and held.type.size == to.size:
            return Alias(Fixed(Number(to, reinterpret(ar.stored(held), to.dtype))))
    return value


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


# ---- operators


def _unary(c: Context, n: Node) -> Value:
    op, inner = n.raw["opcode"], n.inner[0]
    match op:
        case "&":
            return address_of(c, n, lvalue(c, inner))
        case "*":
            return read(c, n, lvalue(c, n))
        case "!":
            return Number(BOOL, negate(condition(c, inner)))
        case "-":
            return ar.negative(number(c, inner))
        case "+" | "__extension__":
            return expression(c, inner)
        case "~":
            return ar.complement(number(c, inner))
        case "++" | "--":
            return _step(c, n, op, inner)
    return c.refuse(n, f"the operator {op}")


def _step(c: Context, n: Node, op: str, inner: Node) -> Value:
    place = lvalue(c, inner)
    before = keep_value(c, "before", read(c, n, place)) if n.raw.get("isPostfix") else read(c, n, place)
    assign(c, n, place, _plus_one(c, n, before, 1 if op == "++" else -1))
    return before if n.raw.get("isPostfix") else read(c, n, place)


def _plus_one(c: Context, n: Node, value: Value, by: int) -> Value:
    if isinstance(value, Address):
        return advance(c, value, idx(by), value.to.size)
    if not isinstance(value, Number):
        c.refuse(n, "++ or -- of what is no number or pointer")
    if value.type.is_integer:
        return ar.binary("+", value, ar.constant(value.type, by), value.type, c.ranges)
    return ar.binary("+", value, Number(value.type, const(float(by), value.type.dtype)), value.type, c.ranges)


def _deref(c: Context, n: Node) -> Place:
    if n.raw["opcode"] == "*":
        value = expression(c, n.inner[0])
        if isinstance(value, FunctionValue):
            return Fixed(value)
        return dereference(c, n, value, c.type_of(n))
    if n.raw["opcode"] in ("++", "--"):
        _step(c, n, n.raw["opcode"], n.inner[0])
        return lvalue(c, n.inner[0])
    return Fixed(_unary(c, n))


def _binary(c: Context, n: Node) -> Value:
    op = n.raw["opcode"]
    if op == "=":
        return _assignment(c, n)
    if op == ",":
        expression(c, n.inner[0])
        return expression(c, n.inner[1])
    if op in ("&&", "||"):
        return Number(BOOL, _short_circuit(c, n, op))
    left, right = expression(c, n.inner[0]), expression(c, n.inner[1])
    if isinstance(left, Address) or isinstance(right, Address):
        return _pointer_arithmetic(c, n, op, left, right)
    if not isinstance(left, Number) or not isinstance(right, Number):
        c.refuse(n, f"the operator {op} of what are no numbers")
    type = c.type_of(n)
    assert isinstance(type, Scalar)
    return ar.binary(op, left, right, type, c.ranges)


def _short_circuit(c: Context, n: Node, op: str) -> Expr:
    left = condition(c, n.inner[0])
    with c.scope() as items:
        right = condition(c, n.inner[1])
    if isinstance(left, Const) and (not items or bool(left.value) == (op == "&&")):
        if bool(left.value) != (op == "&&"):
            return left
        c.items.extend(items)
        return right
    if not items:
        return Binary("&&" if op == "&&" else "||", left, right)
    result = c.let("both" if op == "&&" else "either", left)
    items.append(Assign(result, right, span=c.span))
    c.emit(If(result if op == "&&" else negate(result), close(items), span=c.span))
    return result


def _pointer_arithmetic(c: Context, n: Node, op: str, left: Value, right: Value) -> Value:
    if op in ("+", "-") and isinstance(right, Number) and isinstance(left, Address):
        by = ar.to_index(right, c.ranges)
        return advance(c, left, by if op == "+" else ar.negative(Number(right.type, by)).expr, left.to.size)
    if op == "+" and isinstance(left, Number) and isinstance(right, Address):
        return advance(c, right, ar.to_index(left, c.ranges), right.to.size)
    if not isinstance(left, Address) or not isinstance(right, Address):
        c.refuse(n, f"the operator {op} of a pointer and a variable's address")
    if op == "-":
        from weft.from_cuda.types import LONG

        return Number(LONG, difference(c, n, left, right, left.to.size))
    if left.is_null or right.is_null:
        known = _is_not_null(c, n, right if left.is_null else left)
        return Number(BOOL, known if op == "!=" else negate(known))
    if len(left.targets) > 1 or len(right.targets) > 1 or left.targets[0].memory is not right.targets[0].memory:
        left, right = (on_heap(c, address_value(c, n, x), x.to) for x in (left, right))
    distance = difference(c, n, left, right, 1)
    return Number(BOOL, Compare(op, distance, ZERO))  # type: ignore[arg-type]


def _assignment(c: Context, n: Node) -> Value:
    value = expression(c, n.inner[1])
    place = lvalue(c, n.inner[0])
    assign(c, n, place, value)
    return value


def _compound(c: Context, n: Node) -> Value:
    place, op = lvalue(c, n.inner[0]), n.raw["opcode"][:-1]
    right = expression(c, n.inner[1])
    before = read(c, n, place)
    if isinstance(before, Address):
        value = _pointer_arithmetic(c, n, op, before, right)
        assign(c, n, place, value)
        return value
    if not isinstance(before, Number) or not isinstance(right, Number):
        c.refuse(n, f"{n.raw['opcode']} of what are no numbers")
    computed = parse_type(_type_text(n.raw.get("computeResultType", n.raw["type"])), c.unit)
    left_type = parse_type(_type_text(n.raw.get("computeLHSType", n.raw["type"])), c.unit)
    assert isinstance(computed, Scalar)
    assert isinstance(left_type, Scalar)
    left = ar.convert(before, left_type, c.ranges)
    value = ar.convert(ar.binary(op, left, right, computed, c.ranges), before.type, c.ranges)
    assign(c, n, place, value)
    return value


def _type_text(raw: dict[str, str]) -> str:
    return raw.get("desugaredQualType") or raw["qualType"]


def _compound_place(c: Context, n: Node) -> Place:
    if n.kind == "BinaryOperator" and n.raw["opcode"] == ",":
        expression(c, n.inner[0])
        return lvalue(c, n.inner[1])
    if n.kind == "BinaryOperator" and n.raw["opcode"] != "=":
        return Fixed(_binary(c, n))
    (_compound if n.kind == "CompoundAssignOperator" else _assignment)(c, n)
    return lvalue(c, n.inner[0])


def _conditional(c: Context, n: Node) -> Value:
    test = condition(c, n.inner[0])
    with c.scope() as then_items:
        then = expression(c, n.inner[1])
    with c.scope() as else_items:
        otherwise = expression(c, n.inner[2])
    if isinstance(test, Const):
        c.items.extend(then_items if test.value else else_items)
        return then if test.value else otherwise
    if not then_items and not else_items:
        return choose(c, n, test, then, otherwise)
    return _conditional_with_effects(c, n, test, (then_items, then), (else_items, otherwise))


def choose(c: Context, n: Node, test: Expr, then: Value, otherwise: Value) -> Value:
    """One of two values."""
    match then, otherwise:
        case Number(), Number():
            return ar.select(test, then, otherwise, c.ranges)
        case Address(), Address():
            return _choose_address(c, test, then, otherwise)
        case Struct(), Struct():
            fields = {k: choose(c, n, test, v, otherwise.fields[k]) for k, v in then.fields.items()}
            return Struct(then.type, fields)
        case Nothing(), Nothing():
            return then
    return c.refuse(n, "a choice between two things of this kind")


def _choose_address(c: Context, test: Expr, then: Address, otherwise: Address) -> Address:
    if then.is_null or otherwise.is_null:
        return otherwise if then.is_null else then
    if len(then.targets) == 1 and len(otherwise.targets) == 1:
        a, b = (flat(c, x.targets[0]) for x in (then, otherwise))
        if a.memory is b.memory and a.unit == b.unit and a.extra == b.extra:
            return Address(then.to, (Target(a.memory, Select(test, a.offset, b.offset), a.unit, a.extra),))
    which = Select(test, then.which or ZERO, ar.fold(Binary("+", otherwise.which or ZERO, idx(len(then.targets)))))
    targets = tuple(flat(c, t) for t in (*then.targets, *otherwise.targets))
    return Address(then.to, targets, c.keep("which", which))


def _conditional_with_effects(
    c: Context,
    n: Node,
    test: Expr,
    then: tuple[list[Item], Value],
    otherwise: tuple[list[Item], Value],
) -> Value:
    type = c.type_of(n)
    if isinstance(then[1], Nothing) or isinstance(otherwise[1], Nothing):
        c.emit(If(test, close(then[0]), close(otherwise[0]), span=c.span))
        return Nothing()
    place = declare(c, n, type, "chosen", None, f"chosen {n.id}")
    branches = []
    for items, value in (then, otherwise):
        with c.scope() as more:
            c.items.extend(items)
            assign(c, n, place, value)
        branches.append(close(more))
    c.emit(If(test, branches[0], branches[1], span=c.span))
    return read(c, n, place)


# ---- records, sizes


def _list(c: Context, n: Node) -> Value:
    """``{a, b}`` for a record or a number; the arrays of declarations are filled elsewhere."""
    type = c.type_of(n)
    if isinstance(type, Record):
        given = [expression(c, i) for i in n.inner]
        fields = {f.name: v for f, v in zip(type.fields, given)}
        for f in type.fields[len(given) :]:
            fields[f.name] = zero_of(c, n, f.type)
        return Struct(type, fields)
    if isinstance(type, Array):
        return _listed_array(c, n, type)
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


def _size(c: Context, n: Node) -> Value:
    if n.name not in ("sizeof", "alignof", "__alignof"):
        c.refuse(n, f"the operator {n.name}")
    argument = n.raw.get("argType")
    type = parse_type(_type_text(argument), c.unit) if argument else c.type_of(n.inner[0])
    if isinstance(type, Reference):
        type = type.to
    return ar.constant(ULONG, type.size if n.name == "sizeof" else type.align)


def _this(c: Context, n: Node) -> Value:
    if c.frame.this is None:
        c.refuse(n, "`this` outside a method")
    return address_of(c, n, c.frame.this)


def _calls(name: str) -> Callable[[Context, Node], Value]:
    def go(c: Context, n: Node) -> Value:
        from weft.from_cuda import calls

        return getattr(calls, name)(c, n)  # type: ignore[no-any-return]

    return go


_VALUES: dict[str, Callable[[Context, Node], Value]] = {
    "IntegerLiteral": _integer,
    "CharacterLiteral": _integer,
    "FloatingLiteral": _floating,
    "CXXBoolLiteralExpr": _boolean,
    "CXXNullPtrLiteralExpr": _null,
    "GNUNullExpr": _null,
    "StringLiteral": _text,
    "ImplicitValueInitExpr": _zero,
    "CXXScalarValueInitExpr": _zero,
    "UnaryOperator": _unary,
    "BinaryOperator": _binary,
    "CompoundAssignOperator": _compound,
    "ConditionalOperator": _conditional,
    "InitListExpr": _list,
    "UnaryExprOrTypeTraitExpr": _size,
    "CXXThisExpr": _this,
    "CallExpr": _calls("call"),
    "CXXMemberCallExpr": _calls("call"),
    "CXXOperatorCallExpr": _calls("call"),
    "CXXConstructExpr": _calls("construct"),
    "CXXTemporaryObjectExpr": _calls("construct"),
    "LambdaExpr": _calls("closure"),
}
_PLACES: dict[str, Callable[[Context, Node], Place]] = {
    "DeclRefExpr": _name,
    "MemberExpr": _member,
    "ArraySubscriptExpr": _subscript,
    "UnaryOperator": _deref,
    "BinaryOperator": _compound_place,
    "CompoundAssignOperator": _compound_place,
}
