"""``online``: reductions that wait for the result of another one, all in one pass, with sums rescaled on the way.

::

    for t: M = max(M, x(t))               for t:                          # a step, or a tile of steps
    for t: S = S + exp(x(t) - M) * v(t)     M_before = M
                                            M = max(M, x(t))
                                            M_shift = M == -inf ? 0 : M
                                            M_scale = exp(M_before - M_shift)
                                            S = S * M_scale
                                            S = S + exp(x(t) - M_shift) * v(t)
                                          S = M == -inf ? nan : S

This is the online softmax. It is legal where what is summed depends on the extremum by a factor (`exponents`): then
sums over what came before are brought up to date by another one. Exponents are never above a constant, so nothing
overflows on the way that would not in the end; where all of x so far is minus infinity the sums stay at zero, and are
no number only where they are none in two passes. Iterations of which a mask leaves nothing (`masks`) are left out.
Values that are stored on the way, such as ``W = exp(x - M)``, may be between the loops, if only the loops that follow
use them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Call, Compare, Const, Expr, Load, Select, Var, const, identity
from weft.ir.nesting import path_to, sequence
from weft.ir.numerics import is_fast
from weft.ir.quick_init import replace
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Block, For, If, Kernel, Seq, Stmt, Store
from weft.ir.visit import free_vars, fresh_name, loads, mentions, replace_buffers, rewrite, substitute
from weft.poly.leaves import Access, Leaf, update_of
from weft.poly.verdict import Verdict, refuse
from weft.schedules.copy_reads import emit_set
from weft.schedules.decompose_reduction import scope_of
from weft.schedules.exponents import growth
from weft.schedules.find import blocks_inside, find_loop, loops_around, ranges_at
from weft.schedules.fuse_loops import check_fuse_loops, fuse_loops
from weft.schedules.loop_facts import check_valid
from weft.schedules.masks import narrowed, unmasked, with_one_iteration
from weft.schedules.project import NotProjectable, Projection
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, taken_names
from weft.schedules.segment import Segment
from weft.schedules.tile_extremes import TileExtremes
from weft.schedules.trace import Numerics

_SIGNS = {"max": 1, "min": -1}


class NotOnline(Exception):
    """Why reductions cannot be in one pass."""


@dataclass(frozen=True)
class Member:
    """One of the loops, with the block in it that stores, and the operator by which it combines if it does."""

    loop: For
    block: Block
    store: Store
    op: str | None
    value: Expr


def _member(loop: For, *, is_first: bool) -> Member:
    """What ``loop`` does; before the extremum the first may compute what that is of."""
    blocks = blocks_inside(loop)[-1:] if is_first else blocks_inside(loop)
    if len(blocks) != 1 or not isinstance(blocks[0].body, Store):
        raise NotOnline(f"there is more in loop `{loop.var.name}` than one block that stores one element")
    (block,) = blocks
    assert isinstance(block.body, Store)
    if block.init is not None:
        hint = f's.decompose_reduction("{block.name}", at="{loop.var.name}") first'
        raise NotOnline(f"block `{block.name}` also starts its results: {hint}")
    update = update_of(block.body)
    if update is None or block.body.buffer in [n.buffer for n in loads(update[1])]:
        if block.body.buffer in [n.buffer for n in loads(block.body.value)]:
            raise NotOnline(f"block `{block.name}` uses what it stores in another way than to add to it")
        return Member(loop, block, block.body, None, block.body.value)
    return Member(loop, block, block.body, *update)


@dataclass(frozen=True)
class Passes:
    """Loops that follow one another: the first finds an extremum; others store values and add up sums with it."""

    kernel: Kernel
    around: Seq
    members: tuple[Member, ...]

    @staticmethod
    def find(kernel: Kernel, names: Sequence[str]) -> Passes:
        if len(names) < 2:
            raise NotOnline("one pass is made of two loops or more")
        loops = [find_loop(kernel, name) for name in names]
        outer = [s for s in path_to(kernel, loops[0])[:-1] if isinstance(s, Seq)]
        places = [n for loop in loops for n, s in enumerate(outer[-1].body if outer else ()) if s is loop]
        if len(places) < len(loops) or places != sorted(set(places)):
            raise NotOnline("the loops do not follow one another in one place")
        return Passes(kernel, outer[-1], tuple(_member(x, is_first=x is loops[0]) for x in loops))

    @property
    def first(self) -> Member:
        return self.members[0]

    @property
    def extremum(self) -> Buffer:
        return self.first.store.buffer

    @property
    def sums(self) -> list[Member]:
        return [m for m in self.members[1:] if m.op is not None]

    @cached_property
    def between(self) -> list[Stmt]:
        """Statements among the loops: starts of sums, which can as well be before all of them."""
        body, loops = self.around.body, [m.loop for m in self.members]
        ends = [next(n for n, s in enumerate(body) if s is loop) for loop in (loops[0], loops[-1])]
        return [s for s in body[ends[0] : ends[1]] if not any(s is loop for loop in loops)]

    def segment(self, member: Member, *, whole: bool = False) -> Segment:
        node = member.loop if whole else member.loop.body
        return Segment(self.kernel, node, (), (node,), ())

    def elements(self, member: Member, *, whole: bool = False) -> Projection:
        """What ``member`` stores in one iteration of its loop, or in all of them."""
        segment = self.segment(member, whole=whole)
        leaf, access = _stored(segment, member)
        return segment.project(leaf, access.indices)

    # What is asked of the program

    def check(self) -> None:
        first = self.first
        if first.op not in _SIGNS or not self.extremum.dtype.is_float:
            raise NotOnline(f"block `{first.block.name}` finds no maximum or minimum of floats")
        inside = set[str]()
        for m in self.members[1:]:
            if m.op not in (None, "+"):
                raise NotOnline(f"block `{m.block.name}` combines by `{m.op}`: only sums are rescaled")
            inside.add(m.store.buffer.name) if m.op is None else None
        rest = [s for s in self.around.body if not any(s is m.loop for m in self.members)]
        self._check_between()
        outside = mentions(replace_stmt(self.kernel, self.around, sequence(rest)).body)
        for name in sorted(inside & (outside.loaded | outside.addressed | set(self.kernel.outputs))):
            raise NotOnline(f"`{name}`, which depends on the extremum so far, is used after the loops")
        for m in self.sums:
            self.rate(m)

    def _check_between(self) -> None:
        touched = set[str]()
        for s in self.around.body:
            if any(s is m.loop for m in self.members):
                touched |= mentions(s).loaded | mentions(s).stored | mentions(s).addressed
            elif any(s is b for b in self.between):
                used = mentions(s).loaded | mentions(s).stored | mentions(s).addressed
                if used & touched or mentions(s).addressed:
                    raise NotOnline(f"a statement between the loops uses `{min(used & touched)}`")

    def rate(self, m: Member) -> float:
        """How what ``m`` adds up grows with the extremum."""
        value = self._written_out(m)
        reads = [n for n in loads(value) if n.buffer == self.extremum]
        if not reads:
            return 0.0
        if len(set(reads)) > 1:
            raise NotOnline(f"block `{m.block.name}` uses several elements of `{self.extremum.name}`")
        for bounded in self._bounded(m, reads[0]):
            found = growth(value, reads[0], bounded, _SIGNS[str(self.first.op)])
            if found is not None:
                return found
        raise NotOnline(
            f"what block `{m.block.name}` adds up does not depend on `{self.extremum.name}` by a factor that is at "
            "most a constant, such as exp(x - m) for the maximum m of x"
        )

    def _written_out(self, m: Member) -> Expr:
        """What ``m`` adds up, with values that were stored on the way as their formulas."""
        formulas = {s.store.buffer.name: s for s in self.members[1:] if s.op is None}

        def visit(n: object) -> Expr | None:
            if not isinstance(n, Load) or n.buffer.name not in formulas:
                return None
            s = formulas[n.buffer.name]
            values = _match(s.store.indices, n.indices)
            if values is None or {i.var for i in s.block.iters} - values.keys():
                raise NotOnline(f"block `{m.block.name}` reads other elements of `{n.buffer.name}` than one of a step")
            return rewrite(substitute(s.value, values), visit)

        return rewrite(m.value, visit)

    def _bounded(self, m: Member, read: Load) -> list[Expr]:
        """What the extremum is of, at the steps of ``m``, in whose iterations it has it already."""
        first = self.first
        values = _match(first.store.indices, read.indices)
        free = [i for i in first.block.iters if values is None or i.var not in values]
        if values is None or len(free) != 1:
            return []
        (step,) = free
        found = []
        for i in m.block.iters:
            same = (i.lo, i.hi) == (step.lo, step.hi) and self._reach(first, step.var) == self._reach(m, i.var)
            if same and self._has_tests(m, {**values, step.var: i.var}):
                found.append(substitute(first.value, {**values, step.var: i.var}))
        return found

    def _reach(self, m: Member, iterator: Var) -> tuple[Expr, Expr]:
        """From where to where an iterator goes in one iteration of the loop."""
        binding = next(i.binding for i in m.block.iters if i.var == iterator)
        inner = [x for x in loops_around(self.kernel, m.block) if x.var.name not in self.segment(m).fixed]
        same: dict[Var, Expr] = {m.loop.var: self.first.loop.var + (m.loop.lo - self.first.loop.lo)}
        ends = ({x.var: x.lo for x in inner}, {x.var: x.hi - 1 for x in inner})
        low, high = (simplify(substitute(substitute(binding, end), same), self.segment(m).ranges) for end in ends)
        return low, high

    def _has_tests(self, m: Member, values: Mapping[Var, Expr]) -> bool:
        """Whether ``m`` runs only where what it takes the extremum of was looked at."""
        mine, its = (_tests(self.kernel, x) for x in (m, self.first))
        bindings: dict[Var, Expr] = {i.var: i.binding for i in m.block.iters}
        asked = {simplify(substitute(substitute(t, values), bindings), self.segment(m).ranges) for t in its}
        given = {simplify(substitute(t, bindings), self.segment(m).ranges) for t in mine}
        return None not in its and asked <= given

    # What becomes of it

    def range(self, extremes: TileExtremes) -> tuple[Expr, Expr]:
        """The iterations without those that a mask leaves nothing of: extrema stay, and sums get zeros."""
        first, loop = self.first, self.first.loop
        if not all(map(self.rate, self.sums)):
            return loop.lo, loop.hi
        nothing = identity(str(first.op), self.extremum.dtype)
        blocks = [b for b in blocks_inside(loop) if isinstance(b.body, Store)]
        made = {b.body.buffer: b for b in blocks if isinstance(b.body, Store)}
        block = made.get(first.value.buffer, first.block) if isinstance(first.value, Load) else first.block
        assert isinstance(block.body, Store)
        value = first.value if block is first.block else block.body.value
        leaf = next(x for x in self.segment(first).leaves if x.stmt is block.body)
        conditions = [simplify(leaf.resolve(c)) for c in unmasked(value, nothing)]
        inner = [x for x in loops_around(self.kernel, block) if x.var.name not in self.segment(first).fixed]
        lo, hi = narrowed(loop, conditions, inner, extremes)
        if (lo, hi) == (loop.lo, loop.hi):
            return lo, hi
        return with_one_iteration(loop, lo, hi, ranges_at(self.kernel, loop))

    def merged(self, stand_in: Buffer) -> Kernel:
        """The loops as neighbours, the extremum in later ones read from elsewhere: to see that nothing else is in
        the way."""
        loops = [m.loop for m in self.members]
        later = [replace_buffers(loop, {self.extremum: stand_in}) for loop in loops[1:]]
        body = self.put([*self.between, loops[0], *later])
        return replace_stmt(self.kernel, self.around, Alloc(stand_in, body))

    def put(self, made: Sequence[Stmt]) -> Stmt:
        """The sequence with ``made`` instead of the loops and what is between them."""
        gone = {id(s) for s in (*self.between, *(m.loop for m in self.members))}
        first = next(n for n, s in enumerate(self.around.body) if s is self.first.loop)
        before, after = self.around.body[:first], self.around.body[first:]
        return sequence([*before, *made, *(s for s in after if id(s) not in gone)])


def _tests(kernel: Kernel, m: Member) -> list[Expr]:
    """The tests around a block in its loop, in terms of its iterators where loops are that."""
    path = path_to(kernel, m.block)
    inside = path[next(n for n, s in enumerate(path) if s is m.loop) :]
    found = []
    for test in (s.condition for s in inside if isinstance(s, If)):
        for i in m.block.iters:
            names = [n for n in free_vars(i.binding) if n in free_vars(test)]
            for name in names[-1:]:
                rest = simplify(i.binding - Var(name))
                if name not in free_vars(rest):
                    test = substitute(test, {Var(name): i.var - rest})
        found.append(simplify(test))
    return found


def _stored(segment: Segment, member: Member) -> tuple[Leaf, Access]:
    leaf = next(x for x in segment.leaves if x.stmt is member.store)
    return leaf, next(a for a in leaf.accesses if a.writes)


def _match(pattern: Sequence[Expr], given: Sequence[Expr]) -> dict[Var, Expr] | None:
    """What the variables ``pattern`` is made of are in ``given``."""
    found: dict[Var, Expr] = {}
    for p, g in zip(pattern, given):
        if isinstance(p, Var) and found.setdefault(p, g) != g:
            return None
        if not isinstance(p, Var) and p != g:
            return None
    return found


def check_online(kernel: Kernel, *loops: str, numerics: Numerics) -> Verdict:
    """Later reductions may depend on the first by a factor alone; all else must allow the loops to be merged."""
    try:
        passes = Passes.find(kernel, loops)
        passes.check()
        if not is_fast(numerics):
            return replace(
                refuse(f"rescaling changes how `{passes.sums[0].store.buffer.name}` is rounded"),
                offers=('numerics="fast"',),
            )
        taken = taken_names(kernel)
        merged = passes.merged(replace(passes.extremum, name=fresh_name(f"{passes.extremum.name}_seen", taken)))
        for later in loops[1:]:
            verdict = check_fuse_loops(merged, loops[0], later, numerics=numerics)
            if not verdict.ok:
                return verdict
            merged = fuse_loops(merged, loops[0], later).kernel
        return check_valid(online(kernel, *loops).kernel)
    except (NotOnline, NotProjectable) as why:
        return refuse(str(why))


@primitive(check_online, "cannot compute {*} in one pass")
def online(kernel: Kernel, *loops: str) -> Rewrite:
    """``loops[0]`` does the work of all. Makes the blocks that keep the extremum before, what exponents are relative
    to, the factor, and of each sum those that rescale and finish it."""
    return _Online(Passes.find(kernel, loops)).rewrite()


class _Online:
    """The one loop that several become."""

    def __init__(self, passes: Passes) -> None:
        self.p, self.made = passes, list[str]()
        self.taken = taken_names(passes.kernel)
        m = passes.extremum
        self.before, self.shift = (self._like(m, what) for what in ("before", "shift"))
        self.scales: dict[float, Buffer] = {}
        for rate in dict.fromkeys(map(passes.rate, passes.sums)):
            if rate:
                self.scales[rate] = self._like(m, "scale")

    def _like(self, m: Buffer, what: str) -> Buffer:
        return replace(m, name=fresh_name(f"{m.name}_{what}", self.taken), scope="global", strides=None)

    def rewrite(self) -> Rewrite:
        p, loop = self.p, self.p.first.loop
        body: list[Stmt] = [self._of_extremum(self.before, lambda i: Load(p.extremum, i)), loop.body]
        body.append(self._of_extremum(self.shift, self._shifted))
        body += [self._of_extremum(b, lambda i, r=r: self._factor(r, i)) for r, b in self.scales.items()]
        for m in p.members[1:]:
            if m.op is not None and (rate := p.rate(m)):
                body.append(self._rescale(m, self.scales[rate]))
            own = substitute(m.loop.body, {m.loop.var: simplify(loop.var + (m.loop.lo - loop.lo))})
            body.append(replace_buffers(own, {p.extremum: self.shift}))
        finish = [self._finish(m) for m in p.sums if p.rate(m)]
        extremes = TileExtremes(p.kernel, loop)
        lo, hi = p.range(extremes)
        made = p.put([*p.between, replace(loop, lo=lo, hi=hi, body=sequence(body)), *finish])
        for buffer in (self.before, self.shift, *self.scales.values()):
            made = Alloc(buffer, made)
        gone = {m.loop.var.name: f"was merged into {loop.var.name}" for m in p.members[1:]}
        kernel, place = replace_stmt(p.kernel, p.around, made), [x.var.name for x in loops_around(p.kernel, loop)[:1]]
        kernel = extremes.placed(kernel, find_loop(kernel, place[0])) if place else kernel
        return Rewrite(kernel, tuple(self.made), gone)

    def _shifted(self, i: tuple[Expr, ...]) -> Expr:
        m = Load(self.p.extremum, i)
        return Select(Compare("==", m, self._nothing), const(0, m.dtype), m)

    @property
    def _nothing(self) -> Const:
        """The extremum of nothing."""
        return identity(str(self.p.first.op), self.p.extremum.dtype)

    def _factor(self, rate: float, i: tuple[Expr, ...]) -> Expr:
        gap: Expr = Load(self.before, i) - Load(self.shift, i)
        if rate != -1.0:
            gap = gap * const(-rate, gap.dtype)
        return Call("exp", (gap,), gap.dtype)

    def _set(self, name: str, target: Buffer, elements: Projection, segment: Segment, value: Expr) -> Stmt:
        self.made.append(fresh_name(name, self.taken))
        scope = scope_of(segment, elements)
        return elements.around(emit_set(self.made[-1], (target, elements.indices), value, scope, self.taken))

    def _of_extremum(self, target: Buffer, value: object) -> Stmt:
        """A nest through what the extremum has in an iteration."""
        elements = self.p.elements(self.p.first).renamed(self.taken, f"_{target.name}")
        found = value(elements.indices)  # type: ignore[operator]
        return self._set(target.name, target, elements, self.p.segment(self.p.first), found)

    def _place(self, m: Member, elements: Projection, plain: Projection, *, whole: bool) -> tuple[Expr, ...]:
        """Which extremum goes with the sums ``elements``, whose loops were called as in ``plain``."""
        segment = self.p.segment(m, whole=whole)
        leaf, _ = _stored(segment, m)
        read = next(n for n in loads(self.p._written_out(m)) if n.buffer == self.p.extremum)
        names: dict[Var, Expr] = {a.var: b.var for a, b in zip(plain.loops, elements.loops)}
        place = tuple(simplify(substitute(leaf.resolve(i), names), segment.ranges) for i in read.indices)
        known = segment.fixed | {x.var.name for x in elements.loops}
        if any(free_vars(i).keys() - known for i in place):
            raise NotOnline(f"which extremum block `{m.block.name}` uses depends on the step")
        return place

    def _rescale(self, m: Member, scale: Buffer) -> Stmt:
        plain = self.p.elements(m)
        elements = plain.renamed(self.taken, "_rescale")
        factor = Load(scale, self._place(m, elements, plain, whole=False))
        value = Binary("*", Load(m.store.buffer, elements.indices), factor)
        made = self._set(f"{m.block.name}_rescale", m.store.buffer, elements, self.p.segment(m), value)
        return substitute(made, {m.loop.var: simplify(self.p.first.loop.var + (m.loop.lo - self.p.first.loop.lo))})

    def _finish(self, m: Member) -> Stmt:
        """Sums relative to an extremum that is infinite are no number, where anything was added up."""
        plain = self.p.elements(m, whole=True)
        elements = plain.renamed(self.taken, "_finish")
        place = self._place(m, elements, plain, whole=True)
        own = Load(m.store.buffer, elements.indices)
        is_nothing = Compare("==", Load(self.p.extremum, place), self._nothing)
        value = Select(is_nothing, const(math.nan, own.dtype), own)
        return self._set(f"{m.block.name}_finish", m.store.buffer, elements, self.p.segment(m, whole=True), value)
