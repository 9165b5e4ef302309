"""Tests of lanes around work on registers moved to the loads in it.

The last vector of a row is not full, so its sums are computed under a test: ``if lane < 7 { sum = sum + X[..] * w }``.
Where whoever reads the sums makes the same test (see `drop_guards`), only the loads need it:
``sum = sum + (lane < 7 ? X[..] : 0) * w`` takes a predicated load, one under a mask, which costs nothing, and no choice
between the old sums and the new. The registers get room for what the lanes beyond the test then compute.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.expr import Const, Expr, Load, Reduce, Select, const, idx
from weft.ir.interval import Ranges, bounds
from weft.ir.simplify import assigned_names
from weft.ir.stmt import For, If, Kernel, Stmt, Store
from weft.ir.visit import rebuild, replace_buffers, walk
from weft.passes.analysis.conditions import guarded, is_pure, mentions, peel_guards
from weft.passes.guards.drop_guards import Dropper, leaves


def guard_loads(kernel: Kernel) -> Kernel:
    """``kernel`` with tests of lanes at loads, where they stood around updates of registers."""
    if not any(isinstance(n, If) for n in walk(kernel)):
        return kernel
    arguments = {b.name: b for b in kernel.buffers}
    mover = _Mover(assigned_names(kernel.body), arguments, {})
    moved = replace(kernel, body=mover.visit(kernel.body, {}))
    return replace_buffers(moved, mover.larger) if mover.larger else moved


@dataclass(slots=True)
class _Mover(Dropper):
    """The walk of `drop_guards`, with the variables of the vector loops around."""

    lanes: list[str] = field(default_factory=list)
    #: Registers with room for all that is stored where tests were moved.
    larger: dict[Buffer, Buffer] = field(default_factory=dict)

    def visit(self, s: Stmt, ranges: Ranges) -> Stmt:
        is_vector = isinstance(s, For) and s.kind == "vector"
        if isinstance(s, For) and is_vector:
            self.lanes.append(s.var.name)
        result = Dropper.visit(self, s, ranges)
        if is_vector:
            self.lanes.pop()
        return result

    def visit_if(self, s: If, ranges: Ranges) -> Stmt:
        if s.otherwise is not None:
            return Dropper.visit_if(self, s, ranges)
        parts, body = peel_guards(s)
        moved = [conjunct for conjunct in parts if self._may_move(conjunct, body, ranges)]
        if not moved:
            return Dropper.visit_if(self, s, ranges)
        for stored, known in leaves(body, ranges):
            assert isinstance(stored, Store)
            self._make_room(stored, known)
        for conjunct in moved:
            body = self._tested(body, conjunct, ranges)
        return guarded([conjunct for conjunct in parts if conjunct not in moved], self.visit(body, ranges))

    def _may_move(self, conjunct: Expr, body: Stmt, ranges: Ranges) -> bool:
        if not is_pure(conjunct, self.changing) or not any(mentions(conjunct, lane) for lane in self.lanes):
            return False
        return all(
            isinstance(s, Store)
            and not any(isinstance(n, Reduce) for n in walk(s))
            and self.is_unseen(conjunct, s)
            and _reach(s, known) is not None
            for s, known in leaves(body, ranges)
        )

    def _make_room(self, s: Store, ranges: Ranges) -> None:
        reach, shape = _reach(s, ranges), self.larger.get(s.buffer, s.buffer).shape
        if reach is not None and not self.is_within(s, ranges):
            room = (max(int(size.value), end) for size, end in zip(shape, reach) if isinstance(size, Const))
            self.larger[s.buffer] = replace(s.buffer, shape=tuple(map(idx, room)))

    def _tested(self, node: Any, conjunct: Expr, ranges: Ranges) -> Any:
        """``node`` with loads of what may not exist only where ``conjunct`` holds."""
        if isinstance(node, Load) and not self.is_within(node, ranges):
            return Select(conjunct, node, const(0, node.dtype), span=node.span)
        return rebuild(node, lambda n: self._tested(n, conjunct, ranges))


def _reach(s: Store, ranges: Ranges) -> list[int] | None:
    """Where the subscripts of ``s`` end in each dimension; None where there cannot be room for all that it stores."""
    spans = [bounds(index, ranges) for index in s.indices]
    if s.buffer.strides is not None or not all(isinstance(size, Const) for size in s.buffer.shape):
        return None
    ends = [span.hi + 1 for span in spans if span.hi is not None and span.lo is not None and span.lo >= 0]
    return ends if len(ends) == len(spans) else None
