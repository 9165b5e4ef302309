"""The parts of an expression, each with the tests that decide whether it is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from weft.ir.expr import Axis, Binary, Const, Expr, Reduce, Select, Var
from weft.ir.visit import Node, children


@dataclass(frozen=True, slots=True)
class Test:
    """A condition that holds (or fails) wherever something is evaluated, or a statement runs."""

    condition: Expr
    holds: bool = True


class Evaluated(NamedTuple):
    """``node`` is evaluated at the points of ``axes`` where all ``tests`` hold."""

    node: Node
    tests: tuple[Test, ...] = ()
    axes: tuple[Axis, ...] = ()


def evaluated(
    e: Node, axes: tuple[Axis, ...] = (), inside: Callable[[Node], tuple[Node, ...]] = children
) -> Iterator[Evaluated]:
    """``e`` and the parts in it, parents first, in program order; ``inside`` says which parts a node evaluates."""
    pending = [Evaluated(e, (), axes)]
    while pending:
        part = pending.pop()
        yield part
        node, tests, axes = part
        if isinstance(node, (Const, Var)):
            continue
        if isinstance(node, Select):
            otherwise = Evaluated(node.otherwise, (*tests, Test(node.condition, False)), axes)
            then = Evaluated(node.then, (*tests, Test(node.condition)), axes)
            pending += [otherwise, then, Evaluated(node.condition, tests, axes)]
        elif isinstance(node, Binary) and node.op in ("&&", "||"):
            right = Evaluated(node.right, (*tests, Test(node.left, node.op == "&&")), axes)
            pending += [right, Evaluated(node.left, tests, axes)]
        else:
            if isinstance(node, Reduce):
                axes = (*axes, *node.axes)
            pending += [Evaluated(n, tests, axes) for n in reversed(inside(node))]
