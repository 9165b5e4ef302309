"""Whether reads may come from a copy: nothing changes the original in between, and all that is copied has a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from weft.ir.buffer import Scope
from weft.ir.expr import idx
from weft.ir.memory import SCOPES, storage_scopes
from weft.ir.stmt import Kernel, Seq, Stmt
from weft.poly.check_parallel import check_parallel
from weft.poly.conflicts import Meeting, Surroundings, written_by
from weft.poly.describe import describe, iteration
from weft.poly.leaves import Access, Leaf, leaves, sizes_of
from weft.poly.solve import Unknown
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.boxes import Box
from weft.schedules.copy_reads import Reads
from weft.schedules.loop_facts import check_valid
from weft.schedules.project import NotProjectable, project
from weft.schedules.redirect import only_plain_accesses
from weft.schedules.rewrite import Rewrite
from weft.schedules.segment import Segment, concurrent_loops, touches_buffer
from weft.schedules.trace import Numerics


def check_reads(reads: Reads, scope: Scope) -> Verdict:
    """Whether ``reads`` may come from a copy in ``scope``."""
    for verdict in (check_place(reads.segment, reads.buffer.name, scope), check_unchanged(reads)):
        if not verdict.ok:
            return verdict
    if _has_values(reads):
        return OK
    reason = f"the copy may read elements of `{reads.buffer.name}` that nothing has written yet"
    return refuse(reason, kind="unproved")


def check_copied(reads: Reads, scope: Scope, copied: Callable[[], Rewrite], numerics: Numerics) -> Verdict:
    """Whether ``reads`` may come from a copy in ``scope`` as ``copied`` would make it."""
    verdict = check_reads(reads, scope)
    return check_result(reads.segment, copied().kernel, reads.buffer.name, numerics) if verdict.ok else verdict


def nothing_reads(buffer: str, at: str | None) -> Verdict:
    return refuse(f"nothing reads `{buffer}`" if at is None else f"nothing below `{at}` reads `{buffer}`")


def check_place(segment: Segment, buffer: str, scope: Scope) -> Verdict:
    """Whether storage of ``scope`` for part of ``buffer`` may be made there."""
    scopes = storage_scopes()
    if scope not in scopes:
        return refuse(f"storage cannot be made in scope {scope!r}", alternatives=tuple(f'scope="{s}"' for s in scopes))
    for loop in segment.loops:
        if loop.kind == "vector":
            return refuse(f"the iterations of the vector loop `{loop.var.name}` are lanes and have no storage each")
        if loop.kind == "thread" and SCOPES[scope].addressed_by == "block":
            return refuse(f"{scope} storage is made outside thread loops such as `{loop.var.name}`")
    if not all(only_plain_accesses(s, buffer) for s in segment.inside):
        return refuse(f"an intrinsic takes the address of `{buffer}`")
    return OK


def check_unchanged(reads: Reads) -> Verdict:
    """Whether no write changes an element that is then read from the copy."""
    segment, name = reads.segment, reads.buffer.name
    around = surroundings(segment)
    for writer, w in segment.accesses(name, reads=False):
        for reader, r in reads.touched:
            witness = Meeting(writer, w, reader, r, around).find([])
            if isinstance(witness, Unknown):
                reason = f"block `{writer.block}` may write elements of `{name}` that are read from the copy"
                return refuse(reason, kind="unproved")
            if witness is not None and r.writes:
                reason = f"iteration {iteration(witness.second)} writes the {witness.element} that it reads"
                return refuse(reason, witness, (f's.cache_write("{name}")',))
            if witness is not None:
                return refuse(f"{describe(witness, w, r)}; the copy would not have it", witness)
    return OK


def surroundings(segment: Segment) -> Surroundings:
    """What two iterations inside ``segment`` have in common."""
    shared = frozenset(loop.var.name for loop in segment.loops)
    return Surroundings(shared, written_by(segment.leaves), sizes_of(segment.kernel))


def _has_values(reads: Reads) -> bool:
    """Whether every element that is copied has a value: arguments do, others where written or read before."""
    name, segment = reads.buffer.name, reads.segment
    if name not in segment.kernel.outputs and any(b.name == name for b in segment.kernel.buffers):
        return True
    whole = Box(tuple(idx(0) for _ in reads.buffer.shape), reads.buffer.shape)
    # Of loops around both, one iteration counts: storage may be made anew in each, and later ones write later.
    if any(_fills(reads, leaf, a, whole, segment.fixed) for leaf, a in written_before(segment, name)):
        return True
    box = reads.box
    return any(_fills(reads, leaf, a, box, segment.fixed) for leaf, a in reads.touched if not a.tests)


def _fills(reads: Reads, leaf: Leaf, access: Access, box: Box, fixed: set[str]) -> bool:
    try:
        projection = project(leaf, access.indices, fixed, reads.segment.ranges)
    except NotProjectable:
        return False
    return projection.fills(box, reads.buffer.shape, reads.segment.ranges)


def written_before(segment: Segment, buffer: str) -> Iterator[tuple[Leaf, Access]]:
    """The writes of ``buffer`` by statements that are done before ``segment`` starts."""
    earlier: list[Stmt] = list(segment.before)
    for parent, child in zip(segment.path, segment.path[1:]):
        if isinstance(parent, Seq):
            place = next(n for n, s in enumerate(parent.body) if s is child)
            earlier += parent.body[:place]
    for s in earlier:
        for leaf in leaves(segment.kernel, s):
            yield from ((leaf, a) for a in leaf.accesses if a.writes and a.buffer.name == buffer)


def check_result(segment: Segment, result: Kernel, buffer: str, numerics: Numerics) -> Verdict:
    """Whether the new program keeps the rules, and concurrent loops around still have nothing in common."""
    valid = check_valid(result)
    if not valid.ok:
        return valid
    if touches_buffer(buffer, reads=False)(segment.kernel.body):
        for loop in concurrent_loops(segment.loops):
            apart = check_parallel(result, loop.var.name, loop.kind, numerics)
            if not apart.ok:
                witness = None if apart.witness is None else replace(apart.witness, after=True)
                return refuse(f"in the concurrent loop `{loop.var.name}` {apart.reason}", witness, kind=apart.kind)
    return OK
