"""Call-time tests for the accesses that could not be proved in bounds: lookups, mostly.

A test loops over just the variables its subscript uses. It runs before anything is written
where the subscript depends on inputs alone, before its statement where it depends on earlier
results, and inside its statement where it depends on what that statement computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.ir.dtype import uint64
from weft.ir.expr import Axis, Binary, Cast, Compare, Const, Expr, Load, Unary, Var, idx
from weft.ir.span import Span
from weft.ir.stmt import Assert, For, Stmt
from weft.ir.visit import free_vars, fresh_name, loads, substitute
from weft.tensor.program import Statement, TensorProgram
from weft.tensor.prove_bounds import GuardedAccess, unproved_accesses
from weft.tensor.text import describe, describe_access

#: How many values the error record of a kernel holds.
RECORD_SIZE = 8


@dataclass(frozen=True, slots=True)
class Guard:
    """``condition`` must hold at every point of ``axes``; ``position`` None is before the first statement."""

    axes: tuple[Axis, ...]
    condition: Expr
    message: str = field(compare=False)
    values: tuple[Expr, ...] = field(compare=False)
    position: int | None
    inside: bool
    span: Span | None = field(compare=False)

    def test(self) -> Assert:
        return Assert(self.condition, self.message, self.values, span=self.span)


def guard_accesses(program: TensorProgram) -> tuple[Guard, ...]:
    """The tests a normalized program needs, those of inner subscripts before those that use them."""
    inputs = {b.name for b in program.inputs}
    guards: dict[Guard, None] = {}
    for position, statement in enumerate(program.statements):
        unproved = unproved_accesses(statement, program.requirements)
        for access, dimension in sorted(unproved, key=lambda pair: len(loads(pair[0].indices[pair[1]]))):
            guards.setdefault(_guard(access, dimension, statement, position, inputs))
    return tuple(guards)


def _guard(access: GuardedAccess, dimension: int, statement: Statement, position: int, inputs: set[str]) -> Guard:
    index, size = access.indices[dimension], access.buffer.shape[dimension]
    condition = Binary("&&", Compare(">=", index, idx(0)), Compare("<", index, size))
    for guard in reversed(access.guards):
        condition = Binary("||", Unary("!", guard), condition)
    sources = {load.buffer.name for e in (index, *access.guards) for load in loads(e)}
    early = sources <= inputs
    message, values = _message(access, dimension, statement)
    return Guard(
        _needed_axes(condition, statement.all_axes if early else statement.axes),
        condition,
        message,
        values,
        None if early else position,
        statement.target.name in sources,
        access.span or statement.span,
    )


def _needed_axes(condition: Expr, all_axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The axes the condition mentions, with those their ranges depend on and those that depend on them."""
    needed = set(free_vars(condition))
    for axis in (*reversed(all_axes), *all_axes, *reversed(all_axes)):
        names = {*free_vars(axis.lo), *free_vars(axis.hi)}
        axes = {a.var.name for a in all_axes}
        if axis.var.name in needed:
            needed |= names
        elif names & needed & axes:
            needed.add(axis.var.name)
    return tuple(a for a in all_axes if a.var.name in needed)


def _message(access: GuardedAccess, dimension: int, statement: Statement) -> tuple[str, tuple[Expr, ...]]:
    """What to say, and the values that fill its places."""
    index, size, name = access.indices[dimension], access.buffer.shape[dimension], access.buffer.name
    source = index.operand if isinstance(index, Cast) else index
    if isinstance(source, Load) and len(source.indices) <= RECORD_SIZE - 2:
        places = ", ".join(f"{{{n}}}" for n in range(len(source.indices)))
        values, subject = source.indices, f"{source.buffer.name}[{places}]" if places else source.buffer.name
    else:
        axes = [a for a in statement.all_axes if a.var.name in free_vars(index)][: RECORD_SIZE - 2]
        where = ", ".join(f"{a.var.name} = {{{n}}}" for n, a in enumerate(axes))
        values = tuple(a.var for a in axes)
        subject = f"at {where} the index" if where else "the index"
    place = f"{len(values)}:u" if source.dtype == uint64 else str(len(values))
    extent = f"{{{len(values) + 1}}}"
    filling = (*values, index, size)
    if isinstance(size, Const):
        extent, filling = str(size.value), (*values, index)
    text = f"{name} index out of range in `{describe_update(statement)}`: {subject} = {{{place}}}, but {name} has "
    return text + _describe_extent(extent, dimension, access.buffer.rank), filling


def describe_update(statement: Statement) -> str:
    """The statement as one would write it, without its ranges."""
    assign = f"{statement.op}=" if statement.op != "=" else "="
    mark = "!" if statement.initialize else ""
    return f"{describe_access(statement.target.name, statement.indices)} {assign}{mark} {describe(statement.value)}"


def _describe_extent(extent: str, dimension: int, rank: int) -> str:
    if rank == 1:
        return f"{extent} element{'s' * (extent != '1')}"
    if rank == 2:
        return f"{extent} {('row', 'column')[dimension]}{'s' * (extent != '1')}"
    return f"size {extent} in dimension {dimension}"


def emit_guard(guard: Guard, taken: set[str], steps: Mapping[Var, Var]) -> Stmt:
    """The test in loops over its axes, under names not in ``taken``; ``steps`` are the loops of the blocks around."""
    loop_vars = {a.var: Var(fresh_name(a.var.name, taken), span=a.var.span) for a in guard.axes}
    loop_vars = {**steps, **loop_vars}
    body: Stmt = substitute(guard.test(), loop_vars)
    for axis in reversed(guard.axes):
        lo, hi = substitute(axis.lo, loop_vars), substitute(axis.hi, loop_vars)
        body = For(loop_vars[axis.var], lo, hi, "serial", body, span=guard.span)
    return body
