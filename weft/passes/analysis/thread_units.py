"""What runs between two moments at which the threads of a block may have to wait for one another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Const, Expr, Load, Var
from weft.ir.interval import Ranges, bounds
from weft.ir.stmt import Atomic, For, Let, Stmt, Store
from weft.ir.visit import children, rebuild, walk
from weft.passes.analysis.loop_ranges import ranges_inside
from weft.passes.analysis.thread_digits import Digit, join_digits
from weft.passes.analysis.thread_reductions import Candidate
from weft.passes.analysis.thread_shapes import Nest

Touch: TypeAlias = "Load | Store | Atomic | AddressOf"


@dataclass(frozen=True, slots=True, eq=False)
class Unit(Stmt):
    """A thread nest, or a statement of the block as a whole, which is a nest of no loops.

    Stands in the program of a block for what it holds, while that is joined. ``digits`` says which threads run
    which iterations; threads that differ in others do the same, unless only one of them does anything.
    """

    nest: Nest
    digits: dict[str, Digit] = field(default_factory=dict)
    #: A reduction over storage of several threads, and the digits of the thread number it runs over.
    reduction: Candidate | None = None
    group: dict[str, Digit] = field(default_factory=dict)
    span: Any = None

    @property
    def body(self) -> Stmt:
        return self.nest.body

    @property
    def ranges(self) -> Ranges:
        return self.nest.ranges

    @property
    def own(self) -> tuple[Digit, ...]:
        """The digits in which the threads that do different things differ."""
        return join_digits(self.digits.values())

    def touches(self) -> Iterator[tuple[Touch, Ranges]]:
        touched: list[tuple[Touch, Ranges]] = []

        def note(n: Touch, ranges: Ranges) -> Touch:
            touched.append((n, ranges))
            return n

        change_memory(self.body, self.ranges, note)
        return iter(touched)


def change_memory(node: Any, ranges: Ranges, change: Callable[[Any, Ranges], Any]) -> Any:
    """``node`` with ``change`` applied to every touch of memory, given what variables can be there."""
    if isinstance(node, (Buffer, Var, Const)):
        return node
    if isinstance(node, Expr) and not any(isinstance(n, (Load, AddressOf)) for n in walk(node)):
        return node  # as most subscripts
    if isinstance(node, For):
        inside = ranges_inside(node, ranges)
        return rebuild(node, lambda n: change_memory(n, inside if n is node.body else ranges, change))
    if isinstance(node, Let) and node.var.type.is_integer:
        inside = {**ranges, node.var.name: bounds(node.value, ranges)}
        return rebuild(node, lambda n: change_memory(n, inside if n is node.body else ranges, change))
    rebuilt = rebuild(node, lambda n: change_memory(n, ranges, change))
    return change(rebuilt, ranges) if isinstance(rebuilt, (Load, Store, Atomic, AddressOf)) else rebuilt


def headers(s: Stmt) -> list[Expr]:
    """The expressions of ``s`` itself, not of the statements in it."""
    return [e for e in children(s) if isinstance(e, Expr)]
