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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from weft.ir.affine import affine_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, BinaryOp, Const, Expr, Load, Var, identity, idx
from weft.ir.interval import Interval, bounds
from weft.ir.nesting import path_to, replace_in, sequence
from weft.ir.printer import print_expr
from weft.ir.quick_init import replace
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Block, For, If, Iter, Kernel, Stmt, Store
from weft.ir.visit import free_vars, fresh_name, loads, substitute
from weft.poly.conflicts import after
from weft.poly.infer_spans import knowing_loops
from weft.poly.leaves import Access, Leaf
from weft.poly.refuse_meeting import refuse_meeting
from weft.poly.verdict import Verdict, refuse
from weft.schedules.boxes import infer_box
from weft.schedules.copy_reads import block_iters, check_place, check_result, emit_set, region
from weft.schedules.decompose_reduction import (
    check_initialization,
    find_init,
    outermost_reduction_loop,
    project_init,
    scope_of,
    without_init,
)
from weft.schedules.find import blocks_inside, find_loop, size_ranges
from weft.schedules.layouts import plain_layout
from weft.schedules.loop_facts import check_number, is_true
from weft.schedules.project import NotProjectable, Projection, nest, project
from weft.schedules.redirect import Placement, Redirection
from weft.schedules.rewrite import Rewrite, primitive, taken_names
from weft.schedules.segment import Segment
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
        verdict = factoring.check(axis, numerics)
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
    elements: Projection

    @staticmethod
    def find(kernel: Kernel, loop: For, block: Block, at: str | None = None) -> Factoring:
        name = loop.var.name
        outer = outermost_reduction_loop(kernel, block, at)
        if outer is None or name not in _reduced_names(block):
            raise NotProjectable(f"block `{block.name}` does not reduce over `{name}`")
        whole = find_loop(kernel, outer)
        segment = Segment(kernel, whole, (), (whole,), ())
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

    def check(self, axis: int, numerics: Numerics) -> Verdict:
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
        if not verdict.ok or self.block.init is None:
            return verdict
        return self._check_init()

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
        box = infer_box(old, [self.update], segment.fixed, segment.ranges)
        shape = list(box.extents)
        shape.insert(axis, self.parts())
        storage = Buffer(fresh_name(f"{old.name}_part", taken), old.dtype, tuple(shape))
        place = Placement(old, storage, box.starts, plain_layout(old.rank))
        name = fresh_name(f"{storage.name}_update", taken)
        first = simplify(Binary("-", self.loop.var, self.loop.lo), segment.ranges)
        block = self._start_inside(taken) if start == "inside" else without_init(self.block)
        partial = replace(block, name=name)
        body = replace_in(segment.node, self.block, partial)
        send = Redirection(replace(place, extra=((axis, first),)), taken)
        parts = [send.apply(body, segment.ranges), self._emit_total(place, axis, taken)]
        if start == "before":
            parts.insert(0, self._emit_start(place, axis, taken))
        return Rewrite(segment.replaced(Alloc(storage, sequence(parts))), (name, storage.name))

    def _start_inside(self, taken: set[str]) -> Block:
        """The block with the factored loop as an iterator of its result, and of the reduction what is left."""
        reduced = [i for i in self.block.iters if self.loop.var.name in free_vars(i.binding)]
        form = affine_form(reduced[0].binding) if len(reduced) == 1 else None
        if any(i.kind != "reduce" for i in reduced) or self.loop.lo != idx(0):
            raise self._no_first_step()
        if form is None:
            return self._start_with_loops(reduced, taken)
        if len(form.coefficients) < 2:
            raise self._no_first_step()
        (old,), step = reduced, form.coefficients[self.loop.var.name]
        rest = simplify(substitute(old.binding, {self.loop.var: idx(0)}), self.segment.ranges)
        partial_iter = self._partial_iter(taken)
        left = replace(old, lo=idx(0), hi=self._end_of(rest), binding=rest)
        self._check_first_step(rest)
        whole: dict[Var, Expr] = {old.var: simplify(partial_iter.var * step + left.var)}
        return self._started([*(left if i is old else i for i in self.block.iters), partial_iter], whole)

    def _start_with_loops(self, reduced: Sequence[Iter], taken: set[str]) -> Block:
        """The same where the loop was made of several iterators: the loops that are left are iterators themselves."""
        summed = [i for i in self.block.iters if i.kind == "reduce"]
        names = {name for i in reduced for name in free_vars(i.binding)} - {self.loop.var.name}
        while more := [i for i in summed if i not in reduced and names & free_vars(i.binding).keys()]:
            reduced = [*reduced, *more]
            names |= {name for i in more for name in free_vars(i.binding)}
        path = [s for s in path_to(self.segment.kernel, self.block) if isinstance(s, For) and s.var.name in names]
        known = all(isinstance(s.hi, Const) and s.lo == idx(0) for s in path)
        others = {name for i in self.block.iters if i not in reduced for name in free_vars(i.binding)}
        if not path or len(path) != len(names) or not known or names & others:
            raise self._no_first_step()
        self._check_first_step(idx(0))
        made = [self._partial_iter(taken)]
        for s in path:
            taken.add(made[-1].var.name)
            made.append(Iter(Var(fresh_name(f"v{s.var.name}", taken)), s.lo, s.hi, "reduce", s.var))
        loops: dict[Var, Expr] = {s.var: i.var for s, i in zip((self.loop, *path), made)}
        whole: dict[Var, Expr] = {i.var: substitute(i.binding, loops) for i in reduced}
        return self._started([*(i for i in self.block.iters if i not in reduced), *made], whole)

    def _no_first_step(self) -> NotProjectable:
        return NotProjectable(f"partial results over `{self.loop.var.name}` have no first step of their own")

    def _partial_iter(self, taken: set[str]) -> Iter:
        name = fresh_name(f"v{self.loop.var.name}", taken)
        return Iter(Var(name), idx(0), self.parts(), "spatial", self.loop.var)

    def _started(self, iters: Sequence[Iter], whole: dict[Var, Expr]) -> Block:
        """The block with these iterators, of which others are made as ``whole`` says, starting its sums itself."""
        store = self.block.body
        assert isinstance(store, Store)
        init = Store(store.buffer, store.indices, identity(self.op, self.buffer.dtype))
        body = substitute(self.block.body, whole)
        reads, writes = (tuple(substitute(r, whole) for r in rs) for rs in (self.block.reads, self.block.writes))
        return replace(self.block, iters=tuple(iters), init=init, body=body, reads=reads, writes=writes)

    def _end_of(self, rest: Expr) -> Expr:
        """One more than the greatest value of ``rest``, which starts at 0."""
        interval = bounds(rest, self._inner_ranges())
        if interval.lo != 0 or interval.hi is None:
            raise NotProjectable(f"how far {print_expr(rest)} goes is not known")
        return idx(interval.hi + 1)

    def _check_first_step(self, rest: Expr) -> None:
        """Tests around the block must let the first step of every partial result pass."""
        first: dict[Var, Expr] = {Var(name): idx(0) for name in free_vars(rest)}
        path = [s for s in path_to(self.segment.kernel, self.block) if isinstance(s, (For, If))]
        reduced = _reduced_names(self.block) - {self.loop.var.name}
        first |= {s.var: s.lo for s in path if isinstance(s, For) and s.var.name in reduced}
        loops = [s for s in path if isinstance(s, For)]
        with knowing_loops(loops, size_ranges(self.segment.kernel)) as simple:
            tests = [simple.expr(substitute(s.condition, first)) for s in path if isinstance(s, If)]
        if not all(map(is_true, tests)) or any(not isinstance(s.lo, Const) for s in loops if s.var.name in reduced):
            raise NotProjectable(f"not every partial result over `{self.loop.var.name}` surely has a first step")

    def _with_parts(self, parts: Expr, depth: int, suffix: str, taken: set[str]) -> tuple[Projection, For]:
        """The elements in loops of their own, with the loop through the parts at ``depth`` among them."""
        copied = self.elements.renamed(taken, suffix)
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
        elements, through = self._with_parts(place.storage.shape[axis], len(self.elements.loops), "_all", taken)
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
