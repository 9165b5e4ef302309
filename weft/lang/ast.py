"""What the parser makes of a text: definitions, statements, clauses, expressions, each with its span.

Nothing here knows what a name means; `weft.lang.elaborate` decides that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from weft.ir.span import Span

AssignText = Literal["=", "+", "*", "min", "max", "argmin", "argmax"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """Part of an expression: where it stands, and how many operations in it depend on one another."""

    span: Span = field(compare=False)
    depth: int = field(default=1, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name(_Node):
    text: str


@dataclass(frozen=True, slots=True)
class Integer(_Node):
    value: int


@dataclass(frozen=True, slots=True)
class Real(_Node):
    value: float


@dataclass(frozen=True, slots=True)
class SizeOf(_Node):
    """``tensor.dimension``, as in ``A.0``."""

    tensor: Name
    dimension: int


@dataclass(frozen=True, slots=True)
class Apply(_Node):
    """``name(args)``: a tensor access, a builtin, a cast or a call of a definition."""

    name: Name
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Unary(_Node):
    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(_Node):
    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Ternary(_Node):
    condition: Expr
    then: Expr
    otherwise: Expr


Expr: TypeAlias = "Name | Integer | Real | SizeOf | Apply | Unary | Binary | Ternary"


@dataclass(frozen=True, slots=True)
class Type:
    """``float``, or ``float(M,K)``; ``sizes`` is None where no parentheses were written."""

    scalar: Name
    sizes: tuple[Expr, ...] | None


@dataclass(frozen=True, slots=True)
class Param:
    type: Type | None
    name: Name


@dataclass(frozen=True, slots=True)
class Range:
    """``var in lo:hi``"""

    var: Name
    lo: Expr
    hi: Expr
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Let:
    """``name = value`` in a where clause."""

    name: Name
    value: Expr


@dataclass(frozen=True, slots=True)
class Exists:
    """An access that only helps range inference."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Outside:
    """``tensor outside value``: what a read beyond the edge gives."""

    tensor: Name
    value: Expr


Clause: TypeAlias = "Range | Let | Exists | Outside"


@dataclass(frozen=True, slots=True)
class Assign:
    """``target(indices) op= value where clauses``; ``indices`` is None where no parentheses were written."""

    target: Name
    indices: tuple[Expr, ...] | None
    op: AssignText
    initialize: bool
    value: Expr
    clauses: tuple[Clause, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class AssignTuple:
    """``(a, b) = f(x, y)``"""

    targets: tuple[Name, ...]
    value: Expr
    clauses: tuple[Clause, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Declare:
    """``float(M,N) T``: a temporary with a stated type and shape."""

    type: Type
    name: Name


@dataclass(frozen=True, slots=True)
class Recurrence:
    """``for var in lo:hi { statements }``: all statements for one value of ``var``, then all for the next."""

    var: Name
    lo: Expr
    hi: Expr
    statements: tuple[Statement, ...]
    #: Without the statements.
    span: Span = field(compare=False)


Statement: TypeAlias = "Assign | AssignTuple | Declare | Recurrence"


@dataclass(frozen=True, slots=True)
class Definition:
    name: Name
    params: tuple[Param, ...]
    outputs: tuple[Param, ...]
    statements: tuple[Statement, ...]
    #: Where the closing brace is: what is missing is reported there.
    end: Span = field(compare=False)


def names_in(expr: Expr) -> list[Name]:
    """Every name an expression mentions, in order, applied ones included."""
    names: list[Name] = []
    pending: list[Expr] = [expr]
    while pending:
        node = pending.pop()
        match node:
            case Name():
                names.append(node)
            case SizeOf():
                names.append(node.tensor)
            case Apply():
                names.append(node.name)
        pending.extend(reversed(operands(node)))
    return names


def names_of(statement: Statement) -> set[str]:
    """Every name a statement mentions outside its clauses, its targets included."""
    match statement:
        case Declare(name=name):
            return {name.text}
        case Recurrence(var=var, statements=inner):
            return {var.text}.union(*map(names_of, inner))
        case AssignTuple(targets=targets, value=value):
            return {t.text for t in targets} | {n.text for n in names_in(value)}
        case Assign(target=target, indices=indices, value=value):
            return {target.text} | {n.text for e in (*(indices or ()), value) for n in names_in(e)}


def position_names(statement: Assign, tensors: Container[str]) -> frozenset[str]:
    """Names that stand for positions in a statement: in subscripts, or with a range of their own."""
    ranges = [c for c in statement.clauses if isinstance(c, Range)]
    values = [statement.value, *(c.value for c in statement.clauses if isinstance(c, Exists))]
    inside = [*(statement.indices or ()), *(e for c in ranges for e in (c.lo, c.hi))]
    pending = list(values)
    while pending:
        node = pending.pop()
        if isinstance(node, Apply) and node.name.text in tensors:
            inside += node.args
        pending += operands(node)
    return frozenset({c.var.text for c in ranges} | {n.text for e in inside for n in names_in(e)})


def assignments(statements: Iterable[Statement]) -> Iterator[Assign | AssignTuple]:
    """Every statement that writes tensors, those of recurrences included, in order."""
    for s in statements:
        if isinstance(s, Recurrence):
            yield from assignments(s.statements)
        elif not isinstance(s, Declare):
            yield s


def targets(statement: Statement) -> set[str]:
    """The names of the tensors a statement makes or writes."""
    if isinstance(statement, Declare):
        return {statement.name.text}
    writes = assignments((statement,))
    return {t.text for a in writes for t in ((a.target,) if isinstance(a, Assign) else a.targets)}


def operands(node: Expr) -> tuple[Expr, ...]:
    match node:
        case Apply(args=args):
            return args
        case Unary(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return (left, right)
        case Ternary(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
    return ()


def with_operands(node: Expr, parts: Sequence[Expr], depth: int) -> Expr:
    """``node`` over other operands; ``depth`` is its new depth."""
    match node:
        case Apply():
            return dataclasses.replace(node, args=tuple(parts), depth=depth)
        case Unary():
            return dataclasses.replace(node, operand=parts[0], depth=depth)
        case Binary():
            return dataclasses.replace(node, left=parts[0], right=parts[1], depth=depth)
        case Ternary():
            return dataclasses.replace(node, condition=parts[0], then=parts[1], otherwise=parts[2], depth=depth)
    return node
