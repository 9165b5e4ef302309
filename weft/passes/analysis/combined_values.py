"""Values as what they are combined from: ``(x0 + x2) + (x1 + x3)`` is a tree over the values of four threads.

Equal trees are one value, whichever thread made it and wherever it is stored: a number stands for it. All operators
that are looked at commute, for floats too; none is taken for associative.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.ir.dtype import DType
from weft.ir.expr import Binary, Call, Compare, Const, Expr, Select, identity

#: Nothing is known of a value; no value at all.
UNKNOWN = 0

_OPERATORS = frozenset(("+", "*", "min", "max", "&", "|", "^"))
_FUNCTIONS = {"fmin": "min", "fmax": "max"}


def operator_of(e: Expr) -> str | None:
    """The commutative operator, or function, that ``e`` is an application of."""
    if isinstance(e, Binary) and e.op in _OPERATORS:
        return e.op
    return e.name if isinstance(e, Call) and e.name in _FUNCTIONS else None


def as_extreme(e: Expr) -> Expr:
    """``a < b ? b : a`` of integers as ``max(a, b)``; of floats it is not, since some are no numbers."""
    match e:
        case Select(Compare(op="<" | "<=" | ">" | ">=", left=a, right=b) as test, one, other) if e.dtype.is_integer:
            if (one, other) in ((a, b), (b, a)):
                return Binary("min" if (test.op[0] == "<") == (one == a) else "max", one, other)
    return e


def apply_operator(op: str, a: Expr, b: Expr) -> Expr:
    return Call(op, (a, b), a.dtype) if op in _FUNCTIONS else Binary(op, a, b)  # type: ignore[arg-type]


def neutral(op: str, dtype: DType) -> Const:
    """What leaves every number as it is; but ``fmax`` makes it of what is not a number, and ``+`` 0 of -0."""
    return identity(_FUNCTIONS.get(op, op), dtype)


@dataclass(frozen=True, slots=True)
class Value:
    """Two values combined (``right`` is `UNKNOWN` where it is one, and the neutral element), a constant, or neither.

    ``leaves`` is a set of bits, one for each value that is not itself made by ``op``. Where ``with_neutral``, the
    neutral element of ``op`` was combined too: it matters for special numbers only, and once, in the end, is as good.
    """

    op: str | None = None
    left: int = UNKNOWN
    right: int = UNKNOWN
    leaves: int = 0
    constant: Const | None = None
    with_neutral: bool = False


@dataclass(slots=True)
class Values:
    """All values seen so far; the first one is `UNKNOWN`."""

    all: list[Value] = field(default_factory=lambda: [Value()])
    _known: dict[Value, int] = field(default_factory=dict)
    _bits: dict[int, int] = field(default_factory=dict)
    _others: dict[tuple[str, int, int], int] = field(default_factory=dict)

    def __getitem__(self, number: int) -> Value:
        return self.all[number]

    def atom(self) -> int:
        """A new value, of which nothing more is known."""
        self.all.append(Value())
        return len(self.all) - 1

    def constant(self, value: Const) -> int:
        return self._number(Value(constant=value))

    def combine(self, op: str, a: int, b: int) -> int:
        """What ``a op b`` is."""
        if a == UNKNOWN or b == UNKNOWN:
            return UNKNOWN
        for value, other in ((a, b), (b, a)):
            constant = self.all[other].constant
            if constant is not None and constant == neutral(op, constant.type):
                return self._marked(op, value) if constant.type.is_float and value != other else value
        one, two = self.plain(op, a), self.plain(op, b)
        constants = self.all[a].constant is not None or self.all[b].constant is not None
        if constants or self._leaves(op, one) & self._leaves(op, two):
            key = op, min(a, b), max(a, b)
            self._others[key] = made = self._others.get(key) or self.atom()
            return made
        made = self.tree(op, one, two)
        return made if (one, two) == (a, b) else self._marked(op, made)

    def tree(self, op: str, a: int, b: int) -> int:
        return self._number(Value(op, min(a, b), max(a, b), self._leaves(op, a) | self._leaves(op, b)))

    def plain(self, op: str, number: int) -> int:
        """The same value before the neutral element was combined."""
        v = self.all[number]
        if v.op != op or not v.with_neutral:
            return number
        return v.left if v.right == UNKNOWN else self.tree(op, v.left, v.right)

    def _number(self, value: Value) -> int:
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = len(self.all)
            self.all.append(value)
        return found

    def _leaves(self, op: str, number: int) -> int:
        v = self.all[number]
        return v.leaves if v.op == op else 1 << self._bits.setdefault(number, len(self._bits))

    def _marked(self, op: str, number: int) -> int:
        """The same value, with the neutral element of ``op`` combined too."""
        v = self.all[number]
        if v.op == op:
            return self._number(Value(op, v.left, v.right, v.leaves, None, True))
        return self._number(Value(op, number, UNKNOWN, self._leaves(op, number), None, True))
