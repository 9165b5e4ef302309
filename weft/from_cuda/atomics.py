"""Atomic updates: one statement of the loop program each, or a loop where no instruction makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from weft.from_cuda import arithmetic as ar
from weft.from_cuda.context import Context, close
from weft.from_cuda.expressions import expression, number
from weft.from_cuda.memory import chosen, held_as, part_type, reinterpret, subscripts, view
from weft.from_cuda.places import dereference
from weft.from_cuda.types import UINT, CType, Pointer, Scalar
from weft.from_cuda.unit import Node
from weft.from_cuda.values import Address, Alias, Element, Nothing, Number, Target, Value
from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.expr import Binary, Compare, Const, Expr, Select, Var, const
from weft.ir.stmt import Assign, Atomic, AtomicOp, Break, If, While

_Function: TypeAlias = "Callable[[Context, Node, list[Node]], Value]"


def _atomic(op: AtomicOp, *, negated: bool = False) -> _Function:
    def go(c: Context, n: Node, arguments: list[Node]) -> Value:
        address = expression(c, arguments[0])
        element = _pointee(c, arguments[0])
        values = [ar.convert(number(c, a), element, c.ranges) for a in arguments[1:]]
        if negated:
            values[0] = ar.negative(values[0])
        expected = values[0] if op == "cas" else None
        return _update(c, n, op, address, element, values[-1], expected)

    return go


def _pointee(c: Context, n: Node) -> Scalar:
    type: CType = c.type_of(n)
    if isinstance(type, Pointer) and isinstance(type.to, Scalar):
        return type.to
    return c.refuse(n, "an atomic update of what is no number")


def _update(
    c: Context,
    n: Node,
    op: AtomicOp,
    address: Value,
    element: Scalar,
    value: Number,
    expected: Number | None,
) -> Value:
    """An atomic update; the value of before is kept where it is used."""
    place = dereference(c, n, address, element)
    if isinstance(address, Alias) or not isinstance(place, Element):
        c.refuse(n, "an atomic update of a local variable")
    result = None if _is_unused(n) else c.let("old", const(0, element.dtype))

    def one(target: Target) -> None:
        _update_one(c, n, op, target, value, expected, result)

    assert isinstance(address, Address)
    chosen(c, address, one)
    return Nothing() if result is None else Number(element, result)


def _update_one(
    c: Context, n: Node, op: AtomicOp, target: Target, value: Number, expected: Number | None, result: Var | None
) -> None:
    dtype = value.type.dtype
    held = _held_whole(c, n, target, dtype)
    if held != dtype and not _moves_bits(op, held, dtype):
        given = c.keep("given", ar.stored(value))
        _swap_until(c, n, target, dtype, lambda seen: Binary(op, seen, given), result)  # type: ignore[arg-type]
        return
    given = reinterpret(ar.stored(value), held)
    wanted = None if expected is None else reinterpret(ar.stored(expected), held)
    old = result
    if result is not None and held != dtype:
        old = c.let("old_bits", const(0, held))
    c.emit(Atomic(op, view(c, target.memory, held), subscripts(c, target, held), given, wanted, old, span=c.span))
    if result is not None and old is not None and old is not result:
        c.emit(Assign(result, reinterpret(old, dtype), span=c.span))


def _held_whole(c: Context, n: Node, target: Target, dtype: DType) -> DType:
    """The type of the buffer in which an element of ``dtype`` is updated: it has the element in one piece."""
    if part_type(c, target.memory, dtype) is not None:
        c.refuse(n, f"an atomic update of `{target.memory.name}`, which is accessed as smaller elements too")
    held = held_as(c, target.memory, dtype)
    view(c, target.memory, held)
    target.memory.written.add(held)
    return held


def _moves_bits(op: AtomicOp, held: DType, dtype: DType) -> bool:
    """Whether an update means the same for the bits of another type."""
    return op in ("exchange", "cas") or (op in ("&", "|", "^", "+") and held.is_integer and dtype.is_integer)


def _swap_until(
    c: Context, n: Node, target: Target, dtype: DType, following: Callable[[Expr], Expr], result: Var | None
) -> None:
    """An update that no instruction makes: what follows what was seen is stored, again and again until nobody was in
    between. Places are compared by their bits, so memory of floats is held as whole numbers from the next attempt on:
    a number that is none would never be equal to itself."""
    held = _held_whole(c, n, target, dtype)
    if not held.is_integer:
        c.facts.learn(c.facts.bits, target.memory.key)
        return
    buffer, at = view(c, target.memory, held), tuple(c.keep("at", i) for i in subscripts(c, target, held))
    zero = const(0, held)
    old = c.let("old_bits", zero)
    c.emit(Atomic("cas", buffer, at, zero, zero, old, span=c.span))  # what is there, seen in one step
    with c.scope() as items:
        seen = c.keep("seen", old)
        new = reinterpret(following(reinterpret(seen, dtype)), held)
        c.emit(Atomic("cas", buffer, at, new, seen, old, span=c.span))
        c.emit(If(Compare("==", old, seen), Break(), span=c.span))
    c.emit(While(Const(True, dt.bool_), close(items), span=c.span))
    if result is not None:
        c.emit(Assign(result, reinterpret(old, dtype), span=c.span))


def _is_unused(n: Node) -> bool:
    """Whether nothing is done with what an expression gives."""
    parent = n.parent
    while parent is not None and parent.kind in ("ExprWithCleanups", "ParenExpr"):
        n, parent = parent, parent.parent
    if parent is None:
        return False
    if parent.kind == "CompoundStmt":
        return True
    if parent.kind == "IfStmt":
        return n is not parent.inner[0]
    return parent.kind in ("ForStmt", "WhileStmt") and n is parent.inner[-1]


def _wrapping(up: bool) -> _Function:
    """``atomicInc`` and ``atomicDec``: a count that starts again at a limit."""

    def go(c: Context, n: Node, arguments: list[Node]) -> Value:
        address = expression(c, arguments[0])
        limit = c.keep("limit", ar.stored(ar.convert(number(c, arguments[1]), UINT, c.ranges)))
        if not isinstance(address, Address):
            c.refuse(n, "an atomic update of a local variable")
        result = c.let("old", const(0, dt.uint32))
        chosen(c, address, lambda t: _swap_until(c, n, t, dt.uint32, lambda seen: _after(up, seen, limit), result))
        return Number(UINT, result)

    return go


def _after(up: bool, seen: Expr, limit: Expr) -> Expr:
    """The count that follows ``seen``."""
    one, zero = const(1, dt.uint32), const(0, dt.uint32)
    if up:
        return Select(Compare(">=", seen, limit), zero, Binary("+", seen, one))
    wraps = Binary("||", Compare("==", seen, zero), Compare(">", seen, limit))
    return Select(wraps, limit, Binary("-", seen, one))


def _table() -> dict[str, _Function]:
    table: dict[str, _Function] = {"atomicInc": _wrapping(up=True), "atomicDec": _wrapping(up=False)}
    operators: tuple[tuple[str, AtomicOp], ...] = (
        ("Add", "+"), ("Min", "min"), ("Max", "max"), ("And", "&"), ("Or", "|"), ("Xor", "^"), ("Exch", "exchange"),
        ("CAS", "cas"),
    )  # fmt: skip
    for suffix in ("", "_block", "_system"):
        for title, op in operators:
            table[f"atomic{title}{suffix}"] = _atomic(op)
        table[f"atomicSub{suffix}"] = _atomic("+", negated=True)
    return table


FUNCTIONS: dict[str, _Function] = _table()
