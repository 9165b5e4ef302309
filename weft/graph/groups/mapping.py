"""How a fragment maps what it reads to what it writes: all that fusion asks of it, found in its statements."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

from weft.graph.graph import shape_of
from weft.ir.expr import Binary, Const, Expr, Load, Var
from weft.ir.visit import free_vars, loads, walk
from weft.tensor.access import is_scatter, reads_target
from weft.tensor.program import Statement, TensorProgram

#: view: one read each under another subscript. pointwise: an element from a few others, lookups among them.
#: reduction: rows are combined. contraction: sums of products of what has axes of its own. scan: steps in order.
Kind = Literal["view", "pointwise", "reduction", "contraction", "scan"]


@lru_cache(maxsize=1024)
def kind_of(program: TensorProgram) -> Kind:
    """The hardest of its statements."""
    if view_of(program) is not None:
        return "view"
    if any(s.recurrences or reads_target(s) for s in program.statements):
        return "scan"
    if any(is_contraction(s) for s in program.statements):
        return "contraction"
    combines = any(s.op != "=" or s.reduce_axes or is_scatter(s) for s in program.statements)
    return "reduction" if combines else "pointwise"


def is_contraction(statement: Statement) -> bool:
    """Whether it adds up products of elements each of which has an axis that the other has not."""
    if statement.op != "+" or not statement.reduce_axes:
        return False
    used = [_walked(load) & {a.var.name for a in statement.axes} for load in loads(statement.value)]
    return any(a - b and b - a for n, a in enumerate(used) for b in used[n + 1 :])


def is_grouped(statement: Statement) -> bool:
    """Whether it is a contraction of parts, each with factors of its own: a convolution in groups."""
    read = loads(statement.value)
    return is_contraction(statement) and any({*free_vars(i)} - _walked(load) for load in read for i in load.indices)


def _walked(load: Load) -> set[str]:
    """The axes each point of which has an element of its own: not those of which only the group counts, ``f // 4``."""
    return {name for i in load.indices for name in _finely(i)}


def _finely(index: Expr) -> set[str]:
    match index:
        case Binary(op="//", right=Const()):
            return set()
        case Binary(op="+" | "-" | "*", left=left, right=right):
            return _finely(left) | _finely(right)
    return set(free_vars(index))


class View(NamedTuple):
    """``O(axes) = load``: where an element of the one tensor is in the other."""

    axes: tuple[Var, ...]
    load: Load


@lru_cache(maxsize=1024)
def view_of(program: TensorProgram) -> View | None:
    """The map of a program that only says where each element is."""
    if len(program.statements) != 1 or len(program.params) != 1:
        return None
    (statement,) = program.statements
    if statement.op != "=" or not isinstance(statement.value, Load) or not _is_plain(statement):
        return None
    if any(isinstance(n, Load) for i in statement.value.indices for n in walk(i)):
        return None
    return View(tuple(v for v in statement.indices if isinstance(v, Var)), statement.value)


def _is_plain(statement: Statement) -> bool:
    """Whether it sets each element of its target once, under its own subscript."""
    names = [i.name for i in statement.indices if isinstance(i, Var)]
    whole = shape_of([a.hi for a in statement.axes]) == shape_of(statement.target.shape)
    starts = all(isinstance(a.lo, Const) and a.lo.value == 0 for a in statement.axes)
    return names == [a.var.name for a in statement.axes] and len(names) == len(statement.indices) and whole and starts


def definition_of(program: TensorProgram) -> tuple[tuple[Var, ...], Expr] | None:
    """Axes and value of a program that is one formula for each element, so that readers may compute it themselves."""
    if len(program.statements) != 1:
        return None
    (statement,) = program.statements
    if statement.op != "=" or statement.recurrences or not _is_plain(statement):
        return None
    return tuple(v for v in statement.indices if isinstance(v, Var)), statement.value
