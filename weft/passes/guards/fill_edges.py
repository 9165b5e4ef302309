"""Edges of tiles in registers, tested once, where the tile is made, instead of by all that read it.

::

    for t { product to P                                   for t { product to P
      unroll i { if 8 * t + i < n { M = max(M, P[i]) } }     unroll i { P[i] = 8 * t + i < n ? P[i] : -inf }
      unroll i { W[i] = exp(P[i] - M) }                 ->   unroll i { M = max(M, P[i]) }
      unroll i { if 8 * t + i < n { L = L + W[i] } }         unroll i { W[i] = exp(P[i] - M) }
      if s < m { U = U * c } ... }                           unroll i { L = L + W[i] }
    if s < m { O[s] = U }                                    U = U * c ... }
                                                           if s < m { O[s] = U }

First, tests of elements that nobody sees where they fail are dropped: computing rows beyond an edge costs less than
asking for each. Then, what an extremum is taken of holds what changes none where its test fails, and tests of what is
computed from it are dropped where that changes nothing, either. One nest is left that asks, of which
`separate_masks` makes one question a tile; the others are as they are for tiles that come out even. Only launches are
looked at in which matrices are multiplied. For fast numerics: what is not known is taken to be finite, and the sign of
a zero not to matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from weft.ir import dtype as dt
from weft.ir.affine import Linear
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Load, Select, Var, idx
from weft.ir.interval import Ranges, bounds
from weft.ir.nesting import around, flat, has_loop, inner_statements, replace_in, sequence, statements
from weft.ir.stmt import Alloc, For, If, Kernel, Let, Seq, Stmt, Store, Tensorized
from weft.ir.visit import children, free_vars, fresh_name, loads, map_statements, mentions, rewrite, stores, used_names
from weft.passes.analysis.combined_values import neutral
from weft.passes.analysis.conditions import all_of, conjuncts, guarded
from weft.passes.analysis.element_tests import Digit, ElementTests, Gap, Use, digits_of
from weft.passes.analysis.loop_ranges import loop_range, ranges_inside
from weft.passes.analysis.matrix_work import has_products

#: Storage that a thread has to itself.
OWN = ("local", "register")
_ARITHMETIC = ("+", "-", "*")


def fill_edges(kernel: Kernel) -> Kernel:
    """``kernel``, in grid form, with fewer tests of elements of tiles."""
    taken = used_names(kernel)

    def visit(s: Stmt) -> Stmt:
        if isinstance(s, For) and s.kind == "block":
            return _filled(_dropped(s), taken) if has_products(s) else s
        return map_statements(s, visit)

    return replace(kernel, body=visit(kernel.body))


# Tests of elements that nobody sees


def _dropped(launch: Stmt) -> Stmt:
    known = ElementTests.of(launch)

    def is_unseen(test: Expr, s: Store, ranges: Ranges) -> bool:
        gap = known.gap(test)
        element = None if gap is None else known.by_digits(gap, s, ranges)
        return element is not None and known.is_unseen(s.buffer.name, element)

    def is_idle(test: Expr, body: Stmt, ranges: Ranges) -> bool:
        """Whether ``body`` may as well run where ``test`` fails."""
        return all(
            isinstance(s, Store) and _is_safe(known, s, inside) and is_unseen(test, s, inside)
            for s, inside in _leaves(body, ranges)
        )

    def is_result(body: Stmt, ranges: Ranges) -> bool:
        """Whether ``body`` stores what is made of a thread's own numbers, and does nothing else."""
        stored = list(_leaves(body, ranges, (For, Let, Seq)))
        read = [n for s in statements(body) for e in children(s) if isinstance(e, Expr) for n in loads(e)]
        return (
            bool(read)
            and all(isinstance(s, Store) and s.buffer.scope == "global" for s, _ in stored)
            and all(n.buffer.scope in OWN and n.buffer.dtype.is_float for n in read)
        )

    def visit(s: Stmt, ranges: Ranges) -> Stmt:
        ranges = ranges_inside(s, ranges)
        if isinstance(s, If) and s.otherwise is None:
            kept = [c for c in conjuncts(s.condition) if not is_idle(c, s.then, ranges)]
            if kept and is_result(s.then, ranges):
                return _at_stores(kept, s.then)
            return _tested(s, kept, visit(s.then, ranges))
        if isinstance(s, Store) and isinstance(s.value, Select) and _is_safe(known, s, ranges):
            return replace(s, value=_chosen(s.value, lambda c: not is_unseen(c, s, ranges)))
        return map_statements(s, lambda n: visit(n, ranges))

    return visit(launch, {})


def _tested(s: If, kept: list[Expr], body: Stmt) -> Stmt:
    """``body`` in place of what ``s`` does, under as much of its test."""
    return map_statements(s, lambda _: body) if kept == conjuncts(s.condition) else guarded(kept, body)


def _at_stores(tests: list[Expr], s: Stmt) -> Stmt:
    """``s`` with ``tests`` around what is stored alone: threads that store nothing stay beside the others."""
    if isinstance(s, Let) or (isinstance(s, For) and s.kind == "unroll" and has_loop(s.body, "unroll")):
        return replace(s, body=_at_stores(tests, s.body))
    return guarded([all_of(tests)], s)


def _chosen(e: Select, is_kept: Callable[[Expr], bool]) -> Expr:
    kept = [c for c in conjuncts(e.condition) if is_kept(c)]
    if not kept:
        return e.then
    return e if len(kept) == len(conjuncts(e.condition)) else replace(e, condition=all_of(kept))


def _leaves(s: Stmt, ranges: Ranges, opened: tuple[type[Stmt], ...] = (For, If, Seq)) -> Iterator[tuple[Stmt, Ranges]]:
    """Statements with effects, and what variables can be there; others than those to be ``opened`` count as one."""
    ranges = ranges_inside(s, ranges)
    if not isinstance(s, opened):
        yield s, ranges
        return
    for inner in inner_statements(s):
        yield from _leaves(inner, ranges, opened)


def _all_leaves(s: Stmt) -> Iterator[tuple[Stmt, Ranges]]:
    return _leaves(s, {}, (For, If, Seq, Alloc, Let, Tensorized))


def _is_safe(known: ElementTests, s: Store, ranges: Ranges) -> bool:
    """Whether ``s`` may run whatever else is true: it computes floats from storage of the launch that is there."""
    accesses: list[Load | Store] = [s, *loads(s)]
    return s.buffer.dtype.is_float and all(
        a.buffer.name in known.inner and _is_within(a.indices, a.buffer, ranges) for a in accesses
    )


def _is_within(indices: Sequence[Expr], buffer: Buffer, ranges: Ranges) -> bool:
    for index, size in zip(indices, buffer.shape):
        span = bounds(index, ranges)
        if not isinstance(size, Const) or span.lo is None or span.hi is None or span.lo < 0 or span.hi >= size.value:
            return False
    return True


# Extrema of tiles whose last one is not full


def _filled(launch: Stmt, taken: set[str]) -> Stmt:
    found = _find(launch)
    while found is not None:
        launch = found.apply(launch, taken)
        found = _find(launch)
    return launch


def _find(launch: Stmt) -> _Edge | None:
    """A tile an extremum of which is taken under a test, with which all tests of what is made of it can be dropped."""
    known = ElementTests.of(launch)
    for alloc in (n for n in statements(launch) if isinstance(n, Alloc) and n.buffer.scope in OWN):
        for use in known.uses.get(alloc.buffer.name, ()):
            op = _extremum(use)
            for gap in use.facts if op is not None else ():
                element = known.by_digits(gap, use.load, use.ranges)
                digits = digits_of(use.load, known.inner[alloc.buffer.name], use.ranges)
                if element is None or not any(var in digits for var, _ in gap[0]):
                    continue
                edge = _Edge(known, alloc, element, neutral(op or "", alloc.buffer.dtype), tuple(digits.values()))
                if edge.is_legal():
                    return edge
    return None


def _extremum(use: Use) -> str | None:
    """Whether a maximum or a minimum is taken of what is read."""
    value = None if use.into is None else use.into.value
    if not isinstance(value, Binary) or value.op not in ("max", "min") or use.into is None:
        return None
    own = Load(use.into.buffer, use.into.indices)
    return value.op if {value.left, value.right} == {own, use.load} else None


@dataclass(slots=True)
class _Edge:
    """A tile of which ``test``, by digits, fails for some elements: those shall hold ``nothing``."""

    known: ElementTests
    alloc: Alloc
    test: Gap
    nothing: Const
    digits: tuple[Digit, ...]
    #: Of storage what tests are of its elements, and what these hold where they fail.
    contents: dict[str, tuple[Gap, float]] = field(default_factory=dict)

    def is_legal(self) -> bool:
        """Whether nobody sees what is put there, and all tests of it can be dropped."""
        name = self.alloc.buffer.name
        if not self._is_whole() or not self.known.is_unseen(name, self.test) or self._made_by() is None:
            return False
        self.contents = {name: (self.test, float(self.nothing.value))}
        for s, ranges in _all_leaves(self.alloc.body):
            if isinstance(s, Store):
                self._follow(s, ranges)
        after = ElementTests.of(self._without_tests(self.alloc.body, {})).uses
        kept = {f for made in self.known.inner for use in after.get(made, ()) for f in use.facts}
        return self._outside(self.test) not in map(self._outside, kept)

    def _outside(self, gap: Gap) -> Gap:
        """What of a test is not of loops through elements: the same for all tests of one edge."""
        inner = self.known.inner[self.alloc.buffer.name]
        is_digit = {d.var for d in self.digits}
        kept = ((e, n) for e, n in gap[0] if e not in is_digit and inner.isdisjoint(free_vars(e)))
        return frozenset(kept), gap[1]

    def _is_whole(self) -> bool:
        """Whether digits count all elements."""
        for dimension, size in enumerate(self.alloc.buffer.shape):
            count = 1
            for digit in sorted((d for d in self.digits if d.dimension == dimension), key=lambda d: d.factor):
                if digit.factor != count:
                    return False
                count *= digit.extent
            if size != idx(count):
                return False
        return True

    def _follow(self, s: Store, ranges: Ranges) -> None:
        """What ``s`` makes of elements that are known, where it is all that is stored there."""
        name, inner = s.buffer.name, self.known.inner.get(s.buffer.name)
        gaps = {self._fails(n, ranges) for n in loads(s) if n.buffer.name in self.contents} - {None}
        alone = len([n for n in stores(self.alloc.body) if n.buffer.name == name]) == 1
        if name in self.contents or inner is None or len(gaps) != 1 or not alone or s.buffer.scope not in OWN:
            return
        (gap,) = gaps
        value = self._value(s.value, gap, ranges)
        element = None if gap is None else self.known.by_digits(gap, s, ranges)
        if value is not None and element is not None:
            self.contents[name] = element, value

    def _fails(self, load: Load, ranges: Ranges) -> Gap | None:
        """The test, as one at ``load``, which finds what is known where it fails."""
        found = self.contents.get(load.buffer.name)
        return None if found is None else self.known.at(found[0], load, ranges)

    def _value(self, e: Expr, gap: Gap | None, ranges: Ranges) -> float | None:
        """What ``e`` is where the test ``gap`` fails; None for an unknown number, taken to be finite."""
        if isinstance(e, Const):
            return float(e.value)
        if isinstance(e, Load):
            known = gap is not None and self._fails(e, ranges) == gap
            return self.contents[e.buffer.name][1] if known else None
        if isinstance(e, Cast):
            return self._value(e.operand, gap, ranges)
        if isinstance(e, Call) and e.name in ("exp", "exp2") and self._value(e.args[0], gap, ranges) == -math.inf:
            return 0.0
        if isinstance(e, Binary) and e.op in _ARITHMETIC:
            return _combined(e.op, self._value(e.left, gap, ranges), self._value(e.right, gap, ranges))
        return None

    def _without_tests(self, s: Stmt, ranges: Ranges) -> Stmt:
        """``s`` without tests that make no difference any more."""
        ranges = ranges_inside(s, ranges)
        if isinstance(s, If) and s.otherwise is None:
            kept = [c for c in conjuncts(s.condition) if not self._does_nothing(c, s.then, ranges)]
            return _tested(s, kept, self._without_tests(s.then, ranges))
        if isinstance(s, Store) and isinstance(s.value, Select) and isinstance(s.value.otherwise, Const):
            e, nothing = s.value, float(s.value.otherwise.value)
            return replace(s, value=_chosen(e, lambda c: self._value(e.then, self.known.gap(c), ranges) != nothing))
        return map_statements(s, lambda n: self._without_tests(n, ranges))

    def _does_nothing(self, test: Expr, body: Stmt, ranges: Ranges) -> bool:
        """Whether all that ``body`` does where ``test`` fails is to combine sums and the like with what is neutral."""
        gap, leaves = self.known.gap(test), list(_leaves(body, ranges))
        return gap is not None and all(
            isinstance(s, Store) and _is_safe(self.known, s, r) and self._is_neutral(s, gap, r) for s, r in leaves
        )

    def _is_neutral(self, s: Store, gap: Gap, ranges: Ranges) -> bool:
        own, value = Load(s.buffer, s.indices), s.value
        if not isinstance(value, Binary) or value.op not in ("+", "max", "min") or own not in (value.left, value.right):
            return False
        other = value.right if value.left == own else value.left
        return self._value(other, gap, ranges) == float(neutral(value.op, s.buffer.dtype).value)

    # Where elements get it

    def apply(self, launch: Stmt, taken: set[str]) -> Stmt:
        body = self._without_tests(self._filled(taken), {})
        return replace_in(launch, self.alloc, replace(self.alloc, body=body))

    def _made_by(self) -> int | None:
        """How many statements make the tile, all before the first that reads it."""
        name, parts = self.alloc.buffer.name, flat(self.alloc.body)
        writes = [n for n, part in enumerate(parts) if name in mentions(part).stored]
        reads = [n for n, part in enumerate(parts) if _is_read(name, part)]
        return reads[0] if writes and reads and max(writes) < reads[0] else None

    def _filled(self, taken: set[str]) -> Stmt:
        """What is done with the tile, whose elements are tested where they are made, or in a nest after that."""
        body, buffer = self.alloc.body, self.alloc.buffer
        made = [(s, r) for s, r in _leaves(body, {}, (For, Seq, Alloc, Let)) if isinstance(s, Store)]
        whole = [(s, r) for s, r in made if s.buffer == buffer and all(n.buffer != buffer for n in loads(s))]
        if len(whole) == len([s for s in stores(body) if s.buffer == buffer]) == 1:
            ((first, ranges),) = whole
            gap = self.known.at(self.test, first, ranges)
            if gap is not None:
                return rewrite(body, lambda n: self._chosen(first, gap) if n == first else None)
        parts, count = flat(body), self._made_by()
        return sequence([*parts[:count], self._nest(taken), *parts[count:]])

    def _chosen(self, s: Store, gap: Gap) -> Store:
        """``s``, which stores nothing where the test ``gap`` fails."""
        test = Compare(">=", Linear(dict(gap[0]), gap[1]).expr(dt.index), idx(0))
        value = s.value
        if isinstance(value, Select) and value.otherwise == self.nothing:
            return replace(s, value=replace(value, condition=Binary("&&", test, value.condition)))
        return replace(s, value=Select(test, value, self.nothing))

    def _nest(self, taken: set[str]) -> Stmt:
        order = sorted(self.digits, key=lambda d: (d.dimension, -d.factor))
        loops = {d: For(Var(fresh_name("edge", taken)), idx(0), idx(d.extent), "unroll", Seq(())) for d in order}
        indices = []
        for dimension in range(self.alloc.buffer.rank):
            own: dict[Expr, int] = {loop.var: d.factor for d, loop in loops.items() if d.dimension == dimension}
            indices.append(Linear(own).expr(dt.index))
        element = Load(self.alloc.buffer, tuple(indices))
        ranges = {loop.var.name: loop_range(loop, {}) for loop in loops.values()}
        gap = self.known.at(self.test, element, ranges, frozenset(ranges))
        assert gap is not None
        store = self._chosen(Store(element.buffer, element.indices, element), gap)
        return around(tuple(loops.values()), store)


def _combined(op: str, left: float | None, right: float | None) -> float | None:
    """Of what is known of two numbers; an unknown one is finite."""
    if left is not None and right is not None:
        made = {"+": left + right, "-": left - right, "*": left * right}[op]
        return None if math.isnan(made) else made
    if op == "*" or (left is None and right is None):
        return None
    if left is None:
        return None if right is None or not math.isinf(right) else right if op == "+" else -right
    return left if math.isinf(left) else None


def _is_read(name: str, s: Stmt) -> bool:
    """Whether ``s`` reads storage ``name`` other than to update it."""
    for n in statements(s):
        own = isinstance(n, Store) and n.buffer.name == name
        if not own and any(x.buffer.name == name for e in children(n) if isinstance(e, Expr) for x in loads(e)):
            return True
    return False
