"""The reads of an expression, each with the tests that decide whether it is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.ir.expr import Axis, Binary, Expr, Load, Reduce, Select, Unary
from weft.ir.visit import Node, children
from weft.tensor.boundary import Outside


@dataclass(frozen=True, slots=True)
class GuardedLoad:
    """``load`` is evaluated at points of ``axes`` where all ``guards`` hold."""

    load: Load
    axes: tuple[Axis, ...]
    guards: tuple[Expr, ...]


def guarded_loads(e: Node, axes: tuple[Axis, ...] = (), guards: tuple[Expr, ...] = ()) -> Iterator[GuardedLoad]:
    """Every load in program order, except those whose outside is defined (their own subscripts still count)."""
    match e:
        case Select(condition=condition, then=then, otherwise=otherwise):
            parts: list[tuple[Node, tuple[Expr, ...]]] = [(condition, ()), (then, (condition,))]
            parts.append((otherwise, (Unary("!", condition),)))
        case Binary(op="&&", left=left, right=right):
            parts = [(left, ()), (right, (left,))]
        case Binary(op="||", left=left, right=right):
            parts = [(left, ()), (right, (Unary("!", left),))]
        case Outside(load=load, fill=fill):
            parts = [(i, ()) for i in (*load.indices, *((fill,) if fill is not None else ()))]
        case Reduce(axes=inner, value=value):
            axes, parts = axes + inner, [(value, ())]
        case _:
            if isinstance(e, Load):
                yield GuardedLoad(e, axes, guards)
            parts = [(c, ()) for c in children(e)]
    for part, more in parts:
        yield from guarded_loads(part, axes, guards + more)
