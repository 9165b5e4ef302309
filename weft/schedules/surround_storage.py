"""``surround_storage``: a temporary kept with zeros around it, so that reads beyond its edges need no test.

::

    alloc T[8]                                           alloc T[10]
      for x: T[x] = ...                                    T[0] = 0; T[9] = 0
      for x, k                                       =>    for x: T[x + 1] = ...
        B[x] += (inside T ? T[x + k - 1] : 0)              for x, k
                                                             B[x] += T[x + k]

As `surround` does it for what others have written, but without a copy: who computes the elements puts them in their
places, and only the halo around them is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Const, Expr, Load, Select, Var, const, idx
from weft.ir.interval import bounds
from weft.ir.nesting import sequence
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Atomic, For, Kernel, Stmt, Store
from weft.ir.visit import Node, fresh_name, mentions, rewrite, walk
from weft.poly.verdict import Verdict, refuse
from weft.schedules.boxes import Box
from weft.schedules.copy_reads import Reads, emit_set, find_reads, nothing_reads
from weft.schedules.find import find_alloc, loops_around
from weft.schedules.loop_facts import check_valid
from weft.schedules.make_blocks import declare_accesses
from weft.schedules.redirect import only_plain_accesses
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, taken_names
from weft.schedules.surround import opened
from weft.schedules.trace import Numerics


@dataclass(frozen=True)
class _Around:
    """How many elements a buffer gets before and behind its own, in each dimension, and the ``box`` that is read."""

    box: Box
    before: tuple[int, ...]
    behind: tuple[int, ...]

    def shape(self, buffer: Buffer) -> tuple[Expr, ...]:
        sides = zip(self.before, buffer.shape, self.behind)
        return tuple(simplify(idx(first) + size + idx(last)) for first, size, last in sides)

    def subscripts(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """Where elements with these subscripts lie now."""
        return tuple(simplify(i + idx(n)) for i, n in zip(indices, self.before))


def check_surround_storage(kernel: Kernel, buffer: str, *, numerics: Numerics) -> Verdict:
    """There must be reads that give zero outside, and their reach must be a number of elements."""
    alloc = find_alloc(kernel, buffer)
    reads = _find_reads(kernel, alloc)
    if reads is None:
        return nothing_reads(buffer, None)
    if not only_plain_accesses(kernel.body, buffer) or buffer in mentions(kernel.body).hinted:
        return refuse(f"a call reaches into the memory of `{buffer}`")
    if alloc.buffer.strides is not None or alloc.buffer.scope != "global":
        return refuse(f"`{buffer}` is not stored row by row in memory of its own")
    selects = (n for n in walk(alloc.body) if isinstance(n, Select))
    if not any(opened(n, alloc.buffer) is not None for n in selects):
        return refuse(f"no read of `{buffer}` gives zero outside of it")
    if _around(reads) is None:
        return refuse(f"how far beyond `{buffer}` is read is not known", kind="unproved")
    return check_valid(surround_storage(kernel, buffer).kernel)


@primitive(check_surround_storage, "cannot keep zeros around `{0}`")
def surround_storage(kernel: Kernel, buffer: str) -> Rewrite:
    """Makes the blocks that set what is around, one for each side, before anything else is done with the storage."""
    alloc = find_alloc(kernel, buffer)
    reads = _find_reads(kernel, alloc)
    around = None if reads is None else _around(reads)
    assert reads is not None, "the check answers this first"
    assert around is not None, "and this"
    wide = replace(alloc.buffer, shape=around.shape(alloc.buffer))
    made = list(_zeros(reads, around, wide, taken_names(kernel)))
    body = sequence([*(s for _, s in made), _moved(alloc, wide, around)])
    return Rewrite(replace_stmt(kernel, alloc, Alloc(wide, body, span=alloc.span)), tuple(name for name, _ in made))


def _find_reads(kernel: Kernel, alloc: Alloc) -> Reads | None:
    loops = loops_around(kernel, alloc)
    reads = find_reads(kernel, alloc.buffer.name, loops[-1].var.name if loops else None, None)
    return None if reads is None else replace(reads, beyond=True)


def _around(reads: Reads) -> _Around | None:
    before, behind = [], []
    for start, extent, size in zip(reads.box.starts, reads.box.extents, reads.buffer.shape):
        first = bounds(start, reads.segment.ranges).lo
        last = bounds(simplify(start + extent - size, reads.segment.ranges), reads.segment.ranges).hi
        if first is None or last is None or not isinstance(size, Const):
            return None
        before.append(max(0, -first))
        behind.append(max(0, last))
    return _Around(reads.box, tuple(before), tuple(behind))


def _moved(alloc: Alloc, wide: Buffer, around: _Around) -> Stmt:
    """What is done with the storage, without tests and with all elements in their new places."""
    old = alloc.buffer

    def without_test(n: Node) -> Node | None:
        return opened(n, old) if isinstance(n, Select) else None

    def move(n: Node) -> Node | None:
        if isinstance(n, (Load, Store, Atomic)) and n.buffer == old:
            return replace(n, buffer=wide, indices=around.subscripts(n.indices))
        return None

    return declare_accesses(rewrite(rewrite(alloc.body, without_test), move), [old.name])


def _zeros(reads: Reads, around: _Around, wide: Buffer, taken: set[str]) -> Iterator[tuple[str, Stmt]]:
    """Nests that set what is read beyond the elements, with the names of their blocks."""
    box, sizes, ranges = around.box, reads.buffer.shape, reads.segment.ranges
    ends = [simplify(start + n, ranges) for start, n in zip(box.starts, box.extents)]
    for d, size in enumerate(sizes):
        sides: list[tuple[int, Expr, Expr]] = [(around.before[d], box.starts[d], Binary("min", idx(0), ends[d]))]
        sides.append((around.behind[d], Binary("max", size, box.starts[d]), ends[d]))
        for count, first, end in sides:
            if count > 0:
                spans = [*zip(box.starts, ends)]
                spans[d] = (first, end)
                name = fresh_name(f"{wide.name}_zero", taken)
                yield name, _set_zero(name, reads, around, wide, spans, taken)


def _set_zero(
    name: str, reads: Reads, around: _Around, wide: Buffer, spans: Sequence[tuple[Expr, Expr]], taken: set[str]
) -> Stmt:
    ranges = reads.segment.ranges
    loops = [Var(fresh_name(f"ax{d}", taken)) for d in range(wide.rank)]
    counts = [simplify(Binary("max", idx(0), end - first), ranges) for first, end in spans]
    places = around.subscripts([first + var for var, (first, _) in zip(loops, spans)])
    scope = {loop.var.name: (loop.lo, loop.hi) for loop in reads.segment.loops}
    scope |= {var.name: (idx(0), count) for var, count in zip(loops, counts)}
    stmt: Stmt = emit_set(name, (wide, places), const(0, wide.dtype), scope, taken)
    for var, count in reversed([*zip(loops, counts)]):
        stmt = For(var, idx(0), count, "serial", stmt)
    return stmt
