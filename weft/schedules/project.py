"""The elements a statement touches, each once: its nest without the loops that only come back to them.

``for k: for i: if i < n: C[i] += ...`` touches what ``for i: if i < n`` runs through, provided ``k`` runs at
all. The loops left out stand at their first iteration; a guard they take part in must be weakest there, so that
what remains of it says exactly whether any iteration passes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from weft.ir import dtype as dt
from weft.ir.affine import linear_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Compare, Const, Expr, Var, idx
from weft.ir.inequality import FLIPPED, all_of, conjuncts, slack
from weft.ir.interval import Interval, bounds, range_between, ranges_through
from weft.ir.simplify import simplify
from weft.ir.stmt import For, If, Seq, Stmt
from weft.ir.visit import free_vars, fresh_name, loads, rebuild, substitute, walk
from weft.poly.leaves import Leaf, LoopRange
from weft.schedules.boxes import Box

Ranges = Mapping[str, Interval]


class NotProjectable(Exception):
    """The elements cannot be told without running the loops; the text says why."""


@dataclass(frozen=True, slots=True)
class Projection:
    """``indices`` of the elements, in ``loops`` (outermost first) wherever all ``guards`` hold."""

    indices: tuple[Expr, ...]
    loops: tuple[For, ...]
    guards: tuple[Expr, ...]

    def named(self, names: Sequence[str]) -> Projection:
        """The same with its loops called ``names``."""
        new: dict[Var, Expr] = {x.var: Var(name, span=x.var.span) for x, name in zip(self.loops, names)}
        loops = [
            replace(x, var=Var(name, span=x.var.span), lo=substitute(x.lo, new), hi=substitute(x.hi, new))
            for x, name in zip(self.loops, names)
        ]
        guards = tuple(substitute(g, new) for g in self.guards)
        return Projection(tuple(substitute(i, new) for i in self.indices), tuple(loops), guards)

    def covers(self, other: Projection) -> bool:
        """Whether every element of ``other`` is one of these, as far as comparing the nests tells."""
        mine, theirs = (p.named([f"#{n}" for n in range(len(p.loops))]) for p in (self, other))
        same = mine.indices == theirs.indices and len(mine.loops) == len(theirs.loops)
        ranges = all((a.lo, a.hi) == (b.lo, b.hi) for a, b in zip(mine.loops, theirs.loops))
        return same and ranges and set(mine.guards) <= set(theirs.guards)

    def fills(self, box: Box, sizes: Sequence[Expr], ranges: Ranges) -> bool:
        """Whether these are surely all elements of ``box`` that a buffer of ``sizes`` has."""
        if any(isinstance(n, Binary) and n.op in ("//", "%") for i in self.indices for n in walk(i)):
            self = self.joined().taken_apart()
        inner_ranges = self.ranges(ranges)
        within = {gap_of(Compare("<", i, n), inner_ranges) for i, n in zip(self.indices, sizes)}
        if any(gap_of(g, inner_ranges) not in within for g in self.guards):
            return False
        left = {loop.var: loop for loop in self.loops}
        sides = zip(self.indices, box.starts, box.extents)
        return all(_counts_through(simplify(i - start, inner_ranges), n, left, inner_ranges) for i, start, n in sides)

    def joined(self) -> Projection:
        """The same with one loop in place of those that count through a number together, as those of a fused loop that
        was split do; subscripts and guards must be made of that number alone."""
        flat = _find_flat(self)
        if flat is None:
            return self
        indices = tuple(simplify(flat.rewritten(i), {}) for i in self.indices)
        ends = [flat.end_of(g) for g in self.guards]
        left = {name for i in indices for name in free_vars(i)} & {v.name for v in flat.weights}
        if left or None in ends:
            return self
        loop = replace(self.loops[0], var=flat.var, lo=idx(0), hi=idx(min([flat.count, *(n for n in ends if n)])))
        return Projection(indices, (loop, *(x for x in self.loops if x.var not in flat.weights)), ())

    def taken_apart(self) -> Projection:
        """The same with a loop for each digit that subscripts take: ``i // 4`` and ``i % 4`` become loops."""
        values: dict[Var, Expr] = {}
        loops: list[For] = []
        for loop in self.loops:
            weights = _weights(loop, self.indices)
            digits = [replace(loop, var=Var(f"{loop.var.name}#{n}"), hi=idx(count)) for n, count in weights.items()]
            if digits:
                values[loop.var] = sum((x.var * n for n, x in zip(weights, digits)), start=idx(0))
            loops += digits or [loop]
        indices, guards = (tuple(substitute(e, values) for e in part) for part in (self.indices, self.guards))
        return Projection(indices, tuple(loops), guards)

    def renamed(self, taken: set[str], suffix: str) -> Projection:
        """A copy whose loops have names of their own."""
        return self.named([fresh_name(loop.var.name + suffix, taken) for loop in self.loops])

    def ranges(self, ranges: Ranges) -> dict[str, Interval]:
        """``ranges`` and what the loops can be."""
        return ranges_through(self.loops, ranges)

    def around(self, body: Stmt) -> Stmt:
        """``body`` in the loops."""
        return nest(self.loops, self.guards, body)


@dataclass(frozen=True, slots=True)
class _Flat:
    """The number ``var`` below ``count`` that loops are digits of, each with its weight."""

    var: Var
    weights: Mapping[Var, int]
    count: int

    def quotient(self, e: Expr) -> int | None:
        """The ``k`` for which ``e`` is the number divided by ``k``: its higher digits."""
        linear = linear_form(e)
        scale = min((self.weights[v] for v in linear.terms if isinstance(v, Var) and v in self.weights), default=None)
        if scale is None or linear.constant:
            return None
        higher = {v: n // scale for v, n in self.weights.items() if n >= scale}
        return scale if linear.terms == higher else None

    def rewritten(self, e: Expr) -> Expr:
        """``e`` in terms of the number where it is made of it."""
        scale = None if isinstance(e, Const) else self.quotient(e)
        if scale is not None:
            return self.var if scale == 1 else Binary("//", self.var, idx(scale))
        return rebuild(e, lambda n: self.rewritten(n) if isinstance(n, Expr) else n)

    def end_of(self, guard: Expr) -> int | None:
        """Below which number ``guard`` holds, if that is what it says."""
        if not isinstance(guard, Compare) or guard.op != "<" or not isinstance(guard.right, Const):
            return None
        scale = self.quotient(guard.left)
        return None if scale is None else scale * max(0, int(guard.right.value))


def _find_flat(p: Projection) -> _Flat | None:
    """The sum of most loops that a subscript takes digits of, where loops are its digits."""
    divided = (n.left for i in p.indices for n in walk(i) if isinstance(n, Binary) and n.op in ("//", "%"))
    loops = {x.var: x for x in p.loops if x.lo == idx(0) and isinstance(x.hi, Const)}
    sums = [linear_form(e) for e in divided]
    known = [s.terms for s in sums if not s.constant and s.terms and s.terms.keys() <= loops.keys()]
    if not known:
        return None
    weights, count = max(known, key=len), 1
    for var, weight in sorted(weights.items(), key=lambda term: term[1]):
        if weight != count or not isinstance(var, Var):
            return None
        count *= int(loops[var].hi.value)  # type: ignore[attr-defined]
    return _Flat(Var("#"), {v: n for v, n in weights.items() if isinstance(v, Var)}, count)


def _weights(loop: For, subscripts: Sequence[Expr]) -> dict[int, int]:
    """The weights of the digits of ``loop`` that divisions take apart and how many values each has, the greatest first;
    none where they are no digits of one number."""
    cuts = {1}
    for n in (n for i in subscripts for n in walk(i) if isinstance(n, Binary) and n.op in ("//", "%")):
        whole, by = (
            (n.left.left, n.left.right) if isinstance(n.left, Binary) and n.left.op == "//" else (n.left, idx(1))
        )
        if whole == loop.var and isinstance(by, Const) and isinstance(n.right, Const):
            cuts |= {int(by.value), int(by.value) * int(n.right.value)}
    if len(cuts) == 1 or loop.lo != idx(0) or not isinstance(loop.hi, Const):
        return {}
    ends = [*sorted(cuts), int(loop.hi.value)]
    counts = {low: high // low for low, high in pairwise(ends)}
    return dict(reversed(counts.items())) if all(high % low == 0 for low, high in pairwise(ends)) else {}


def nest(loops: Sequence[For], guards: Sequence[Expr], body: Stmt) -> Stmt:
    """``body`` in ``loops``, outermost first, each guard as far out as it can be."""
    waiting = list(guards)
    for loop in reversed(loops):
        inner = [g for g in waiting if loop.var.name in free_vars(g)]
        waiting = [g for g in waiting if loop.var.name not in free_vars(g)]
        body = replace(loop, body=guarded(inner, body))
    return guarded(waiting, body)


def guarded(conditions: Sequence[Expr], body: Stmt) -> Stmt:
    if not conditions:
        return body
    return If(all_of(conditions), body)


def through_box(buffer: Buffer, box: Box, ranges: Ranges) -> Projection:
    """The elements of ``box`` that ``buffer`` has, in loops of their own."""
    sizes = enumerate(zip(box.starts, box.extents))
    loops = {d: For(Var(f"ax{d}"), idx(0), n, "serial", Seq(())) for d, (_, n) in sizes if n != idx(1)}
    offsets = [loops[d].var if d in loops else idx(0) for d in range(buffer.rank)]
    inner_ranges = Projection((), tuple(loops.values()), ()).ranges(ranges)
    indices = tuple(simplify(start + offset, inner_ranges) for start, offset in zip(box.starts, offsets))
    within = ((Compare("<=", idx(0), i), Compare("<", i, size)) for i, size in zip(indices, buffer.shape))
    tests = (simplify(test, inner_ranges) for both in within for test in both)
    return Projection(indices, tuple(loops.values()), tuple(t for t in tests if t != Const(True, dt.bool_)))


def project(leaf: Leaf, indices: Sequence[Expr], fixed: set[str], ranges: Ranges) -> Projection:
    """The elements ``indices`` of ``leaf`` for fixed values of the variables ``fixed``."""
    resolved = tuple(leaf.resolve(i) for i in indices)
    inner = [loop for loop in leaf.loops if loop.name not in fixed]
    if any(loads(i) for i in resolved):
        raise NotProjectable("its subscripts are loaded from memory")
    kept = _needed(inner, [name for i in resolved for name in free_vars(i)])
    changing = {n for i in resolved for n in free_vars(i)} & (leaf.lets.keys() - fixed)
    if changing:
        raise NotProjectable(f"its subscripts use `{min(changing)}`, which changes")
    dropped = [loop for loop in inner if loop.name not in kept]
    inner_ranges = dict(ranges)
    for loop in inner:
        inner_ranges[loop.name] = _range(loop, inner_ranges)
    conditions = [_turned(c) for test in leaf.tests for c in conjuncts(leaf.resolve(test.condition), test.holds)]
    guards = [_first(c, dropped, inner_ranges) for c in (*_nonempty(dropped), *conditions)]
    loops = (loop.node for loop in inner if loop.name in kept)
    plain_loops = (replace(x, lo=leaf.resolve(x.lo), hi=leaf.resolve(x.hi)) for x in loops if isinstance(x, For))
    exact = dict.fromkeys(g for g in guards if g != Const(True, dt.bool_))
    return Projection(tuple(simplify(i, inner_ranges) for i in resolved), tuple(plain_loops), tuple(exact))


def _needed(inner: Sequence[LoopRange], names: Iterable[str]) -> set[str]:
    """The loops among ``inner`` that the variables ``names`` depend on."""
    needed = set(names)
    for loop in reversed(inner):
        if loop.name in needed:
            if loop.hi is None:
                raise NotProjectable("a while loop decides which elements it touches")
            needed |= {*free_vars(loop.lo), *free_vars(loop.hi)}
    return needed & {loop.name for loop in inner}


def _range(loop: LoopRange, ranges: Ranges) -> Interval:
    return Interval(0, None) if loop.hi is None else range_between(loop.lo, loop.hi, ranges)


def _nonempty(dropped: Sequence[LoopRange]) -> list[Expr]:
    if any(loop.hi is None for loop in dropped):
        raise NotProjectable("it is in a while loop, which may not run")
    return [c for x in dropped if x.hi is not None for c in conjuncts(Compare("<", x.lo, x.hi))]


def _turned(e: Expr) -> Expr:
    """``e`` with the lesser side first: guards that say the same look alike."""
    if not isinstance(e, Compare) or e.op not in (">", ">="):
        return e
    return Compare(FLIPPED[e.op], e.right, e.left)


def _first(condition: Expr, dropped: Sequence[LoopRange], ranges: Ranges) -> Expr:
    """``condition`` at the first iteration of the loops ``dropped``, where it must be weakest."""
    if loads(condition):
        raise NotProjectable("values in memory decide whether it runs")
    condition, weakest = _inequality(simplify(condition, ranges), ranges), True
    for loop in reversed(dropped):
        if loop.name in free_vars(condition):
            weakest = weakest and _is_weakest_at_start(condition, loop.name)
            condition = simplify(substitute(condition, {Var(loop.name): loop.lo}), ranges)
    if not weakest and condition != Const(True, dt.bool_):
        raise NotProjectable("whether an element is touched depends on more than the first iteration")
    return condition


def _inequality(condition: Expr, ranges: Ranges) -> Expr:
    """An equation that one side can only exceed, as ``first == i`` for an ``i`` that starts there, as an inequality."""
    if isinstance(condition, Compare) and condition.op == "==" and condition.left.dtype == dt.index:
        gap = bounds(simplify(condition.left - condition.right, ranges), ranges)
        if gap.lo == 0:
            return Compare("<=", condition.left, condition.right)
        if gap.hi == 0:
            return Compare(">=", condition.left, condition.right)
    return condition


def _is_weakest_at_start(condition: Expr, name: str) -> bool:
    """Whether ``condition`` holds at some value of ``name`` only if it holds at all smaller ones."""
    gap = slack(condition)
    if gap is None or gap.terms.get(Var(name), 0) >= 0:
        return False
    return all(atom == Var(name) or name not in free_vars(atom) for atom in gap.terms)


def gap_of(condition: Expr, ranges: Ranges) -> Expr | None:
    """The sum that is at least 0 exactly where ``condition`` holds."""
    gap = slack(condition)
    return None if gap is None else simplify(gap.expr(dt.index), ranges)


def _counts_through(offset: Expr, extent: Expr, left: dict[Var, For], ranges: Ranges) -> bool:
    """Whether ``offset`` takes every value from 0 to ``extent`` as loops of ``left``, each used once, run."""
    linear = linear_form(offset)
    if linear.constant or not all(isinstance(v, Var) and v in left for v in linear.terms):
        return False
    reach: Expr = idx(1)
    for var, factor in sorted(linear.terms.items(), key=lambda term: term[1]):
        if not isinstance(var, Var) or reach != idx(factor):
            return False
        loop = left.pop(var)
        if loop.lo != idx(0):
            return False
        tiles = simplify(Binary("//", extent + (factor - 1), idx(factor)), ranges)
        # The outermost may be as many tiles as the extent needs, whatever that number is.
        reach = extent if loop.hi == tiles else simplify(loop.hi * factor, ranges)
    least = bounds(simplify(reach - extent, ranges), ranges).lo
    return least is not None and least >= 0
