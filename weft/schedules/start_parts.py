"""Partial results that their block starts itself, at its first step: ``rfactor(start="inside")``.

The loop that is factored out becomes an iterator of the result, and the reduction has the loops that are left. Their
first iteration starts a partial result, so it must be one for every partial result that is read later: it runs
whatever the loops around, and no loop of the reduction chooses the element too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.ir.affine import affine_form
from weft.ir.expr import Const, Expr, Var, idx
from weft.ir.interval import Interval, bounds
from weft.ir.nesting import path_to
from weft.ir.printer import print_expr
from weft.ir.quick_init import replace
from weft.ir.simplify import simplify
from weft.ir.solve import variables
from weft.ir.stmt import Block, For, If, Iter, Store
from weft.ir.visit import free_vars, fresh_name, substitute
from weft.poly.infer_spans import knowing_loops
from weft.schedules.find import size_ranges
from weft.schedules.loop_facts import is_true, most_trips
from weft.schedules.project import NotProjectable, Projection
from weft.schedules.segment import Segment


@dataclass(frozen=True)
class PartStart:
    """The reduction ``block`` in ``segment``, ``loop`` factored out; it updates ``elements``, each has ``parts``."""

    segment: Segment
    block: Block
    loop: For
    elements: Projection
    parts: Expr
    #: What variables can be where the block is.
    ranges: dict[str, Interval]

    def started(self, start: Expr, taken: set[str]) -> Block:
        """The block that starts its partial results with ``start``."""
        left, whole = self._split_iters(taken)
        block = replace(self.block, iters=tuple(self._fixed_apart(i) for i in left))
        self._check_first_step(block)
        store = self.block.body
        assert isinstance(store, Store)
        init = Store(store.buffer, store.indices, start)
        body = substitute(store, whole)
        reads, writes = (tuple(substitute(r, whole) for r in rs) for rs in (block.reads, block.writes))
        return replace(block, init=init, body=body, reads=reads, writes=writes)

    def _split_iters(self, taken: set[str]) -> tuple[list[Iter], dict[Var, Expr]]:
        """Iterators with the loop as one of its own, and what the old ones are made of."""
        reduced = [i for i in self.block.iters if self.loop.var.name in free_vars(i.binding)]
        form = affine_form(reduced[0].binding) if len(reduced) == 1 else None
        if any(i.kind != "reduce" for i in reduced) or self.loop.lo != idx(0):
            raise self._no_first_step()
        if form is None:
            return self._loops_as_iters(reduced, taken)
        if len(names := variables(form)) < 2 or min(form[n] for n in names) < 0:
            raise self._no_first_step()
        (old,), step = reduced, form[self.loop.var.name]
        rest = simplify(substitute(old.binding, {self.loop.var: idx(0)}), self.segment.ranges)
        partial_iter = self._partial_iter(taken)
        left = replace(old, lo=idx(0), hi=self._end_of(rest), binding=rest)
        iters = [*(left if i is old else i for i in self.block.iters), partial_iter]
        return iters, {old.var: simplify(partial_iter.var * step + left.var)}

    def _loops_as_iters(self, reduced: Sequence[Iter], taken: set[str]) -> tuple[list[Iter], dict[Var, Expr]]:
        """The same where the loop was made of several iterators: the loops that are left are iterators themselves."""
        summed = [i for i in self.block.iters if i.kind == "reduce"]
        names = {name for i in reduced for name in free_vars(i.binding)} - {self.loop.var.name}
        while more := [i for i in summed if i not in reduced and names & free_vars(i.binding).keys()]:
            reduced = [*reduced, *more]
            names |= {name for i in more for name in free_vars(i.binding)}
        path = [s for s in self._path_loops if s.var.name in names]
        known = all(isinstance(s.hi, Const) and s.lo == idx(0) for s in path)
        others = {name for i in self.block.iters if i not in reduced for name in free_vars(i.binding)}
        if not path or len(path) != len(names) or not known or names & others:
            raise self._no_first_step()
        made = [self._partial_iter(taken)]
        for s in path:
            taken.add(made[-1].var.name)
            made.append(Iter(Var(fresh_name(f"v{s.var.name}", taken)), s.lo, s.hi, "reduce", s.var))
        loops: dict[Var, Expr] = {s.var: i.var for s, i in zip((self.loop, *path), made)}
        whole: dict[Var, Expr] = {i.var: substitute(i.binding, loops) for i in reduced}
        return [*(i for i in self.block.iters if i not in reduced), *made], whole

    @property
    def _path_loops(self) -> list[For]:
        return [s for s in path_to(self.segment.kernel, self.block) if isinstance(s, For)]

    def _partial_iter(self, taken: set[str]) -> Iter:
        name = fresh_name(f"v{self.loop.var.name}", taken)
        return Iter(Var(name), idx(0), self.parts, "spatial", self.loop.var)

    def _end_of(self, rest: Expr) -> Expr:
        """One more than the greatest value of ``rest``, which starts at 0."""
        interval = bounds(rest, self.ranges)
        if interval.lo != 0 or interval.hi is None:
            raise NotProjectable(f"how far {print_expr(rest)} goes is not known")
        return idx(interval.hi + 1)

    def _fixed_apart(self, i: Iter) -> Iter:
        """An iterator of the reduction that stays where it is while the partial results live is none of theirs."""
        is_fixed = free_vars(i.binding).keys() <= self.segment.fixed
        return replace(i, kind="spatial") if i.kind == "reduce" and is_fixed else i

    def _check_first_step(self, block: Block) -> None:
        """The first iteration of the loops that are left must be the first step of every partial result."""
        inside = [s for s in self._path_loops if s.var.name not in self.segment.fixed]
        left = {name for i in block.iters if i.kind == "reduce" for name in free_vars(i.binding)}
        choosing = {x.var.name for x in self.elements.loops}
        counted = left | choosing | {self.loop.var.name}
        reduction = [s for s in inside if s.var.name in left]
        is_apart = left.isdisjoint(choosing) and left <= {s.var.name for s in inside}
        ends = free_vars(self.loop.lo).keys() | free_vars(self.loop.hi).keys()
        others = (s for s in inside if s.var.name not in counted)
        is_whole = ends.isdisjoint(s.var.name for s in inside) and all(map(self._runs_once, others))
        if not is_apart or not is_whole or not all(map(self._surely_runs, reduction)) or not self._passes(reduction):
            raise NotProjectable(f"not every partial result over `{self.loop.var.name}` surely has a first step")

    def _surely_runs(self, loop: For) -> bool:
        least = bounds(simplify(loop.hi - loop.lo, self.ranges), self.ranges).lo
        return isinstance(loop.lo, Const) and least is not None and least > 0

    def _runs_once(self, loop: For) -> bool:
        return most_trips(loop, self.ranges) in (0, 1)

    def _passes(self, reduction: Sequence[For]) -> bool:
        """Whether all tests around the block hold in the first iteration of the loops ``reduction``."""
        first: dict[Var, Expr] = {s.var: s.lo for s in reduction}
        tests = [s.condition for s in path_to(self.segment.kernel, self.block) if isinstance(s, If)]
        with knowing_loops(self._path_loops, size_ranges(self.segment.kernel)) as simple:
            return all(is_true(simple.expr(substitute(test, first))) for test in tests)

    def _no_first_step(self) -> NotProjectable:
        return NotProjectable(f"partial results over `{self.loop.var.name}` have no first step of their own")
