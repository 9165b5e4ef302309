"""One nest of a program by itself: what steps on its loops look at, where many are taken one after another.

A step that splits, reorders or binds loops asks about what is inside these loops and about the loops and storage around
them, never about nests beside. So a scheduler that cuts one nest of a large program into digits takes these steps on
that nest alone, with what is around it, and puts it back: the same steps with the same proofs, each of which goes
through a tenth of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from weft.ir.errors import ScheduleError
from weft.ir.nesting import inner_statements, path_to, replace_in
from weft.ir.quick_init import replace
from weft.ir.stmt import Alloc, For, Kernel, Seq, Stmt
from weft.ir.visit import names_in
from weft.schedules.find import find_block, listed


@dataclass(frozen=True, slots=True)
class NestAlone(Kernel):
    """A program without the nests beside one of its nests; names in these are ``reserved``."""

    reserved: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Focus:
    """A ``nest`` of a ``whole`` program, and the loops ``around`` it with storage that it uses, outermost first."""

    whole: Kernel
    nest: Stmt
    around: tuple[For | Alloc, ...]
    alone: NestAlone

    def put_back(self, kernel: Kernel) -> Kernel:
        """The whole program with the nest as it is in ``kernel``."""
        inside = kernel.body
        for outer in self.around:
            if not _is_same(outer, inside):
                raise ScheduleError(
                    "a step on a nest alone changed what is around it",
                    help="take steps on the loops around a nest outside `s.focus`",
                )
            (inside,) = inner_statements(inside)
        if inside is self.nest:
            return self.whole
        return replace(self.whole, body=replace_in(self.whole.body, self.nest, inside))


def find_focus(kernel: Kernel, block: str) -> Focus | None:
    """The nest of ``block`` by itself; None where no others are beside it, or more than loops and storage around it."""
    path = path_to(kernel, find_block(kernel, block))
    last = max((n for n, s in enumerate(path) if isinstance(s, Seq)), default=None)
    if last is None:
        return None
    outer = [s for s in path[:last] if not isinstance(s, Seq)]
    around = [s for s in outer if isinstance(s, Alloc) or (isinstance(s, For) and s.ahead is None)]
    if len(around) < len(outer):
        return None
    body = nest = path[last + 1]
    kept = [s for s in around if isinstance(s, For) or s.buffer.name in names_in(nest)]
    for s in reversed(kept):
        body = replace(s, body=body)
    reserved = _beside(path).union(s.buffer.name for s in around if isinstance(s, Alloc))
    if isinstance(kernel, NestAlone):
        reserved |= kernel.reserved
    alone = NestAlone(kernel.name, kernel.params, kernel.outputs, body, reserved=reserved, span=kernel.span)
    return Focus(kernel, nest, tuple(kept), alone)


def _beside(path: Sequence[Stmt]) -> frozenset[str]:
    """The names in what stands beside the statements of ``path``."""
    found: set[str] = set()
    for s, inside in pairwise(path):
        for other in inner_statements(s):
            if other is not inside:
                found.update(names_in(other), [b.name for b in listed(other).blocks])
    return frozenset(found)


def _is_same(one: For | Alloc, other: Stmt) -> bool:
    """Whether both are the same but for what is inside."""
    if isinstance(one, Alloc):
        return isinstance(other, Alloc) and one.buffer == other.buffer
    same = isinstance(other, For) and (one.var, one.lo, one.hi, one.kind) == (other.var, other.lo, other.hi, other.kind)
    return same and other.ahead is None  # type: ignore[attr-defined]
