"""``cache_write``: a buffer's elements kept in storage of their own through the body of a loop.

Below loop ``at`` reads and writes of the buffer go to the storage. First the elements that are initialized there
are, and those whose old value counts are fetched; at the end exactly those written are stored to the buffer::

    for j_o:                                   for j_o:
      for k, i_i, j_i:                           alloc C_cache: float32[14, 32] register
        block C: init C[...] = 0                 for i_i, j_i: block C_init: C_cache[i_i, j_i] = 0
                 C[...] += ...                   for k, i_i, j_i: block C: C_cache[i_i, j_i] += ...
                                                 for i_i, j_i: block C_store: C[...] = C_cache[i_i, j_i]

Each iteration of ``at`` has a private copy: privatization, and for registers the tile of sums of a matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from weft.ir.affine import linear_form
from weft.ir.buffer import Buffer, Scope
from weft.ir.expr import Expr, Load, Unary, Var
from weft.ir.inequality import all_of
from weft.ir.nesting import exits, replace_in, sequence
from weft.ir.simplify import simplify
from weft.ir.solve import Unknown
from weft.ir.stmt import Alloc, Block, Kernel, Stmt, Store
from weft.ir.visit import free_vars, fresh_name, substitute
from weft.poly.conflicts import Meeting
from weft.poly.describe import describe
from weft.poly.leaves import Access, Leaf
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.boxes import infer_box
from weft.schedules.copy_reads import check_place, check_result, emit_set, surroundings
from weft.schedules.decompose_reduction import (
    check_initialization,
    earlier,
    emit_initialization,
    project_init,
    scope_of,
    without_init,
)
from weft.schedules.find import blocks_inside, find_block, find_buffer
from weft.schedules.layouts import plain_layout
from weft.schedules.loop_facts import has_barrier
from weft.schedules.project import NotProjectable, Projection
from weft.schedules.redirect import Placement, Redirection
from weft.schedules.rewrite import Rewrite, primitive, remembered, taken_names
from weft.schedules.segment import Segment, segment_touching
from weft.schedules.trace import Numerics


def check_cache_write(
    kernel: Kernel, buffer: str, at: str | None = None, scope: Scope = "register", *, numerics: Numerics
) -> Verdict:
    """All accesses below go to the storage, so what matters is what it starts with and what is stored in the end."""
    old = written_buffer(kernel, buffer)
    segment = segment_touching(kernel, at, old.name)
    if segment is None or not segment.accesses(old.name, reads=False):
        return refuse(f"nothing {'' if at is None else f'below `{at}` '}writes `{old.name}`")
    for verdict in (check_place(segment, old.name, scope), _check_flow(segment, old)):
        if not verdict.ok:
            return verdict
    for block in initializers(segment, old):
        verdict = check_initialization(segment, block)
        if not verdict.ok:
            return verdict
    try:
        result = _keep(kernel, old, at, scope).kernel
    except OldValuesUnknown as why:
        return why.verdict
    except NotProjectable as why:
        return refuse(f"which elements of `{old.name}` are written cannot be told beforehand: {why}")
    return check_result(segment, result, old.name, numerics)


@primitive(check_cache_write, "cannot keep what is written to `{0}` in storage of its own")
def cache_write(kernel: Kernel, buffer: str, at: str | None = None, scope: Scope = "register") -> Rewrite:
    """Makes the block that stores, and the storage."""
    return _keep(kernel, written_buffer(kernel, buffer), at, scope)


@remembered
def _keep(kernel: Kernel, old: Buffer, at: str | None, scope: Scope) -> Rewrite:
    segment = segment_touching(kernel, at, old.name)
    assert segment is not None
    plan = make_plan(segment, old)
    box = infer_box(old, segment.accesses(old.name), segment.fixed, segment.ranges)
    taken = taken_names(kernel)
    storage = Buffer(fresh_name(f"{old.name}_cache", taken), old.dtype, box.extents, scope=scope)
    place = Placement(old, storage, box.starts, plain_layout(old.rank))
    starts = [_emit_load(p, place, segment, taken) for p in plan.fetched]
    starts += [emit_initialization(segment, b, taken, place)[0] for b in initializers(segment, old)]
    stores = [_emit_store(p, place, segment, taken) for p in plan.stored]
    send = Redirection(place, taken)
    inside = [send.apply(_without_inits(s, segment, old), segment.ranges) for s in segment.inside]
    body = Alloc(storage, sequence([*starts, *inside, *(nest for nest, _ in stores)]))
    return Rewrite(segment.replaced(body), (stores[0][1], storage.name))


def written_buffer(kernel: Kernel, name: str) -> Buffer:
    """The buffer of that name, or the one that the block of that name writes."""
    buffers = {b.name: b for b in blocks_inside(kernel)}
    if name in buffers and all(w.buffer.name != name for w in buffers[name].writes):
        return find_block(kernel, name).writes[0].buffer
    return find_buffer(kernel, name)


def initializers(segment: Segment, buffer: Buffer) -> list[Block]:
    """The blocks inside that initialize elements of ``buffer`` before they update them."""
    blocks = (b for s in segment.inside for b in blocks_inside(s))
    return [b for b in blocks if isinstance(b.init, Store) and b.init.buffer == buffer]


def _check_flow(segment: Segment, buffer: Buffer) -> Verdict:
    name = buffer.name
    for s in segment.inside:
        if exits(s):
            return refuse("a break, continue or return may leave before the storage is stored")
        if has_barrier(s):
            return refuse(f"other threads may look at `{name}` at the barrier below")
    for leaf, access in segment.accesses(name):
        if access.atomic:
            return refuse(f"other threads update `{name}` too: block `{leaf.block}` does so atomically")
    return OK


class OldValuesUnknown(NotProjectable):
    """Which elements have to be fetched first is not known; ``verdict`` may have two iterations that show it."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


@dataclass
class Plan:
    """What the storage starts with from the buffer, and what goes back to it."""

    fetched: list[Projection] = field(default_factory=list)
    stored: list[Projection] = field(default_factory=list)

    def store(self, elements: Projection) -> None:
        if not any(p.covers(elements) for p in self.stored):
            self.stored = [p for p in self.stored if not elements.covers(p)] + [elements]

    def fetch(self, elements: Projection) -> None:
        if not any(p.covers(elements) for p in self.fetched):
            self.fetched.append(elements)


def make_plan(segment: Segment, buffer: Buffer) -> Plan:
    """Which elements are fetched first and stored in the end."""
    plan = Plan()
    started = [project_init(segment, b) for b in initializers(segment, buffer)]
    starting = {id(b.init) for b in initializers(segment, buffer)}
    written: list[tuple[Leaf, Projection]] = []
    for child in segment.inside:
        touching = [leaf for leaf in segment.leaves_in(child) if id(leaf.stmt) not in starting]
        for leaf in touching:
            for access in (a for a in leaf.accesses if a.buffer.name == buffer.name):
                elements = segment.project(leaf, access.indices)
                if access.reads:
                    _plan_read(plan, segment, (leaf, access), elements, started, written)
                if access.writes:
                    plan.store(elements)
                    written.append((leaf, elements))
        started += [p for leaf, p in written if any(leaf is f for f in touching)]
    for elements in (project_init(segment, b) for b in initializers(segment, buffer)):
        plan.store(elements)
    return plan


def _plan_read(
    plan: Plan,
    segment: Segment,
    read: tuple[Leaf, Access],
    elements: Projection,
    started: list[Projection],
    written: list[tuple[Leaf, Projection]],
) -> None:
    """Fetches what is read and has its value from before."""
    leaf, access = read
    if any(p.covers(elements) for p in started) or any(_just_before(w, p, leaf, elements) for w, p in written):
        return
    for p in started:
        if p.covers(elements):  # what those before leave: an element may be started by one block or by another
            return
        extra = same_elements(p, elements)
        if extra and not _by_element(extra, elements):
            name = access.buffer.name
            reason = f"which elements of `{name}` block `{leaf.block}` reads before they start is not known"
            raise OldValuesUnknown(refuse(reason, kind="unproved"))
        if extra:
            old_value = simplify(Unary("!", all_of(extra)))
            elements = replace(elements, guards=(*elements.guards, old_value))
    setter = _earlier_setter(segment, leaf, access)
    if setter is not None:
        raise OldValuesUnknown(setter)
    if access.tests:
        reason = f"a condition decides whether block `{leaf.block}` reads `{access.buffer.name}`"
        raise OldValuesUnknown(refuse(reason, kind="unproved"))
    plan.fetch(elements)


def _by_element(conditions: list[Expr], elements: Projection) -> bool:
    """Whether ``conditions`` depend on the element alone, not on which of the iterations that touch it is meant."""
    loops = {loop.var.name for loop in elements.loops}
    told = _told_by_element(elements)
    return all(free_vars(c).keys() & loops <= told for c in conditions)


def _told_by_element(elements: Projection) -> set[str]:
    """The loops of which no two iterations touch one element."""
    loops = {loop.var.name for loop in elements.loops}
    told: set[str] = set()
    for i in elements.indices:
        moving = [atom for atom in linear_form(i).terms if free_vars(atom).keys() & loops]
        told |= {atom.name for atom in moving if isinstance(atom, Var) and len(moving) == 1}
    return told


def _earlier_setter(segment: Segment, leaf: Leaf, access: Access) -> Verdict | None:
    """What is wrong where a block sets, inside ``segment``, an element before ``access`` reads it."""
    around = surroundings(segment)
    starting = {id(b.init) for b in initializers(segment, access.buffer)}
    for writer, write in segment.accesses(access.buffer.name, reads=False):
        if write is access or id(writer.stmt) in starting:
            continue
        meeting = Meeting(writer, write, leaf, access, around)
        for order, equal in earlier(segment, writer, leaf):
            conflict = meeting.find(order, equal)
            if conflict is None:
                continue
            reader, setter = ("a statement" if f.block is None else f"block `{f.block}`" for f in (leaf, writer))
            reason = f"{reader} reads elements of `{access.buffer.name}` that {setter} may set before"
            if isinstance(conflict, Unknown):
                return refuse(reason, kind="unproved")
            return refuse(f"{reason}: {describe(conflict, write, access)}", conflict)
    return None


def _just_before(writer: Leaf, written: Projection, reader: Leaf, read: Projection) -> bool:
    """Whether the same iteration has written the element just before."""
    same = [a.node is b.node for a, b in zip(writer.loops, reader.loops)]
    tests = {(t.condition, t.holds) for t in reader.tests}
    return (
        len(writer.loops) == len(reader.loops)
        and all(same)
        and writer.order < reader.order
        and written.indices == read.indices
        and all((t.condition, t.holds) in tests for t in writer.tests)
    )


def same_elements(narrow: Projection, wide: Projection) -> list[Expr]:
    """The further guards under which ``narrow`` has the elements of ``wide``; none where they differ otherwise."""
    without = Projection(narrow.indices, narrow.loops, ())
    if not without.covers(Projection(wide.indices, wide.loops, ())):
        return []
    names = {a.var: b.var for a, b in zip(narrow.loops, wide.loops)}
    guards = [substitute(g, names) for g in narrow.guards]
    return [g for g in guards if g not in wide.guards]


def _without_inits(s: Stmt, segment: Segment, buffer: Buffer) -> Stmt:
    for block in initializers(segment, buffer):
        if any(b is block for b in blocks_inside(s)):
            s = replace_in(s, block, without_init(block))
    return s


def _emit_load(projection: Projection, place: Placement, segment: Segment, taken: set[str]) -> Stmt:
    # Concurrent iterations may read one element, but may not both store it to the storage.
    apart = _told_by_element(projection)
    loops = tuple(x if x.var.name in apart else replace(x, kind="serial") for x in projection.loops)
    elements = replace(projection, loops=loops).renamed(taken, "_load")
    name = fresh_name(f"{place.buffer.name}_load", taken)
    kept = place.element(elements.indices, elements.ranges(segment.ranges))
    value = Load(place.buffer, elements.indices)
    return elements.around(emit_set(name, (place.storage, kept), value, scope_of(segment, elements), taken))


def _emit_store(projection: Projection, place: Placement, segment: Segment, taken: set[str]) -> tuple[Stmt, str]:
    elements = projection.renamed(taken, "_store")
    name = fresh_name(f"{place.buffer.name}_store", taken)
    kept = place.element(elements.indices, elements.ranges(segment.ranges))
    target, value = (place.buffer, elements.indices), Load(place.storage, kept)
    return elements.around(emit_set(name, target, value, scope_of(segment, elements), taken)), name
