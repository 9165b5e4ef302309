"""Branches that only choose a value, as that choice: if-conversion.

``if a < b { k = b } else { k = a }`` becomes ``k = a < b ? b : a``, and two branches that store to the same element
become one store. Lanes of a vector that went different ways would take both, one after the other, each under a mask
and a test whether any lane goes that way. What is chosen from must be quick to compute and unable to fail.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Binary, Call, Expr, Load, Reduce, Select, Var
from weft.ir.nesting import flat, sequence
from weft.ir.stmt import Assign, If, Kernel, Stmt, Store
from weft.ir.visit import count_nodes, free_vars, map_statements, walk

#: Nodes of a value that may be computed where it is not used.
LONGEST = 12
_DIVISIONS = ("/", "//", "%", "tdiv", "tmod")


def convert_ifs(kernel: Kernel) -> Kernel:
    """``kernel`` with choices of values where there were branches."""
    return replace(kernel, body=_visit(kernel.body))


def _visit(s: Stmt) -> Stmt:
    s = map_statements(s, _visit)
    if not isinstance(s, If):
        return s
    return _chosen_store(s) or _chosen_values(s) or s


def _chosen_store(s: If) -> Stmt | None:
    """One store where both branches are a store to the same element."""
    then, other = s.then, s.otherwise
    if not isinstance(then, Store) or not isinstance(other, Store) or then.buffer != other.buffer:
        return None
    if then.indices != other.indices or not (_is_quick(then.value) and _is_quick(other.value)):
        return None
    return replace(then, value=Select(s.condition, then.value, other.value, span=s.span))


def _chosen_values(s: If) -> Stmt | None:
    """Assignments where the branches only assign variables, each once, from what was there before."""
    then, other = _assigned(s.then), _assigned(s.otherwise)
    if then is None or other is None:
        return None
    read = set(free_vars(s.condition))
    variables = sorted(dict.fromkeys((*then, *other)), key=lambda v: v.name in read)
    if sum(v.name in read for v in variables) > 1:  # only what is assigned last may be read by the condition
        return None
    chosen = (Select(s.condition, then.get(v, v), other.get(v, v), span=s.span) for v in variables)
    return sequence([Assign(v, value, span=s.span) for v, value in zip(variables, chosen)])


def _assigned(s: Stmt | None) -> dict[Var, Expr] | None:
    """The value of each variable after ``s``, where it does nothing but assign them."""
    values: dict[Var, Expr] = {}
    for stmt in () if s is None else flat(s):
        if not isinstance(stmt, Assign) or stmt.var in values or not _is_quick(stmt.value):
            return None
        values[stmt.var] = stmt.value
    written = {v.name for v in values}
    others = ({*free_vars(value)} - {v.name} for v, value in values.items())
    return None if any(written & names for names in others) else values


def _is_quick(value: Expr) -> bool:
    """Whether ``value`` may be computed where it is not used."""
    if count_nodes(value) > LONGEST:
        return False
    slow = (isinstance(n, (Load, Call, Reduce)) or (isinstance(n, Binary) and n.op in _DIVISIONS) for n in walk(value))
    return not any(slow)
