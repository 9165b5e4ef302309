"""The statements in the body of a loop between which storage of their own is put."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from weft.ir.expr import Expr
from weft.ir.interval import Interval
from weft.ir.nesting import path_to, sequence
from weft.ir.stmt import Alloc, For, Kernel, Let, Seq, Stmt
from weft.ir.visit import mentions
from weft.poly.leaves import Access, Leaf, leaves
from weft.schedules.find import find_loop, ranges_at
from weft.schedules.project import Projection, project
from weft.schedules.rewrite import remembered, replace_stmt


@dataclass(frozen=True)
class Segment:
    """``inside``: consecutive statements of the sequence (or the single statement) ``node``."""

    kernel: Kernel
    node: Stmt
    before: tuple[Stmt, ...]
    inside: tuple[Stmt, ...]
    after: tuple[Stmt, ...]

    @cached_property
    def path(self) -> list[Stmt]:
        return path_to(self.kernel, self.node)

    @cached_property
    def loops(self) -> list[For]:
        """The loops around it, outermost first."""
        return [s for s in self.path[:-1] if isinstance(s, For)]

    @cached_property
    def fixed(self) -> set[str]:
        """The variables that have one value throughout."""
        lets = {s.var.name for s in self.path[:-1] if isinstance(s, Let)}
        return {v.name for v in self.kernel.scalars} | {loop.var.name for loop in self.loops} | lets

    @cached_property
    def ranges(self) -> dict[str, Interval]:
        return ranges_at(self.kernel, self.node)

    @cached_property
    def leaves(self) -> list[Leaf]:
        return [leaf for s in self.inside for leaf in self.leaves_in(s)]

    @cached_property
    def _found(self) -> dict[int, list[Leaf]]:
        return {id(s): leaves(self.kernel, s) for s in self.inside}

    def leaves_in(self, s: Stmt) -> list[Leaf]:
        """Those of ``s``, one of the statements inside."""
        return self._found[id(s)]

    @cached_property
    def _projections(self) -> dict[tuple[int, tuple[Expr, ...]], Projection]:
        return {}

    def project(self, leaf: Leaf, indices: tuple[Expr, ...]) -> Projection:
        """The elements ``indices`` that ``leaf``, one of those inside, touches in one iteration around."""
        key = (id(leaf), indices)
        if key not in self._projections:
            self._projections[key] = project(leaf, indices, self.fixed, self.ranges)
        return self._projections[key]

    def accesses(self, buffer: str, *, reads: bool = True, writes: bool = True) -> list[tuple[Leaf, Access]]:
        """The accesses of ``buffer`` inside that read or, as asked, write."""
        return [
            (leaf, a)
            for leaf in self.leaves
            for a in leaf.accesses
            if a.buffer.name == buffer and ((reads and a.reads) or (writes and a.writes))
        ]

    def replaced(self, inside: Stmt) -> Kernel:
        return replace_stmt(self.kernel, self.node, sequence([*self.before, inside, *self.after]))


def find_segment(kernel: Kernel, at: str | None, touches: Callable[[Stmt], bool]) -> Segment | None:
    """From the first to the last statement directly in the body of loop ``at`` that ``touches``.

    Without ``at``, directly in the kernel. None where nothing does.
    """
    node = kernel.body if at is None else find_loop(kernel, at).body
    while True:
        if isinstance(node, (Alloc, Let)):
            node = node.body
            continue
        parts = node.body if isinstance(node, Seq) else (node,)
        touched = [n for n, s in enumerate(parts) if touches(s)]
        if not touched:
            return None
        first, last = touched[0], touched[-1]
        only = parts[first]
        if first == last and isinstance(only, (Alloc, Let, Seq)):
            node = only
            continue
        return Segment(kernel, node, tuple(parts[:first]), tuple(parts[first : last + 1]), tuple(parts[last + 1 :]))


@remembered
def segment_touching(kernel: Kernel, at: str | None, buffer: str) -> Segment | None:
    """`find_segment` of what accesses ``buffer``."""
    return find_segment(kernel, at, touches_buffer(buffer))


def touches_buffer(buffer: str, *, reads: bool = True, writes: bool = True) -> Callable[[Stmt], bool]:
    """Whether a statement accesses ``buffer``."""

    def touches(s: Stmt) -> bool:
        m = mentions(s)
        if buffer in m.addressed or buffer in m.hinted:
            return reads or writes
        return (reads and buffer in m.loaded) or (writes and buffer in m.stored)

    return touches


def concurrent_loops(loops: Sequence[For]) -> Iterator[For]:
    return (loop for loop in loops if loop.kind not in ("serial", "unroll"))
