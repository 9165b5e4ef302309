"""Part of a buffer copied to storage of its own, and its reads sent there: the rewrite of `cache_read` and `pack`.

Reads may come from a copy where nothing changes the original in between, and all that is copied has a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer, Scope
from weft.ir.expr import Compare, Const, Expr, Load, Select, Var, const, idx
from weft.ir.inequality import all_of
from weft.ir.interval import Interval, bounds
from weft.ir.memory import SCOPES, storage_scopes
from weft.ir.nesting import sequence
from weft.ir.simplify import simplify
from weft.ir.solve import Unknown
from weft.ir.stmt import Alloc, Block, For, Iter, Kernel, Region, Seq, Stmt, Store
from weft.ir.visit import free_vars, fresh_name, loads, names_in, substitute
from weft.poly.check_parallel import check_parallel
from weft.poly.conflicts import Meeting, Surroundings, written_by
from weft.poly.describe import describe, iteration
from weft.poly.leaves import Access, Leaf, leaves, sizes_of
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.borders import Border
from weft.schedules.boxes import Box, infer_box
from weft.schedules.find import blocks_inside, find_block, find_buffer
from weft.schedules.layouts import parse_layout, plain_layout
from weft.schedules.loop_facts import check_valid
from weft.schedules.project import NotProjectable, nest, project
from weft.schedules.redirect import Placement, Redirection, is_in_part, only_plain_accesses
from weft.schedules.rewrite import Rewrite, remembered, taken_names
from weft.schedules.segment import Segment, concurrent_loops, find_segment, touches_buffer
from weft.schedules.trace import Numerics

Readers = tuple[str, ...]
#: A dimension and a place in it: reads elsewhere are no concern.
Slice = tuple[int, int]


@dataclass(frozen=True)
class Reads:
    """The reads of a buffer that are to go to storage, and the statements they are in."""

    buffer: Buffer
    segment: Segment
    touched: list[tuple[Leaf, Access]]
    only: frozenset[str] | None
    #: Whether elements that the buffer does not have are wanted too, where conditions keep reads from them.
    beyond: bool = False
    part: Slice | None = None

    @cached_property
    def box(self) -> Box:
        box = infer_box(self.buffer, self.touched, self.segment.fixed, self.segment.ranges, beyond=self.beyond)
        return box if self.beyond else _within(box, self.buffer)


def _within(box: Box, buffer: Buffer) -> Box:
    """What ``buffer`` has of ``box``, where all sizes are numbers: conditions keep reads from the rest."""
    ends = [simplify(start + n) for start, n in zip(box.starts, box.extents)]
    if not all(isinstance(e, Const) for e in (*box.starts, *ends, *buffer.shape)):
        return box
    starts = [max(0, int(e.value)) for e in box.starts]  # type: ignore[attr-defined]
    last = [min(int(e.value), int(n.value)) for e, n in zip(ends, buffer.shape)]  # type: ignore[attr-defined]
    return Box(tuple(map(idx, starts)), tuple(idx(max(0, b - a)) for a, b in zip(starts, last)))


@remembered
def find_reads(
    kernel: Kernel, buffer: str, at: str | None, readers: Readers | None, part: Slice | None = None
) -> Reads | None:
    """The reads of ``buffer`` below ``at`` (None: in the kernel) by the blocks ``readers`` (None: by all), of ``part``
    of it (None: of any)."""
    old = find_buffer(kernel, buffer)
    reads = touches_buffer(buffer, writes=False)
    if readers is None:
        segment = find_segment(kernel, at, reads)
    else:
        wanted = {id(find_block(kernel, name)) for name in readers}
        segment = find_segment(kernel, at, lambda s: any(id(b) in wanted and reads(b) for b in blocks_inside(s)))
    if segment is None:
        return None
    accesses = segment.accesses(buffer, writes=False)
    touched = [(leaf, a) for leaf, a in accesses if readers is None or leaf.block in readers]
    touched = [(leaf, a) for leaf, a in touched if is_in_part(a.indices, part)]
    return Reads(old, segment, touched, None if readers is None else frozenset(readers), part=part) if touched else None


def copy_reads(
    reads: Reads,
    scope: Scope,
    layout: str | None,
    name: str,
    *,
    fill: bool = False,
    border: Border | None = None,
    prepare: Callable[[Stmt], Stmt] = lambda s: s,
) -> Rewrite:
    """Copies what is read into storage called ``name`` and sends the reads there; made: the copying block, the storage.

    With ``fill`` what only pads the storage is set to zero, with a ``border`` to what that says. Statements that read
    go through ``prepare`` first.
    """
    old, segment, box = reads.buffer, reads.segment, reads.box
    order = plain_layout(old.rank) if layout is None else parse_layout(layout, old.rank)
    taken = taken_names(segment.kernel)
    shape = tuple(simplify(n, segment.ranges) for n in order.shape(box.extents))
    storage = Buffer(fresh_name(name, taken), old.dtype, shape, scope=scope)
    block = fresh_name(f"{storage.name}_load", taken)
    place = Placement(old, storage, box.starts, order)
    copy = emit_copy(place, box, block, segment, taken, fill=fill, border=border)
    send = Redirection(place, taken, reads.only, writes=False, part=reads.part)
    inside = [send.apply(prepare(s), segment.ranges) for s in segment.inside]
    return Rewrite(segment.replaced(Alloc(storage, sequence([copy, *inside]))), (block, storage.name))


def emit_copy(
    place: Placement,
    box: Box,
    name: str,
    segment: Segment,
    taken: set[str],
    *,
    fill: bool,
    border: Border | None = None,
) -> Stmt:
    """Loops through the storage around a block that fetches each element that the buffer has."""
    ranges = dict(segment.ranges)
    loops = [Var(fresh_name(f"ax{d}", taken)) for d in range(place.storage.rank)]
    for var, size in zip(loops, place.storage.shape):
        most = bounds(size, segment.ranges).hi
        ranges[var.name] = Interval(0, None if most is None else most - 1)
    offsets = place.layout.subscripts(loops, place.buffer.rank)
    source = [simplify(start + o, ranges) for start, o in zip(place.starts, offsets)]
    tests = _not_empty(place.buffer, ranges) if border else _tests(place, box, offsets, source, ranges)
    source = [simplify(e, ranges) for e in border.element(source)] if border else source
    scope = {loop.var.name: (loop.lo, loop.hi) for loop in segment.loops}
    scope |= {var.name: (idx(0), size) for var, size in zip(loops, place.storage.shape)}
    value: Expr = Load(place.buffer, tuple(source))
    if tests and fill:
        value = Select(all_of(tests), value, const(0, place.buffer.dtype))
    body = emit_set(name, (place.storage, loops), value, scope, taken)
    through = [For(var, idx(0), size, "serial", Seq(())) for var, size in zip(loops, place.storage.shape)]
    return nest(through, () if fill else tests, body)


def _not_empty(buffer: Buffer, ranges: Mapping[str, Interval]) -> list[Expr]:
    """What must hold for ``buffer`` to have an element: at what is beyond a border, one of those inside is read."""
    tests = (simplify(Compare("<", idx(0), size), ranges) for size in buffer.shape)
    return [t for t in tests if t != Const(True, dt.bool_)]


def _tests(
    place: Placement, box: Box, offsets: Sequence[Expr], source: Sequence[Expr], ranges: Mapping[str, Interval]
) -> list[Expr]:
    """What must hold for an element of the storage to be one of the box and of the buffer."""
    tests: list[Expr] = []
    for d, size in enumerate(place.buffer.shape):
        padded = place.layout.may_pad(d)
        whole = place.starts[d] == idx(0) and box.extents[d] == size
        if padded and not whole:
            tests.append(Compare("<", offsets[d], box.extents[d]))
        if padded or not whole:
            tests += [Compare(">=", source[d], idx(0)), Compare("<", source[d], size)]
    simple = (simplify(t, ranges) for t in tests)
    return list(dict.fromkeys(t for t in simple if t != Const(True, dt.bool_)))


def emit_set(
    name: str,
    target: tuple[Buffer, Sequence[Expr]],
    value: Expr,
    scope: Mapping[str, tuple[Expr, Expr]],
    taken: set[str],
) -> Block:
    """A block that stores ``value`` at ``target``, both given in terms of the loops ``scope``."""
    buffer, subscripts = target
    iters, values = block_iters((*subscripts, value), scope, taken)
    indices = tuple(substitute(e, values) for e in subscripts)
    inside = substitute(value, values)
    reads = dict.fromkeys(region(load.buffer, load.indices, is_certain=load is inside) for load in loads(inside))
    store = Store(buffer, indices, inside)
    return Block(name, iters, tuple(reads), (region(buffer, indices),), None, store)


def region(buffer: Buffer, indices: Sequence[Expr], *, is_certain: bool = True) -> Region:
    """One element, or all of the buffer where it is not certain that the element is touched."""
    if not is_certain or any(loads(i) for i in indices):
        return Region(buffer, tuple(idx(0) for _ in indices), buffer.shape)
    return Region(buffer, tuple(indices), tuple(idx(1) for _ in indices))


def block_iters(
    used: Sequence[Expr], scope: Mapping[str, tuple[Expr, Expr]], taken: set[str]
) -> tuple[tuple[Iter, ...], dict[Var, Expr]]:
    """A spatial iterator for each variable of ``scope`` that is used, and what replaces it inside the block."""
    variables = {n: v for e in used for n, v in free_vars(e).items() if n in scope}
    values: dict[Var, Expr] = {}
    iters = []
    for name, old in variables.items():
        var = Var(fresh_name(f"v{name}", taken))
        values[old] = var
        iters.append(Iter(var, *scope[name], "spatial", old))
    return tuple(iters), values


def check_reads(reads: Reads, scope: Scope) -> Verdict:
    """Whether ``reads`` may come from a copy in ``scope``."""
    for verdict in (check_place(reads.segment, reads.buffer.name, scope), check_unchanged(reads)):
        if not verdict.ok:
            return verdict
    if have_values(reads):
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


def have_values(reads: Reads) -> bool:
    """Whether every element that is copied has a value: where it is set before, or read before."""
    if are_set(reads.segment, reads.buffer):
        return True
    box = reads.box
    return any(_fills(reads.segment, reads.buffer, touch, box) for touch in reads.touched if not touch[1].tests)


def are_set(segment: Segment, buffer: Buffer) -> bool:
    """Whether all elements of ``buffer`` have a value as ``segment`` starts: arguments do, others where written."""
    if any(b.name == buffer.name for b in segment.kernel.buffers) and _is_given(segment.kernel, buffer.name):
        return True
    whole = Box(tuple(idx(0) for _ in buffer.shape), buffer.shape)
    # Of loops around both, one iteration counts: storage may be made anew in each, and later ones write later.
    return any(_fills(segment, buffer, touch, whole) for touch in written_before(segment, buffer.name))


def _is_given(kernel: Kernel, parameter: str) -> bool:
    """Whether ``parameter`` comes with values: an input, or an output that is only ever updated."""
    if parameter not in kernel.outputs:
        return True
    return all(a.update for leaf in leaves(kernel) for a in leaf.accesses if a.writes and a.buffer.name == parameter)


def _fills(segment: Segment, buffer: Buffer, touch: tuple[Leaf, Access], box: Box) -> bool:
    try:
        projection = project(touch[0], touch[1].indices, segment.fixed, segment.ranges)
    except NotProjectable:
        return False
    return projection.fills(box, buffer.shape, segment.ranges)


def written_before(segment: Segment, buffer: str) -> Iterator[tuple[Leaf, Access]]:
    """The writes of ``buffer`` by statements that are done before ``segment`` starts."""
    earlier: list[Stmt] = list(segment.before)
    for parent, child in zip(segment.path, segment.path[1:]):
        if isinstance(parent, Seq):
            place = next(n for n, s in enumerate(parent.body) if s is child)
            earlier += parent.body[:place]
    for s in (s for s in earlier if buffer in names_in(s)):
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
