"""``rfactor``: a reduction as partial results over one of its loops, and a reduction of those.

The accumulator is privatized, one for each iteration of the loop.

``for k_o, k_i: S += x`` with ``rfactor(k_i)`` becomes::

    alloc S_part[8]
    for k_i: S_part[k_i] = 0
    for k_o, k_i: S_part[k_i] += x          # iterations of k_i are now independent
    for k_i: S += S_part[k_i]

The partial results live just outside the outermost loop of the reduction. With ``start="inside"`` the block of the
partial results starts them itself at its first step, as the reduction did, where that step surely runs::

    for k_o, k_i: S_part[k_i] = 0 if k_o == 0;  S_part[k_i] += x

With ``at`` they live in the body of that loop of the reduction, and are added to the result in each of its iterations.

Each element gets each of its partial results once. Where several iterations choose the same element, as in
``O[w + k]``, loops through the box of all elements combine them; those in it that none chooses are left as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, BinaryOp, Const, Expr, Load, Var, identity, idx
from weft.ir.interval import Interval, bounds
from weft.ir.nesting import replace_in, sequence
from weft.ir.printer import print_expr
from weft.ir.quick_init import replace
from weft.ir.simplify import simplify
from weft.ir.solve import Form
from weft.ir.stmt import Alloc, Block, For, Kernel, Stmt, Store
from weft.ir.visit import free_vars, fresh_name, loads, substitute
from weft.poly.conflicts import Meeting, after, find_conflict
from weft.poly.describe import refuse_conflict
from weft.poly.leaves import Access, Leaf
from weft.poly.refuse_meeting import refuse_meeting
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.boxes import Box, infer_box
from weft.schedules.copy_reads import (
    Reads,
    block_iters,
    check_place,
    check_result,
    emit_set,
    have_values,
    region,
    surroundings,
)
from weft.schedules.decompose_reduction import (
    check_initialization,
    find_init,
    outermost_reduction_loop,
    project_init,
    scope_of,
    without_init,
)
from weft.schedules.find import blocks_inside, find_loop
from weft.schedules.layouts import plain_layout
from weft.schedules.loop_facts import check_number
from weft.schedules.project import NotProjectable, Projection, nest, project, through_box
from weft.schedules.redirect import Placement, Redirection
from weft.schedules.rewrite import Rewrite, primitive, taken_names
from weft.schedules.segment import Segment
from weft.schedules.start_parts import PartStart
from weft.schedules.trace import Numerics

Start = Literal["before", "inside"]


def check_rfactor(
    kernel: Kernel, loop: str, axis: int = 0, start: Start = "before", at: str | None = None, *, numerics: Numerics
) -> Verdict:
    """Partial results change the order of the reduction: legal for exact ones, or under fast numerics."""
    loop_node = find_loop(kernel, loop)
    blocks = _reducing(loop_node)
    if len(blocks) != 1:
        return refuse(f"`{loop}` has {len(blocks) or 'no'} blocks inside; a reduction is one")
    wrong = check_number("axis", axis, 0)
    if not wrong.ok:
        return wrong
    if start not in get_args(Start):
        return refuse(f"partial results start {' or '.join(get_args(Start))} their nest, not {start!r}")
    try:
        factoring = Factoring.find(kernel, loop_node, blocks[0], at)
        verdict = factoring.check(axis, start, numerics)
        if not verdict.ok:
            return verdict
        return check_result(factoring.segment, factoring.rewrite(axis, start).kernel, factoring.buffer.name, numerics)
    except NotProjectable as why:
        return refuse(str(why))


@primitive(check_rfactor, "cannot make partial results over loop `{0}`")
def rfactor(kernel: Kernel, loop: str, axis: int = 0, start: Start = "before", at: str | None = None) -> Rewrite:
    """Makes the block of the partial results and the storage they are in."""
    loop_node = find_loop(kernel, loop)
    return Factoring.find(kernel, loop_node, _reducing(loop_node)[0], at).rewrite(axis, start)


def _reducing(loop: For) -> list[Block]:
    """The blocks inside that reduce over ``loop``; where there is only one block, that one."""
    inside = blocks_inside(loop)
    return inside if len(inside) == 1 else [b for b in inside if loop.var.name in _reduced_names(b)]


def _reduced_names(block: Block) -> set[str]:
    return {name for i in block.iters if i.kind == "reduce" for name in free_vars(i.binding)}


@dataclass(frozen=True)
class Factoring:
    """A reduction block and the loop to be factored out of it."""

    loop: For
    block: Block
    segment: Segment
    update: tuple[Leaf, Access]
    #: What the update touches, in its own loops.
    elements: Projection

    @staticmethod
    def find(kernel: Kernel, loop: For, block: Block, at: str | None = None) -> Factoring:
        name = loop.var.name
        outer = outermost_reduction_loop(kernel, block, at)
        if outer is None or name not in _reduced_names(block):
            raise NotProjectable(f"block `{block.name}` does not reduce over `{name}`")
        whole = find_loop(kernel, outer)
        segment = Segment(kernel, whole, (), (whole,), ())
        if name in segment.fixed:
            raise NotProjectable(f"`{name}` is not inside `{at}`: one iteration of it is all there is to combine")
        update = _find_update(segment, block)
        try:
            elements = project(update[0], update[1].indices, segment.fixed, segment.ranges)
        except NotProjectable as why:
            reason = f"which elements block `{block.name}` updates cannot be told beforehand: {why}"
            raise NotProjectable(reason) from None
        return Factoring(loop, block, segment, update, elements)

    @property
    def buffer(self) -> Buffer:
        return self.update[1].buffer

    @property
    def op(self) -> BinaryOp:
        op: BinaryOp = self.update[1].update  # type: ignore[assignment]
        return op

    @cached_property
    def box(self) -> Box:
        return infer_box(self.buffer, [self.update], self.segment.fixed, self.segment.ranges)

    @cached_property
    def repeated(self) -> Verdict:
        """A no, with two of them, where several iterations of the loops of the elements may choose the same one."""
        leaf, access = self.update
        names = [x.var.name for x in self.elements.loops]

        def differ(meeting: Meeting) -> list[list[Form]]:
            return [[after(name)] for name in names if not meeting.quickly_agree(name)]

        found = find_conflict([(leaf, access, leaf, access)], surroundings(self.segment), differ)
        return OK if found is None else refuse_conflict(found[0], access, access)

    @cached_property
    def combined(self) -> Projection:
        """The elements that have partial results, each once."""
        if self.repeated.ok:
            return self.elements
        return through_box(self.buffer, self.box, self.segment.ranges)

    def check(self, axis: int, start: Start, numerics: Numerics) -> Verdict:
        name, access = self.buffer.name, self.update[1]
        if axis > self.buffer.rank:
            return refuse(f"partial results of `{name}` have {self.buffer.rank + 1} dimensions; axis {axis} is none")
        if numerics == "strict" and not access.is_exact:
            return self._refuse_rounding()
        if any(loop.var.name == self.loop.var.name for loop in self.elements.loops):
            return refuse(f"`{self.loop.var.name}` also decides which element is updated")
        others = [leaf.block for leaf, _ in self.segment.accesses(name) if leaf.block != self.block.name]
        if others:
            outer = self.segment.node
            assert isinstance(outer, For)
            return refuse(f"block `{others[0]}` uses `{name}` inside the reduction loop `{outer.var.name}` too")
        verdict = check_place(self.segment, name, "global")
        if not verdict.ok:
            return verdict
        if not self.repeated.ok:
            return self._check_repeated(start)
        return OK if self.block.init is None else self._check_init()

    def _check_repeated(self, start: Start) -> Verdict:
        """Elements of the box that no iteration chooses are combined with nothing, so they must have a value."""
        name = self.buffer.name
        if start == "inside":
            reason = "partial results have one first step in all"
        elif self.block.init is not None:
            reason = f"block `{self.block.name}` also starts its results"
        elif have_values(Reads(self.buffer, self.segment, [self.update], None)):
            return OK
        else:
            reason = f"elements of `{name}` between those that are updated may have no value"
        return replace(self.repeated, reason=f"{self.repeated.reason}, and {reason}")

    def _refuse_rounding(self) -> Verdict:
        name = self.buffer.name
        reason = f"adding up partial results changes the order in which {self.buffer.dtype} `{name}` is rounded"
        order = [after(self.loop.var.name)]
        verdict = refuse_meeting(reason, self.segment.kernel, [self.update], [self.update], [order])
        return replace(verdict, offers=('numerics="fast"',))

    def _check_init(self) -> Verdict:
        verdict = check_initialization(self.segment, self.block)
        if verdict.ok and not project_init(self.segment, self.block).covers(self.elements):
            return refuse(f"block `{self.block.name}` initializes only some of the elements it updates")
        return verdict

    def parts(self) -> Expr:
        """How many partial results each element has."""
        leaf, ranges = self.update[0], self.segment.ranges
        inner = {x.name: x for x in leaf.loops}
        lo, hi = leaf.resolve(self.loop.lo), leaf.resolve(self.loop.hi)
        if (free_vars(lo).keys() | free_vars(hi).keys()) & (inner.keys() - self.segment.fixed):
            most = bounds(hi, self._inner_ranges()).hi
            if most is None or simplify(lo) != idx(0):
                raise NotProjectable(f"the range of `{self.loop.var.name}`, {print_expr(hi)}, has no known bound")
            return idx(most)
        extent = simplify(hi - lo, ranges)
        return extent if isinstance(extent, Const) else simplify(Binary("max", extent, idx(0)), ranges)

    def _inner_ranges(self) -> dict[str, Interval]:
        """What variables can be where the block is."""
        ranges = dict(self.segment.ranges)
        for x in self.update[0].loops:
            if x.hi is not None:
                ranges[x.name] = bounds(x.lo, ranges).union(bounds(x.hi - 1, ranges))
        return ranges

    def rewrite(self, axis: int, start: Start) -> Rewrite:
        segment, old = self.segment, self.buffer
        taken = taken_names(segment.kernel)
        shape = list(self.box.extents)
        shape.insert(axis, self.parts())
        storage = Buffer(fresh_name(f"{old.name}_part", taken), old.dtype, tuple(shape))
        place = Placement(old, storage, self.box.starts, plain_layout(old.rank))
        name = fresh_name(f"{storage.name}_update", taken)
        first = simplify(Binary("-", self.loop.var, self.loop.lo), segment.ranges)
        block = self._started_inside(taken) if start == "inside" else without_init(self.block)
        partial = replace(block, name=name)
        body = replace_in(segment.node, self.block, partial)
        send = Redirection(replace(place, extra=((axis, first),)), taken)
        parts = [send.apply(body, segment.ranges), self._emit_total(place, axis, taken)]
        if start == "before":
            parts.insert(0, self._emit_start(place, axis, taken))
        return Rewrite(segment.replaced(Alloc(storage, sequence(parts))), (name, storage.name))

    def _started_inside(self, taken: set[str]) -> Block:
        ranges = self._inner_ranges()
        parts = PartStart(self.segment, self.block, self.loop, self.elements, self.parts(), ranges)
        return parts.started(identity(self.op, self.buffer.dtype), taken)

    def _with_parts(self, parts: Expr, depth: int, suffix: str, taken: set[str]) -> tuple[Projection, For]:
        """The elements in loops of their own, with the loop through the parts at ``depth`` among them."""
        copied = self.combined.renamed(taken, suffix)
        var = Var(fresh_name(self.loop.var.name + suffix, taken))
        through = For(var, idx(0), parts, "serial", sequence([]))
        loops = [replace(x, kind="serial") for x in copied.loops]
        loops.insert(min(depth, len(loops)), through)
        return replace(copied, loops=tuple(loops)), through

    def _emit_start(self, place: Placement, axis: int, taken: set[str]) -> Stmt:
        """Every partial result at the identity."""
        elements, through = self._with_parts(place.storage.shape[axis], axis, "_init", taken)
        kept = _element(place, elements, axis, through, self.segment)
        name = fresh_name(f"{place.storage.name}_init", taken)
        start = identity(self.op, self.buffer.dtype)
        scope = scope_of(self.segment, elements)
        return nest(elements.loops, elements.guards, emit_set(name, (place.storage, kept), start, scope, taken))

    def _emit_total(self, place: Placement, axis: int, taken: set[str]) -> Stmt:
        """The partial results combined, in the block that had the reduction."""
        elements, through = self._with_parts(place.storage.shape[axis], len(self.combined.loops), "_all", taken)
        kept = _element(place, elements, axis, through, self.segment)
        scope = scope_of(self.segment, elements)
        start = self._start([x for x in elements.loops if x is not through])
        iters, values = block_iters((*elements.indices, *kept, *start), scope, taken)
        kinds = tuple(replace(i, kind="reduce") if i.binding == through.var else i for i in iters)
        indices = tuple(substitute(i, values) for i in elements.indices)
        partial = Load(place.storage, tuple(substitute(i, values) for i in kept))
        old = Load(self.buffer, indices)
        store = Store(self.buffer, indices, Binary(self.op, old, partial), span=self.block.span)
        init = Store(self.buffer, indices, substitute(start[0], values)) if start else None
        first = [] if init is None else loads(init.value)
        reads = tuple(dict.fromkeys(region(x.buffer, x.indices) for x in (old, partial, *first)))
        block = Block(self.block.name, kinds, reads, (region(self.buffer, indices),), init, store, span=self.block.span)
        return nest(elements.loops, elements.guards, block)

    def _start(self, spatial: Sequence[For]) -> list[Expr]:
        """The value that the block initializes with, if it does, in terms of the loops ``spatial``."""
        if not isinstance(self.block.init, Store):
            return []
        leaf, _ = find_init(self.segment, self.block)
        names: dict[Var, Expr] = {a.var: b.var for a, b in zip(self.elements.loops, spatial)}
        return [substitute(leaf.resolve(self.block.init.value), names)]


def _element(place: Placement, elements: Projection, axis: int, through: For, segment: Segment) -> tuple[Expr, ...]:
    return replace(place, extra=((axis, through.var),)).element(elements.indices, elements.ranges(segment.ranges))


def _find_update(segment: Segment, block: Block) -> tuple[Leaf, Access]:
    """The statement of ``block`` if it is one update of one element."""
    inits = {id(block.init)}
    touched = [leaf for leaf in segment.leaves if leaf.block == block.name and id(leaf.stmt) not in inits]
    writes = [(leaf, a) for leaf in touched for a in leaf.accesses if a.writes]
    if len(writes) != 1 or not isinstance(block.body, Store):
        raise NotProjectable(f"block `{block.name}` does more than update one element")
    leaf, access = writes[0]
    if access.update is None or any(a is not access and a.buffer == access.buffer for a in leaf.accesses):
        raise NotProjectable(f"block `{block.name}` is not of the form `X = X + value`, where the value does not use X")
    return leaf, access
