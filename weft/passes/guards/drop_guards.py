"""Tests around work on registers dropped where nobody sees the difference.

The last tile of a matrix is not full, so every row of its accumulators is computed under a test.
Where the operands surely exist all the same, it is cheaper to compute all rows: what
lands in the elements that the test kept out is read by nothing but their own updates, since whoever
reads the accumulators (the final store) makes the same test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from weft.ir.affine import Linear, linear_form
from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Const, Expr, Load, Reduce, Var
from weft.ir.interval import Interval, Ranges, bounds
from weft.ir.nesting import inner_statements
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Alloc, Atomic, For, If, Kernel, Seq, Stmt, Store
from weft.ir.visit import children, map_statements, mentions, substitute, walk
from weft.passes.analysis.conditions import conjuncts, guarded_again, is_pure, peel_guards, slack
from weft.passes.analysis.loop_ranges import ranges_inside, ranges_where

#: What a condition says, in a form in which equal ones compare equal.
Fact = object


@dataclass(frozen=True, slots=True)
class Read:
    """A load of a register buffer, and the facts known where it stands."""

    load: Load
    facts: frozenset[Any]


@dataclass(frozen=True, slots=True)
class _Tile:
    """A register buffer: names bound while it exists, and its reads other than elements updating themselves."""

    buffer: Buffer
    inside: frozenset[str]
    reads: tuple[Read, ...]


@dataclass(slots=True)
class Dropper:
    """State of one walk: what variables can be, memory that surely exists, the register buffers around."""

    changing: frozenset[str]
    existing: dict[str, Buffer]
    tiles: dict[str, _Tile]
    #: Sums that tests around, which stay, keep from being negative.
    known: list[Linear] = field(default_factory=list)

    def visit(self, s: Stmt, ranges: Ranges) -> Stmt:
        ranges = ranges_inside(s, ranges)
        if isinstance(s, Alloc):
            self.existing[s.buffer.name] = s.buffer
            if s.buffer.scope == "register":
                self._enter(s)
        if isinstance(s, If):
            return self.visit_if(s, ranges)
        return map_statements(s, lambda n: self.visit(n, ranges))

    def visit_if(self, s: If, ranges: Ranges) -> Stmt:
        if s.otherwise is not None:
            then = self.visit(s.then, ranges_where(s.condition, True, ranges, self.changing))
            otherwise = self.visit(s.otherwise, ranges_where(s.condition, False, ranges, self.changing))
            return s if then is s.then and otherwise is s.otherwise else replace(s, then=then, otherwise=otherwise)
        parts, body = peel_guards(s)
        kept = self._without_implied(parts, ranges)
        for conjunct in tuple(kept):
            others = [c for c in kept if c is not conjunct]
            with self.where(others):
                if self._is_idle(conjunct, body, ranges):
                    kept = others
        for conjunct in kept:
            ranges = ranges_where(conjunct, True, ranges, self.changing)
        with self.where(kept):
            return guarded_again(s, kept, self.visit(body, ranges))

    @contextmanager
    def where(self, tests: list[Expr]) -> Iterator[None]:
        """Within, ``tests`` hold."""
        gaps = [slack(test) for test in tests if is_pure(test, self.changing)]
        count = len(self.known)
        self.known += [gap for gap in gaps if gap is not None]
        yield
        del self.known[count:]

    def _without_implied(self, parts: list[Expr], ranges: Ranges) -> list[Expr]:
        """``parts``, which hold together, without those that hold where another of them does."""
        gaps = {conjunct: slack(conjunct) for conjunct in parts if is_pure(conjunct, self.changing)}
        kept = list(dict.fromkeys(parts))
        for conjunct in tuple(kept):
            others = [gaps.get(other) for other in kept if other is not conjunct]
            if any(_is_less(other, gaps.get(conjunct), ranges) for other in others):
                kept.remove(conjunct)
        return kept

    def _enter(self, s: Alloc) -> None:
        name = s.buffer.name
        touched = (n for n in walk(s.body) if isinstance(n, (Atomic, AddressOf)))
        if not any(n.buffer.name == name for n in touched):
            self.tiles[name] = _Tile(s.buffer, mentions(s.body).bound, tuple(find_reads(s.body, name)))

    def _is_idle(self, conjunct: Expr, body: Stmt, ranges: Ranges) -> bool:
        """Whether ``body`` may as well run where ``conjunct`` does not hold."""
        if not is_pure(conjunct, self.changing):
            return False
        for s, known in leaves(body, ranges):
            if not isinstance(s, Store) or not self._is_safe(s, known) or not self.is_unseen(conjunct, s):
                return False
        return True

    def is_unseen(self, conjunct: Expr, s: Store) -> bool:
        """Whether every reader of what ``s`` stores makes the test ``conjunct`` for the element it reads."""
        tile = self.tiles.get(s.buffer.name)
        if tile is None:
            return False
        dims: dict[Var, int] = {}
        for var in {n for n in walk(conjunct) if isinstance(n, Var) and n.name in tile.inside}:
            if var not in s.indices:
                return False
            dims[var] = s.indices.index(var)
        for read in tile.reads:
            there = {var: read.load.indices[d] for var, d in dims.items()}
            if any(e.dtype.lanes > 1 for e in there.values()) or fact(substitute(conjunct, there)) not in read.facts:
                return False
        return True

    def _is_safe(self, s: Store, ranges: Ranges) -> bool:
        """Whether all that ``s`` touches surely exists."""
        accesses: list[Load | Store] = [s, *(n for n in walk(s) if isinstance(n, Load))]
        return all(self.is_within(a, ranges) for a in accesses) and not any(isinstance(n, Reduce) for n in walk(s))

    def is_within(self, access: Load | Store, ranges: Ranges) -> bool:
        buffer = self.existing.get(access.buffer.name)
        if buffer is None:
            return False
        sizes = [int(e.value) if isinstance(e, Const) else 0 for e in buffer.shape]
        return all(self._is_between(i, size, ranges) for i, size in zip(access.indices, sizes))

    def _is_between(self, e: Expr, size: int, ranges: Ranges) -> bool:
        """Whether ``e`` is an index of ``size`` elements, by what its variables can be or by a test around."""
        span = bounds(e, ranges)
        if (span.lo is None or span.lo < 0) and not self._follows(linear_form(e), ranges):
            return False
        after = Linear({}, size - 1).add(linear_form(e), -1)
        return (span.hi is not None and span.hi < size) or self._follows(after, ranges)

    def _follows(self, gap: Linear, ranges: Ranges) -> bool:
        return any(_is_less(known, gap, ranges) for known in self.known)


def drop_guards(kernel: Kernel) -> Kernel:
    """``kernel`` without tests that only keep elements of register buffers from being computed in vain."""
    changing = assigned_names(kernel.body)
    arguments = {b.name: b for b in kernel.buffers}
    return replace(kernel, body=Dropper(changing, arguments, {}).visit(kernel.body, {}))


def fact(condition: Expr) -> Fact:
    gap = slack(condition)
    return condition if gap is None else (frozenset(gap.terms.items()), gap.constant)


def find_reads(s: Stmt, name: str, facts: frozenset[Any] = frozenset()) -> Iterator[Read]:
    """The loads of buffer ``name``, without those of an element in its own update."""
    own = s.indices if isinstance(s, Store) and s.buffer.name == name else None
    for e in children(s):
        if isinstance(e, Expr):
            loads_of_it = (n for n in walk(e) if isinstance(n, Load) and n.buffer.name == name)
            yield from (Read(n, facts) for n in loads_of_it if n.indices != own)
    for inner in inner_statements(s):
        held = facts
        if isinstance(s, If) and inner is s.then:
            held = facts | {fact(c) for c in conjuncts(s.condition)}
        yield from find_reads(inner, name, held)


def leaves(s: Stmt, ranges: Ranges) -> Iterator[tuple[Stmt, Mapping[str, Interval]]]:
    """Statements with effects, and what variables can be there."""
    ranges = ranges_inside(s, ranges)
    if not isinstance(s, (For, If, Seq)):
        yield s, ranges
        return
    for inner in inner_statements(s):
        yield from leaves(inner, ranges)


def _is_less(gap: Linear | None, other: Linear | None, ranges: Ranges) -> bool:
    """Whether ``gap`` is never more than ``other``: where it is not negative, neither is that."""
    if gap is None or other is None:
        return False
    more = Linear().add(other).add(gap, -1).bounds(ranges).lo
    return more is not None and more >= 0
