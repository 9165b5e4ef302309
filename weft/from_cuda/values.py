"""What expressions of a kernel are while it is translated: numbers, addresses, records, and places that hold them."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import TYPE_CHECKING, TypeAlias

from weft.from_cuda.types import Array, CType, Record, Scalar
from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.expr import Binary, Const, Expr, Var, idx

if TYPE_CHECKING:
    from weft.from_cuda.unit import Node

ZERO = idx(0)


def plus(a: Expr, b: Expr) -> Expr:
    """The sum of two indices; constants fold."""
    if isinstance(a, Const) and isinstance(b, Const):
        return idx(int(a.value) + int(b.value))
    if isinstance(a, Const) and a.value == 0:
        return b
    return a if isinstance(b, Const) and b.value == 0 else Binary("+", a, b)


def times(a: Expr, by: int) -> Expr:
    if isinstance(a, Const):
        return idx(int(a.value) * by)
    return a if by == 1 else Binary("*", a, idx(by))


@dataclass(frozen=True, slots=True)
class Number:
    """A number of the C++ type ``type``.

    Whole numbers of up to 32 bits are of two kinds: *data*, whose expression has the type of memory, and *indices*,
    which are int64: signed ones exact, unsigned ones known modulo 2**32 (`weft.from_cuda.arithmetic`).
    """

    type: Scalar
    expr: Expr


@dataclass(eq=False, slots=True)
class Memory:
    """A piece of memory that pointers point into, seen as elements of one or more types.

    ``kind``: argument, shared, dynamic, local, symbol or heap. ``dims`` are those of an array where all are known.
    """

    name: str
    kind: str
    element: CType
    dims: tuple[int, ...] = ()
    key: str = ""
    argument: tuple[int, int] = (0, 0)
    views: dict[DType, Buffer] = field(default_factory=dict)
    written: set[DType] = field(default_factory=set)
    symbol: str = ""
    size_name: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """A place in a memory: ``offset`` units of ``unit`` bytes and ``extra`` bytes from its start; ``indices`` where an
    array of several dimensions is subscripted by all of them."""

    memory: Memory
    offset: Expr
    unit: int
    extra: int = 0
    indices: tuple[Expr, ...] | None = None

    def advance(self, by: Expr, size: int) -> Target:
        """``by`` elements of ``size`` bytes further."""
        if isinstance(by, Const) and by.value == 0:
            return self
        if size % self.unit == 0:
            return Target(self.memory, plus(self.offset, times(by, size // self.unit)), self.unit, self.extra)
        unit = gcd(size, self.unit)
        start = plus(times(self.offset, self.unit // unit), idx(self.extra // unit))
        offset = plus(start, times(by, size // unit))
        return Target(self.memory, offset, unit, self.extra % unit)

    def index(self, size: int) -> Expr:
        """Which element of ``size`` bytes this is."""
        if self.unit % size == 0:
            return plus(times(self.offset, self.unit // size), idx(self.extra // size))
        if self.extra == 0 and size % self.unit == 0:
            return self.offset // idx(size // self.unit)
        return plus(times(self.offset, self.unit), idx(self.extra)) // idx(size)


@dataclass(frozen=True, slots=True)
class Address:
    """A pointer: one of ``targets``, that numbered ``which`` where there are several; none at all is a null pointer.
    ``is_set``: whether it is not null, where only running tells."""

    to: CType
    targets: tuple[Target, ...]
    which: Expr | None = None
    is_set: Expr | None = None

    @property
    def is_null(self) -> bool:
        return not self.targets


@dataclass(frozen=True, slots=True)
class Struct:
    """A record as a value."""

    type: Record
    fields: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Copy:
    """An array as a value: what is at ``address`` now, until it is stored."""

    type: Array
    address: Address


@dataclass(frozen=True, slots=True)
class FunctionValue:
    """A function as a value; ``captured``: what a lambda has copies of, by the variables' ids."""

    node: Node
    captured: tuple[tuple[str, Place], ...] = ()


@dataclass(frozen=True, slots=True)
class Alias:
    """A pointer to a place that is no memory: a local variable whose address is taken for a call."""

    place: Place


@dataclass(frozen=True, slots=True)
class Nothing:
    """What an expression of type void is."""


Value: TypeAlias = "Number | Address | Struct | Copy | FunctionValue | Alias | Nothing"


@dataclass(frozen=True, slots=True)
class Variable:
    """A local number."""

    type: Scalar
    var: Var
    key: str = ""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A place whose value never changes: a parameter, a reference to a value."""

    value: Value


@dataclass(frozen=True, slots=True)
class PointerVariable:
    """A local pointer that changes: the memories it may point into, and where and in which it points now."""

    to: CType
    key: str
    offset: Var
    which: Var


@dataclass(frozen=True, slots=True)
class Element:
    """What an address points to."""

    type: CType
    address: Address


@dataclass(frozen=True, slots=True)
class Fields:
    """A local record: a place for each field."""

    type: Record
    fields: dict[str, Place]


@dataclass(frozen=True, slots=True)
class Either:
    """``test ? a : b`` of places."""

    test: Expr
    then: Place
    otherwise: Place


Place: TypeAlias = "Variable | Fixed | PointerVariable | Element | Fields | Either"


def index_var(name: str) -> Var:
    return Var(name, dt.index)
