"""Addresses within shared memory as numbers of bytes, which instructions of a GPU take."""

from __future__ import annotations

from weft.from_cuda import arithmetic as ar
from weft.from_cuda.context import Context
from weft.from_cuda.expressions import expression, number
from weft.from_cuda.memory import in_window, window_value
from weft.from_cuda.types import VOID, Scalar
from weft.from_cuda.unit import Node
from weft.from_cuda.values import Address, Number, Value
from weft.ir.expr import Var
from weft.ir.interval import Interval

#: Bytes of shared memory that a block may have.
_MOST_SHARED = 1 << 20


def number_of(c: Context, n: Node, arguments: list[Node]) -> Value:
    """``__cvta_generic_to_shared``: an address within shared memory, as a number."""
    address = expression(c, arguments[0])
    if not isinstance(address, Address):
        c.refuse(n, "the address within shared memory of a local variable")
    at = c.keep("address", window_value(c, n, address))
    if isinstance(at, Var):
        c.ranges[at.name] = Interval(0, _MOST_SHARED)
    type = c.type_of(n)
    assert isinstance(type, Scalar)
    return Number(type, at)


def pointer_to(c: Context, n: Node, arguments: list[Node]) -> Value:
    """What is at an address within shared memory."""
    c.facts.learn(c.facts.flat, "window")
    at = ar.to_index(number(c, arguments[0]), c.ranges)
    return in_window(c, c.keep("address", at), VOID)
