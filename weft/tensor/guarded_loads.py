"""The reads of an expression, each with the tests that decide whether it is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.ir.evaluated import evaluated
from weft.ir.expr import Axis, Expr, Load, Reduce, Unary
from weft.ir.visit import Node, children
from weft.tensor.boundary import Outside


@dataclass(frozen=True, slots=True)
class GuardedLoad:
    """``load`` is evaluated at points of ``axes`` where all ``guards`` hold."""

    load: Load
    axes: tuple[Axis, ...]
    guards: tuple[Expr, ...]


def guarded_loads(e: Node, axes: tuple[Axis, ...] = ()) -> Iterator[GuardedLoad]:
    """Every load in program order, except those whose outside is defined (their own subscripts still count)."""
    for node, tests, around in evaluated(e, axes, _inside):
        if isinstance(node, Load):
            guards = tuple(t.condition if t.holds else Unary("!", t.condition) for t in tests)
            yield GuardedLoad(node, around, guards)


def _inside(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Outside):
        return (*node.load.indices, *((node.fill,) if node.fill is not None else ()))
    return (node.value,) if isinstance(node, Reduce) else children(node)
