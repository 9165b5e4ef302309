"""Operators: arithmetic of numbers and pointers, assignments, choices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from weft.from_cuda import arithmetic as ar
from weft.from_cuda.choices import choose
from weft.from_cuda.context import Binding, Context, Item, close, negate
from weft.from_cuda.expressions import PLACES, VALUES, condition, expression, is_not_null, lvalue, number
from weft.from_cuda.literals import type_text
from weft.from_cuda.memory import address_value, advance, difference, on_heap
from weft.from_cuda.places import address_of, assign, declare, dereference, keep_value, need_memory, read
from weft.from_cuda.types import BOOL, LONG, Opaque, Scalar, parse_type
from weft.from_cuda.unit import Node
from weft.from_cuda.values import (
    ZERO,
    Address,
    Alias,
    Either,
    Element,
    Fixed,
    FunctionValue,
    Nothing,
    Number,
    Place,
    Value,
)
from weft.ir.expr import Binary, Compare, Const, Expr, const, idx
from weft.ir.stmt import Assign, If

T = TypeVar("T")


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


def _stride(c: Context, n: Node, pointer: Address) -> int:
    """The bytes from one element to the next."""
    if isinstance(pointer.to, Opaque):
        c.refuse(n, f"a step over elements of `{pointer.to.name}`, of which nothing is known")
    return pointer.to.size


def _plus_one(c: Context, n: Node, value: Value, by: int) -> Value:
    if isinstance(value, Address):
        return advance(c, value, idx(by), _stride(c, n, value))
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
    for side in (left, right):
        if isinstance(side, Alias):
            need_memory(c, n, side, f"the operator {op} of a variable's address")
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
        by = Number(LONG, ar.to_index(right, c.ranges))
        return advance(c, left, (by if op == "+" else ar.negative(by)).expr, _stride(c, n, left))
    if op == "+" and isinstance(left, Number) and isinstance(right, Address):
        return advance(c, right, ar.to_index(left, c.ranges), _stride(c, n, right))
    if not isinstance(left, Address) or not isinstance(right, Address):
        c.refuse(n, f"the operator {op} of a pointer and a variable's address")
    if op == "-":
        return Number(LONG, difference(c, n, left, right, _stride(c, n, left)))
    if left.is_null or right.is_null:
        known = is_not_null(c, n, right if left.is_null else left)
        return Number(BOOL, known if op == "!=" else negate(known))
    if len(left.targets) > 1 or len(right.targets) > 1 or left.targets[0].memory is not right.targets[0].memory:
        left, right = (on_heap(c, address_value(c, n, x), x.to) for x in (left, right))
    distance = difference(c, n, left, right, 1)
    return Number(BOOL, Compare(op, distance, ZERO))  # type: ignore[arg-type]


def _assignment(c: Context, n: Node) -> Value:
    place, value = _right_then_left(c, n)
    _assign_in_step(c, n, place, value)
    return read(c, n, place) if isinstance(value, Number) else value


def _right_then_left(c: Context, n: Node) -> tuple[Place, Value]:
    """The two sides of an assignment: the value is that before what its place does besides, as in ``a[i++] = i``."""
    value = expression(c, n.inner[1])
    with c.scope() as items:
        place = lvalue(c, n.inner[0])
    if not all(isinstance(i, Binding) for i in items):
        value = keep_value(c, "value", value)
    c.items.extend(items)
    return place, value


def _assign_in_step(c: Context, n: Node, place: Place, value: Value) -> None:
    """An assignment; one to volatile shared memory is done by all threads of a warp at once, after all have read: so
    programs count on it that were written when warps had no barriers of their own."""
    targets = place.address.targets if isinstance(place, Element) else ()
    is_shared = bool(targets) and all(t.memory.kind in ("shared", "dynamic") for t in targets)
    if not is_shared or "volatile" not in n.inner[0].raw.get("type", {}).get("qualType", ""):
        assign(c, n, place, value)
        return
    value = keep_value(c, "stored", value)
    c.meet(parted=True)
    assign(c, n, place, value)
    c.meet(parted=True)


def _compound(c: Context, n: Node) -> Value:
    op = n.raw["opcode"][:-1]
    place, right = _right_then_left(c, n)
    before = read(c, n, place)
    if isinstance(before, Address):
        assign(c, n, place, _pointer_arithmetic(c, n, op, before, right))
        return read(c, n, place)
    if not isinstance(before, Number) or not isinstance(right, Number):
        c.refuse(n, f"{n.raw['opcode']} of what are no numbers")
    computed = parse_type(type_text(n.raw.get("computeResultType", n.raw["type"])), c.unit, n)
    left_type = parse_type(type_text(n.raw.get("computeLHSType", n.raw["type"])), c.unit, n)
    assert isinstance(computed, Scalar)
    assert isinstance(left_type, Scalar)
    left = ar.convert(before, left_type, c.ranges)
    _assign_in_step(c, n, place, ar.convert(ar.binary(op, left, right, computed, c.ranges), before.type, c.ranges))
    return read(c, n, place)


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
    return _chosen_value(c, n, test, *_arms(c, n, test, expression))


def _conditional_place(c: Context, n: Node) -> Place:
    """``(test ? a : b) = x``: one of two places."""
    test = condition(c, n.inner[0])
    arms = _arms(c, n, test, lvalue)
    if len(arms) == 1:
        return arms[0][1]
    (then_items, then), (else_items, otherwise) = arms
    if isinstance(then, Fixed) or isinstance(otherwise, Fixed) or then_items or else_items:
        return Fixed(_chosen_value(c, n, test, *_arms(c, n, test, expression)))
    return Either(c.keep("test", test), then, otherwise)


def _arms(c: Context, n: Node, test: Expr, visit: Callable[[Context, Node], T]) -> list[tuple[list[Item], T]]:
    """What is chosen from, each with what is done for it; what is known to be taken is alone, and done."""
    with c.scope() as then_items:
        then = visit(c, n.inner[1])
    with c.scope() as else_items:
        otherwise = visit(c, n.inner[2])
    if isinstance(test, Const):
        items, taken = (then_items, then) if test.value else (else_items, otherwise)
        c.items.extend(items)
        return [([], taken)]
    return [(then_items, then), (else_items, otherwise)]


def _chosen_value(c: Context, n: Node, test: Expr, *arms: tuple[list[Item], Value]) -> Value:
    if len(arms) == 1:
        return arms[0][1]
    (then_items, then), (else_items, otherwise) = arms
    if not then_items and not else_items:
        return choose(c, n, test, then, otherwise)
    return _conditional_with_effects(c, n, test, *arms)


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


VALUES.update(
    {
        "UnaryOperator": _unary,
        "BinaryOperator": _binary,
        "CompoundAssignOperator": _compound,
        "ConditionalOperator": _conditional,
    }
)
PLACES.update(
    {
        "UnaryOperator": _deref,
        "BinaryOperator": _compound_place,
        "CompoundAssignOperator": _compound_place,
        "ConditionalOperator": _conditional_place,
    }
)
