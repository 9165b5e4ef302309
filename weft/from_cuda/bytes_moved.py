"""``memcpy``, ``memmove`` and ``memset`` in kernels: element by element, of the type that the pointers have."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from weft.from_cuda import arithmetic as ar
from weft.from_cuda.context import Context, close
from weft.from_cuda.expressions import expression, number
from weft.from_cuda.memory import advance, load, reinterpret, scalar_element, store
from weft.from_cuda.places import assign, keep_value, need_memory, read
from weft.from_cuda.types import CType, Pointer, Scalar, Void
from weft.from_cuda.unit import Node
from weft.from_cuda.values import ZERO, Address, Alias, Number, Value, index_var
from weft.ir import dtype as dt
from weft.ir.expr import Binary, Call, Cast, Const, Expr, cast, const, idx
from weft.ir.stmt import For

#: So many elements are copied one by one.
_WRITTEN_OUT = 8


def copy(c: Context, n: Node, arguments: list[Node]) -> Value:
    """``memcpy(to, from, bytes)``."""
    to, source = (expression(c, a) for a in arguments[:2])
    type = _pointee(c, arguments[0]) or _pointee(c, arguments[1])
    if type is None:
        c.refuse(n, "a copy between pointers to void")
    if isinstance(to, Alias) or isinstance(source, Alias):
        return _copy_one(c, n, to, source, arguments[2], type)
    if not isinstance(to, Address) or not isinstance(source, Address):
        c.refuse(n, "a copy between what are no pointers")
    into, out_of = to, source

    def one(at: Expr) -> None:
        store(c, n, _at(c, into, at, type), load(c, n, _at(c, out_of, at, type), type))

    repeat(c, _count(c, n, arguments[2], type), one)
    return to


def _copy_one(c: Context, n: Node, to: Value, source: Value, size: Node, type: CType) -> Value:
    """One variable: the bits of another, or of an element."""
    count = number(c, size).expr
    if not isinstance(type, Scalar) or not isinstance(count, Const) or int(count.value) != type.size:
        _need_memory(c, n, to, source)
    if isinstance(source, Alias):
        held = read(c, n, source.place)
        if not isinstance(held, Number) or held.type.size != type.size:
            _need_memory(c, n, to, source)
        value = Number(type, reinterpret(ar.stored(held), type.dtype))
    else:
        assert isinstance(source, Address)
        loaded = load(c, n, Address(type, source.targets, source.which), type)
        assert isinstance(loaded, Number)
        value = loaded
    kept = keep_value(c, "copied", value)
    if isinstance(to, Alias):
        assign(c, n, to.place, kept)
    else:
        assert isinstance(to, Address)
        store(c, n, Address(type, to.targets, to.which), kept)
    return to


def _need_memory(c: Context, n: Node, to: Value, source: Value) -> NoReturn:
    """Bytes of variables that are more or less than a number: the variables become memory."""
    need_memory(c, n, to if isinstance(to, Alias) else source, "a copy of a part of a variable, or of several")  # type: ignore[arg-type]


def fill(c: Context, n: Node, arguments: list[Node]) -> Value:
    """``memset(to, byte, bytes)``."""
    to, byte = expression(c, arguments[0]), number(c, arguments[1])
    type = _pointee(c, arguments[0])
    dtype = scalar_element(type) if type is not None else None
    if not isinstance(to, Address) or dtype is None:
        c.refuse(n, "bytes are set of what is no array of numbers of one type")
    scalar, into = Scalar(str(dtype), dtype), to
    value = Number(scalar, c.keep("filled", _repeated(c, byte, scalar)))
    repeat(c, _count(c, n, arguments[2], scalar), lambda at: store(c, n, _at(c, into, at, scalar), value))
    return to


def _repeated(c: Context, byte: Number, type: Scalar) -> Expr:
    """A number all of whose bytes are ``byte``."""
    if isinstance(byte.expr, Const) and int(byte.expr.value) == 0:
        return const(0, type.dtype)
    whole = {1: dt.uint8, 2: dt.uint16, 4: dt.uint32, 8: dt.uint64}[type.size]
    one = Cast(whole, Cast(dt.uint8, byte.expr))
    every = Binary("*", one, const(int("01" * type.size, 16), whole))
    return every if whole == type.dtype else Call("reinterpret", (every,), type.dtype)


def _pointee(c: Context, n: Node) -> CType | None:
    """What an argument pointed to before it became a ``void *``."""
    while n.kind in ("ImplicitCastExpr", "CStyleCastExpr", "ParenExpr") and n.inner:
        type = c.type_of(n)
        if isinstance(type, Pointer) and not isinstance(type.to, Void):
            return type.to
        n = n.inner[-1]
    type = c.type_of(n)
    return type.to if isinstance(type, Pointer) and not isinstance(type.to, Void) else None


def _at(c: Context, address: Address, at: Expr, type: CType) -> Address:
    moved = advance(c, Address(type, address.targets, address.which), at, type.size)
    return Address(type, moved.targets, moved.which)


def _count(c: Context, n: Node, size: Node, type: CType) -> Expr:
    """How many elements of ``type`` so many bytes are."""
    total = cast(dt.index, ar.settle(number(c, size), c.ranges))
    if isinstance(total, Const):
        if int(total.value) % type.size:
            c.refuse(n, "bytes that are no whole number of elements")
        return idx(int(total.value) // type.size)
    return c.keep("count", ar.fold(Binary("//", total, idx(type.size))))


def repeat(c: Context, count: Expr, one: Callable[[Expr], None]) -> None:
    """``one`` of each number below ``count``: written out where they are few, else in a loop."""
    if isinstance(count, Const) and int(count.value) <= _WRITTEN_OUT:
        for at in range(int(count.value)):
            one(idx(at))
        return
    var = index_var(c.fresh("element"))
    with c.scope() as items:
        one(var)
    c.emit(For(var, ZERO, count, "serial", close(items), span=c.span))
