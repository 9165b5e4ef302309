"""How a statement may be split along an axis of a mesh, read from what it writes and reads, never from its name.

A dimension of the result may be owned: each rank computes its piece. An axis that is summed over (by whatever the
statement combines with) may be shared out: each rank has a part of the result. A table's dimension that data look up
may be owned: each rank computes where the element it is asked for is its own, and holds what the combination leaves
unchanged elsewhere. What is read then follows: a subscript that moves with the split is split too, with a halo
as far as it reaches over; all else is whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from weft.dist.layout import REPLICATED, AxisLayout, Layout, Partial, Span, Split
from weft.ir.affine import affine_form
from weft.ir.expr import Binary, Expr, Load, Select, Var
from weft.ir.visit import Node, children, free_vars, loads, walk
from weft.tensor.access import independent_axes, is_scatter, reads_target, statement_reads
from weft.tensor.program import AssignOp, Statement
from weft.tensor.recurrences import constant_of
from weft.tensor.specialize import axis_ranges


@dataclass(frozen=True, slots=True)
class Own:
    """Each rank computes its piece of dimension ``dim`` of what is written."""

    dim: int


@dataclass(frozen=True, slots=True)
class Share:
    """Each rank takes a piece of ``axis``, which the statement combines over."""

    axis: str


@dataclass(frozen=True, slots=True)
class LookUp:
    """Each rank has a piece of dimension ``dim`` of the table that load number ``load`` looks up."""

    load: int
    dim: int


@dataclass(frozen=True, slots=True)
class Whole:
    """Every rank computes all of it."""


Choice: TypeAlias = "Own | Share | LookUp | Whole"


def choices(statement: Statement, *, strict: bool = False) -> tuple[Choice, ...]:
    """What an axis of a mesh may do for the statement; with ``strict`` no sum is taken in another order."""
    found: list[Choice] = [Whole(), *(Own(d) for d in range(statement.target.rank) if can_own(statement, d))]
    if reads_target(statement) or statement.recurrences:
        return tuple(found)
    if not (strict and _order_matters(statement)):
        found += [Share(name) for name in _shared(statement)]
    if not (strict and statement.op != "=" and _order_matters(statement)):
        found += _looked_up(statement)
    return tuple(found)


def can_own(statement: Statement, dim: int) -> bool:
    """Whether a rank can tell by the axes alone which points write its piece of dimension ``dim``."""
    form, names = affine_form(statement.indices[dim]), {a.var.name for a in statement.axes}
    if form is None or not form.keys() & names or not form.keys() <= names | {""}:
        return False
    if not reads_target(statement):
        return True
    index = statement.indices[dim]
    return isinstance(index, Var) and index.name in independent_axes(statement)


def _order_matters(statement: Statement) -> bool:
    return statement.op in ("+", "*") and statement.target.dtype.is_float


def _shared(statement: Statement) -> Iterator[str]:
    """Axes of which each point only adds to what other points wrote."""
    if statement.op == "=":
        return
    by_data = {name for i in statement.indices for load in loads(i) for name in free_vars(load)}
    for axis in statement.axes:
        name = axis.var.name
        is_reduced = axis in statement.reduce_axes or (name in by_data and is_scatter(statement))
        if is_reduced and not _chooses_writes(statement, name) and share_span(statement, name) is not None:
            yield name


def share_span(statement: Statement, name: str) -> Span | None:
    """The positions that ranks share out of an axis; those of a dimension it runs through, so that pieces agree."""
    lo, hi = axis_ranges(statement.all_axes)[name]
    if lo is None or hi is None:
        return None
    for load in statement_reads(statement):
        for size, index in zip(load.buffer.shape, load.indices):
            if isinstance(index, Var) and index.name == name and 0 <= lo and hi < constant_of(size):
                return 0, constant_of(size)
    return lo, hi + 1


def _chooses_writes(statement: Statement, name: str) -> bool:
    """Whether a range of an axis on the left side depends on this one: then its points choose what is initialized."""
    left = {a.var.name for a in statement.spatial_axes}
    return not is_scatter(statement) and any(
        name in (free_vars(a.lo) | free_vars(a.hi)) for a in statement.axes if a.var.name in left and a.var.name != name
    )


def _looked_up(statement: Statement) -> Iterator[LookUp]:
    """Dimensions of tables in the value whose subscript data decide."""
    asked = {id(n) for n in always_evaluated(statement.value) if isinstance(n, Load)}
    for number, load in enumerate(statement_reads(statement)):
        if id(load) not in asked:
            continue
        asked.discard(id(load))
        for dim, index in enumerate(load.indices):
            if any(isinstance(n, Load) for n in walk(index)):
                yield LookUp(number, dim)


def always_evaluated(e: Node) -> Iterator[Node]:
    """The parts of an expression that no condition leaves out."""
    yield e
    match e:
        case Select(condition=condition):
            yield from always_evaluated(condition)
        case Binary(op="&&" | "||", left=left):
            yield from always_evaluated(left)
        case _:
            for inner in children(e):
                yield from always_evaluated(inner)


def output_layout(statement: Statement, chosen: Sequence[Choice]) -> Layout:
    """Where the result is, given a choice for each axis of the mesh."""
    return Layout(tuple(_output_axis(statement, choice) for choice in chosen))


def _output_axis(statement: Statement, choice: Choice) -> AxisLayout:
    match choice:
        case Own(dim):
            return Split(dim)
        case Share() | LookUp():
            return Partial(part_operator(statement))
    return REPLICATED


def part_operator(statement: Statement) -> AssignOp:
    """What combines the parts that ranks have: the statement's own operator.

    Where one rank alone has an element and the others hold the least value, the greatest is that element, bit for bit.
    """
    return "max" if statement.op == "=" else statement.op


def moving_axes(statement: Statement, choice: Choice) -> frozenset[str]:
    """The axes that run over other points on another rank."""
    match choice:
        case Own(dim):
            return frozenset(free_vars(statement.indices[dim]))
        case Share(axis):
            return frozenset({axis})
    return frozenset()


def subscript_axes(index: Expr) -> frozenset[str]:
    """The axes in a subscript, those that only data depend on aside."""
    inside = {id(n) for load in loads(index) for n in walk(load)}
    return frozenset(n.name for n in walk(index) if isinstance(n, Var) and id(n) not in inside)
