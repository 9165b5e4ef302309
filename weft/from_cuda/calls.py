"""Calls: functions are written out where they are called; those of CUDA itself are known by name."""

from __future__ import annotations

from dataclasses import dataclass

from weft.from_cuda.arithmetic import convert
from weft.from_cuda.bytes_moved import repeat
from weft.from_cuda.closures import captured
from weft.from_cuda.context import Binding, Context, Frame, close
from weft.from_cuda.expressions import PLACES, VALUES, expression, lvalue
from weft.from_cuda.functions import FUNCTIONS
from weft.from_cuda.literals import zero_of
from weft.from_cuda.memory import advance, flat
from weft.from_cuda.places import assign, declare, dereference, field_place, keep_value, read
from weft.from_cuda.types import Array, CType, Opaque, Pointer, Record, Reference, Scalar, Void, parse_type
from weft.from_cuda.unit import Node
from weft.from_cuda.values import Address, Element, Fields, Fixed, FunctionValue, Nothing, Number, Place, Value
from weft.ir.expr import Expr, idx

#: Functions inside functions, from which on it is taken for a recursion.
_DEPTH = 64


#: Functions of the standard library that are their argument: clang has them built in, without a body.
_SAME = frozenset({"move", "forward", "move_if_noexcept", "as_const"})


def call(c: Context, n: Node) -> Value:
    """What a call gives."""
    function, this, arguments = _callee(c, n)
    if function.name == "operator=" and this is not None and _is_made_by_compiler(function):
        assign(c, n, this, read(c, n, lvalue(c, arguments[0])))
        return _Reference(this)
    if function.body is None:
        function = c.unit.definition(function)
    if function.name in _SAME and function.body is None and _is_of_the_standard_library(function):
        return _Reference(lvalue(c, arguments[0]))
    known = FUNCTIONS.get(function.name)
    if known is not None and function.body is None:
        return known(c, n, arguments)
    if function.body is None:
        c.refuse(n, f"the function `{function.name}` has no body here")
    return inline(c, n, function, this, arguments)


def _is_of_the_standard_library(function: Node) -> bool:
    above = function.parent
    while above is not None and above.kind != "NamespaceDecl":
        above = above.parent
    return above is not None and above.name == "std"


def _is_made_by_compiler(function: Node) -> bool:
    return bool(function.raw.get("isImplicit") or function.raw.get("explicitlyDefaulted"))


def call_place(c: Context, n: Node) -> Place:
    """The place that a call of a function returning a reference gives."""
    value = call(c, n)
    if isinstance(value, _Reference):
        return value.place
    return Fixed(value)


@dataclass(frozen=True, slots=True)
class _Reference(Nothing):
    """A reference as what a function gives."""

    place: Place


def _callee(c: Context, n: Node) -> tuple[Node, Place | None, list[Node]]:
    """The function that is called, the object it is called on, and the arguments."""
    head, *arguments = n.inner
    bare = head
    while bare.kind in ("ImplicitCastExpr", "ParenExpr"):
        bare = bare.inner[-1]
    if n.kind == "CXXMemberCallExpr":
        method = _method(c, n, bare)
        return method, _object(c, bare, method), arguments
    if bare.kind == "MemberExpr":  # a static method, by an object of its class
        _object(c, bare)
        return _method(c, n, bare), None, arguments
    value = expression(c, _function_of_template(head))
    if not isinstance(value, FunctionValue):
        c.refuse(n, "a call through a pointer to a function")
    function = value.node
    if n.kind == "CXXOperatorCallExpr" and function.kind == "CXXMethodDecl":
        return function, lvalue(c, arguments[0]), arguments[1:]
    return function, None, arguments


def _function_of_template(head: Node) -> Node:
    """What is called, where that is a template's argument: the function that it was made with."""
    found = head
    while found.inner and (
        found.kind in ("ImplicitCastExpr", "ParenExpr", "SubstNonTypeTemplateParmExpr")
        or (found.kind == "UnaryOperator" and found.raw.get("opcode") in ("&", "*"))
    ):
        found = found.inner[-1]
    is_argument = any(n.kind == "SubstNonTypeTemplateParmExpr" for n in head.walk())
    return found if is_argument and found.kind == "DeclRefExpr" else head


def _method(c: Context, n: Node, member: Node) -> Node:
    found = c.unit.declaration(str(member.raw.get("referencedMemberDecl")))
    if found is None:
        c.refuse(n, f"the method `{member.name}` is not known")
    if found.raw.get("virtual"):
        c.refuse(n, f"the virtual function `{member.name}`")
    return found


def _object(c: Context, member: Node, method: Node | None = None) -> Place:
    """What a method is called on; a temporary that the method changes is a variable."""
    base = member.inner[0]
    if base.kind == "MaterializeTemporaryExpr" and method is not None and _changes_its_object(method):
        return declare(c, base, c.type_of(base), "temporary", expression(c, base.inner[-1]), f"temporary {base.id}")
    if member.raw.get("isArrow"):
        type = c.type_of(base)
        return dereference(c, base, expression(c, base), type.to if isinstance(type, Pointer) else Opaque("?"))
    return lvalue(c, base)


def _changes_its_object(method: Node) -> bool:
    return any(
        i.kind == "CompoundAssignOperator"
        or (i.kind == "BinaryOperator" and i.raw.get("opcode") == "=")
        or (i.kind == "UnaryOperator" and i.raw.get("opcode") in ("++", "--"))
        for i in method.walk()
        if i.inner and _is_part_of_this(i.inner[0])
    )


def _is_part_of_this(n: Node) -> bool:
    while n.inner and n.kind in ("MemberExpr", "ParenExpr", "ArraySubscriptExpr", "ImplicitCastExpr"):
        if n.raw.get("castKind") == "LValueToRValue":
            return False
        n = n.inner[0]
    return n.kind == "CXXThisExpr"


def inline(c: Context, n: Node, function: Node, this: Place | None, arguments: list[Node]) -> Value:
    """The statements of ``function`` here, with its parameters bound to ``arguments``."""
    if len(c.frames) > _DEPTH or sum(f.function is function for f in c.frames) > 1:
        c.refuse(n, f"`{function.name}` calls itself")
    c.check_read(n, function)
    outer = dict(c.places)
    bound = _bind(c, function, arguments)
    frame = Frame(function, False, (c.items, len(c.items)), this=this)
    c.frames.append(frame)
    copies = dict(this.value.captured) if isinstance(this, Fixed) and isinstance(this.value, FunctionValue) else {}
    held, frame.this = captured(c, n, this)
    copies |= held
    c.places.update(copies | bound)
    _declare_changed(c, function, bound)
    before = len(c.items)
    try:
        value = _run(c, n, frame, function)
        if not isinstance(value, Nothing) and not all(isinstance(i, Binding) for i in c.items[before:]):
            value = keep_value(c, function.name, value)  # a later call may change what it is made of
        return value
    finally:
        c.frames.pop()
        c.places = outer | {k: v for k, v in c.places.items() if k in outer and k not in copies}


def _declare_changed(c: Context, function: Node, bound: dict[str, Place]) -> None:
    """Parameters that a function changes, or that must be memory, are variables."""
    for p, (key, place) in zip(function.parameters, bound.items()):
        is_variable = key in _changed(c, function) or key in c.facts.in_memory
        if is_variable and isinstance(place, Fixed) and isinstance(c.type_of(p), (Scalar, Record, Pointer)):
            c.places[key] = declare(c, p, c.type_of(p), p.name, place.value, p.id)


def _changed(c: Context, function: Node) -> set[str]:
    from weft.from_cuda.variables import changed_in

    return changed_in(c, function)


def _run(c: Context, n: Node, frame: Frame, function: Node) -> Value:
    from weft.from_cuda.statements import block

    body = function.body
    assert body is not None
    type = _result_type(c, function)
    if isinstance(type, Void):
        with c.scope() as items:
            frame.start = (items, 0)
            block(c, body.inner)
        if items:
            c.emit(close(items))
        return Nothing()
    last = body.inner[-1] if body.inner else None
    returns = [i for i in _own_nodes(body) if i.kind == "ReturnStmt"]
    if len(returns) == 1 and returns[0] is last:
        frame.is_simple = True
        frame.start = (c.items, len(c.items))
        block(c, body.inner)
        if frame.value is None:
            c.refuse(n, f"`{function.name}` could not be written out here")
        return frame.value
    if isinstance(type, Reference):
        if not function.raw["type"]["qualType"].startswith("const "):
            c.refuse(n, f"`{function.name}`, which returns a reference at several places")
        type = type.to  # what is only read may be a copy
    frame.result = declare(c, n, type, f"{function.name}_result", None, f"result {function.id}")
    with c.scope() as items:
        frame.start = (items, 0)
        block(c, body.inner)
    c.emit(close(items))
    return keep_value(c, function.name, read(c, n, frame.result))


def _own_nodes(n: Node) -> list[Node]:
    found = [n]
    for i in n.inner:
        if i.kind != "LambdaExpr":
            found += _own_nodes(i)
    return found


def _result_type(c: Context, function: Node) -> CType:
    text = function.raw["type"].get("desugaredQualType") or function.raw["type"]["qualType"]
    text = text.replace("(anonymous namespace)::", "")
    depth, at = 0, len(text)
    for i, ch in enumerate(text):
        depth += (ch == "<") - (ch == ">")
        if ch == "(" and depth == 0:
            at = i
            break
    if "auto (" in text and "->" in text:
        return parse_type(text.split("->")[-1], c.unit, function)
    found = parse_type(text[:at], c.unit, function)
    if isinstance(found, Opaque):  # a name that only the call knows the meaning of
        returned = next((i for i in function.walk() if i.kind == "ReturnStmt" and i.inner), None)
        return c.type_of(returned.inner[0]) if returned is not None else found
    return found


def returned_value(c: Context, n: Node) -> Value:
    """What a return statement gives: a place for a function that returns a reference."""
    if isinstance(_result_type(c, c.frame.function), Reference) and c.frame.result is None:
        return _Reference(lvalue(c, n))
    return expression(c, n)


def _bind(c: Context, function: Node, arguments: list[Node]) -> dict[str, Place]:
    """The parameters: references are the caller's places, values are kept as they are now."""
    bound: dict[str, Place] = {}
    for p, a in zip(function.parameters, arguments):
        type = c.type_of(p)
        if isinstance(type, Reference):
            bound[p.id] = lvalue(c, a)
            continue
        value = expression(c, a)
        if isinstance(value, _Reference):
            value = read(c, a, value.place)
        if isinstance(value, Number) and isinstance(type, Scalar):
            value = convert(value, type, c.ranges)
        bound[p.id] = Fixed(keep_value(c, p.name or "argument", value))
    return bound


def construct(c: Context, n: Node) -> Value:
    """A record made by a constructor."""
    type = c.type_of(n)
    if not isinstance(type, Record):
        return zero_of(c, n, type)
    arguments = [a for a in n.inner if a.kind != "CXXDefaultArgExpr" or a.inner]
    if len(arguments) == 1 and _is_copy(c, arguments[0], type):
        return read(c, n, lvalue(c, arguments[0]))
    constructor = _constructor(c, n, type)
    if constructor is None or (constructor.body is None and constructor.raw.get("isImplicit", True)):
        return zero_of(c, n, type)
    place = declare(c, n, type, type.name.split("::")[-1].split("<")[0], None, f"made {n.id}")
    run_constructor(c, n, constructor, place, n.inner)
    return read(c, n, place)


def construct_there(c: Context, n: Node, type: Record, key: str, name: str) -> Place | None:
    """The variable ``name`` with what its constructor makes of it; None where it starts as a value."""
    while n.kind in ("ExprWithCleanups", "CXXBindTemporaryExpr"):
        n = n.inner[-1]
    if n.kind != "CXXConstructExpr" or (len(n.inner) == 1 and _is_copy(c, n.inner[0], type)):
        return None
    constructor = _constructor(c, n, type)
    if constructor is None or constructor.body is None:
        return None
    place = declare(c, n, type, name, None, key)
    run_constructor(c, n, constructor, place, n.inner)
    return place


def _is_copy(c: Context, n: Node, type: Record) -> bool:
    found = c.type_of(n)
    return isinstance(found, Record) and found == type


def _constructor(c: Context, n: Node, type: Record) -> Node | None:
    wanted = n.raw.get("ctorType", {}).get("qualType")
    found = [f for f in type.node.inner if f.kind == "CXXConstructorDecl"]
    for t in type.node.inner:
        if t.kind == "FunctionTemplateDecl":
            found += [f for f in t.inner if f.kind == "CXXConstructorDecl"]
    return next((f for f in found if f.raw.get("type", {}).get("qualType") == wanted), None)


def run_constructor(c: Context, n: Node, constructor: Node, place: Place, arguments: list[Node]) -> None:
    """Fields by the list of initializers, then the body."""
    from weft.from_cuda.statements import block

    c.check_read(n, constructor)
    outer = dict(c.places)
    bound = _bind(c, constructor, arguments)
    frame = Frame(constructor, False, (c.items, len(c.items)), this=place)
    c.frames.append(frame)
    c.places.update(bound)
    _declare_changed(c, constructor, bound)
    try:
        for i in constructor.inner:
            if i.kind != "CXXCtorInitializer":
                continue
            named = i.raw.get("anyInit") or i.raw.get("baseInit")
            if named is None or not i.inner:
                continue
            name = named.get("name") or named.get("desugaredQualType") or named.get("qualType", "")
            found = place.type.field(name) if isinstance(place, Fields) else None
            if found is not None and isinstance(found.type, Reference):
                assert isinstance(place, Fields)
                place.fields[name] = lvalue(c, i.inner[0])
            elif isinstance(place, (Fields, Element)) and _has_field(place, name):
                _initialize(c, i, field_place(c, i, place, name), i.inner[0])
        if constructor.body is not None:
            block(c, constructor.body.inner)
    finally:
        c.frames.pop()
        c.places = outer


def _initialize(c: Context, n: Node, place: Place, initial: Node) -> None:
    if isinstance(place, Element) and isinstance(place.type, Array):
        from weft.from_cuda.variables import fill

        fill(c, n, place, initial)
    else:
        assign(c, n, place, expression(c, initial))


def construct_elements(c: Context, n: Node, place: Element) -> None:
    """All elements of an array of records, by the constructor that ``n`` names."""
    element: CType = place.type
    count = 1
    while isinstance(element, Array):
        count, element = count * (element.count or 0), element.of
    constructor = _constructor(c, n, element) if isinstance(element, Record) else None
    if constructor is None or constructor.body is None:
        return
    first = Address(element, tuple(flat(c, t) for t in place.address.targets))

    def one(at: Expr) -> None:
        assert constructor is not None
        run_constructor(c, n, constructor, Element(element, advance(c, first, at, element.size)), n.inner)

    repeat(c, idx(count), one)


def _has_field(place: Fields | Element, name: str) -> bool:
    return isinstance(place.type, Record) and place.type.field(name) is not None


def closure(c: Context, n: Node) -> Value:
    """A lambda expression: its body names the captured variables, themselves or as they are now."""
    record, *captures = n.inner
    fields = [f for f in record.inner if f.kind == "FieldDecl"]
    copies = [i for f, i in zip(fields, captures) if not isinstance(c.type_of(f), Reference)]
    named = [next((x for x in i.walk() if x.kind == "DeclRefExpr"), None) for i in copies]
    found = [(x.referenced["id"], i) for x, i in zip(named, copies) if x is not None]
    changed = _changed(c, c.frame.function)
    return FunctionValue(n, tuple((key, _copied(c, i, key)) for key, i in found if key in changed))


def _copied(c: Context, n: Node, key: str) -> Place:
    return declare(c, n, c.type_of(n), "captured", expression(c, n), f"captured {key}")


VALUES.update(
    {
        **dict.fromkeys(("CallExpr", "CXXMemberCallExpr", "CXXOperatorCallExpr"), call),
        **dict.fromkeys(("CXXConstructExpr", "CXXTemporaryObjectExpr"), construct),
        "LambdaExpr": closure,
    }
)
PLACES.update(dict.fromkeys(("CallExpr", "CXXMemberCallExpr", "CXXOperatorCallExpr"), call_place))
