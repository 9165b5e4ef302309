"""Phases over a long row run in step, a stretch of it at a time: what one phase stores the next one finds in a cache.

``thread t in 1:n { B[t] = f(A[t - 1], A[t + 1]) }; thread t in 2:n { A[t] = f(B[t - 1], B[t + 1]) }`` becomes a loop
over stretches, in each of which the second phase stays as far behind the first as it looks ahead. Few phases go
together: each reads memory of its own, and a machine fetches only so many streams ahead.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from weft.ir.affine import linear_form
from weft.ir.expr import AddressOf, Binary, Compare, Const, Expr, Load, Select, Var, idx
from weft.ir.nesting import has_loop
from weft.ir.simplify import simplify
from weft.ir.stmt import JUMPS, Alloc, Assert, Atomic, Evaluate, For, If, Kernel, Seq, Stmt, Store, While
from weft.ir.visit import free_vars, fresh_name, map_statements, mentions, substitute, used_names, walk
from weft.passes.analysis.conditions import all_of, strictest
from weft.passes.analysis.loop_ranges import constant_extent
from weft.passes.gpu_to_cpu.separate_blocks import decide

#: Threads of a stretch, and phases that go together at most.
STRETCH, TOGETHER = 256, 6

#: What keeps phases apart.
_APART = (AddressOf, Alloc, Assert, Atomic, Evaluate, While, *JUMPS)


def sweep_phases(kernel: Kernel) -> Kernel:
    """``kernel`` with phases of one long row in step."""
    return replace(kernel, body=_visit(kernel.body, used_names(kernel)))


def _visit(s: Stmt, taken: set[str]) -> Stmt:
    if isinstance(s, For) and s.kind == "thread":
        return s
    s = map_statements(s, lambda n: _visit(n, taken))
    if not isinstance(s, Seq) or not all(map(_is_row, s.body)) or len(s.body) < 2:
        return s
    rows = [stmt for stmt in s.body if isinstance(stmt, For)]
    count = -(-len(rows) // TOGETHER)
    cuts = [n * len(rows) // count for n in range(count + 1)]
    return replace(s, body=tuple(_swept(rows[a:b], taken) for a, b in itertools.pairwise(cuts)))


def _is_row(s: Stmt) -> bool:
    """A single thread loop, of a length that is not known and so may be long, that does plain things."""
    if not isinstance(s, For) or s.kind != "thread" or has_loop(s.body, "thread"):
        return False
    return isinstance(s.lo, Const) and constant_extent(s) is None and not any(isinstance(n, _APART) for n in walk(s))


def _swept(rows: list[For], taken: set[str]) -> Stmt:
    """``rows`` in step where that keeps the order of what they hand on."""
    together = Seq(tuple(rows))
    behind = _behind(rows)
    if len(rows) < 2 or behind is None:
        return together
    starts = [simplify(row.lo + idx(n * behind)) for n, row in enumerate(rows)]
    ends = [simplify(row.hi + idx(n * behind)) for n, row in enumerate(rows)]
    first, last = _least(starts), _least([simplify(Binary("-", idx(0), e)) for e in ends])
    if first is None or last is None:
        return together
    stretch = Var(fresh_name(f"{rows[0].var.name}_stretch", taken))
    here = simplify(first + Binary("*", stretch, idx(STRETCH)))
    places = [simplify(here - idx(n * behind)) for n in range(len(rows))]
    length = Binary("-", Binary("-", idx(0), last), first)
    count = simplify(Binary("//", length + idx(STRETCH - 1), idx(STRETCH)))
    return For(stretch, idx(0), count, "serial", _separated(rows, places))


def _separated(rows: Sequence[For], places: Sequence[Expr]) -> Stmt:
    """A stretch of each row from its place on; one that lies inside all rows, away from their ends, asks nothing."""
    parts, whole, inside = [], [], []
    for row, place in zip(rows, places):
        end = simplify(place + idx(STRETCH))
        parts.append(replace(row, lo=simplify(Binary("max", row.lo, place)), hi=simplify(Binary("min", row.hi, end))))
        inside += [Compare(">=", place, row.lo), Compare("<=", end, row.hi)]
        whole.append(replace(row, lo=idx(0), hi=idx(STRETCH), body=substitute(row.body, {row.var: place + row.var})))
    conditions, plain = decide(simplify(Seq(tuple(whole))))
    return If(simplify(all_of(strictest([*inside, *conditions]))), plain, Seq(tuple(parts)))


def _least(sums: Sequence[Expr]) -> Expr | None:
    """The least of ``sums``, where they differ by numbers."""
    gaps = [linear_form(Binary("-", e, sums[0])) for e in sums]
    if any(gap.terms for gap in gaps):
        return None
    return sums[min(range(len(sums)), key=lambda n: gaps[n].constant)]


@dataclass(frozen=True, slots=True)
class _Access:
    """An element that a thread touches: for each dimension how far from the thread, where that is known."""

    buffer: str
    indices: tuple[Expr, ...]
    distances: tuple[tuple[int, ...] | None, ...]
    writes: bool


def _behind(rows: Sequence[For]) -> int | None:
    """How many threads a phase must stay behind the one before; None where no number is enough."""
    inside = frozenset(name for row in rows for name in mentions(row).bound)
    touched = [list(_accesses(row)) for row in rows]
    most = 0
    for n, earlier in enumerate(touched):
        for later in touched[n + 1 :]:
            for a in earlier:
                for b in later:
                    if a.buffer == b.buffer and (a.writes or b.writes):
                        apart = 0 if differ(a.indices, b.indices, inside) else _apart(a, b)
                        if apart is None:
                            return None
                        most = max(most, apart)
    return most


def _accesses(row: For) -> Iterator[_Access]:
    for n in walk(row.body):
        if isinstance(n, (Load, Store)):
            distances = tuple(_distances(e, row.var) for e in n.indices)
            yield _Access(n.buffer.name, n.indices, distances, isinstance(n, Store))


def _distances(e: Expr, thread: Var) -> tuple[int, ...] | None:
    if isinstance(e, Select):
        one, other = _distances(e.then, thread), _distances(e.otherwise, thread)
        return None if one is None or other is None else one + other
    gap = linear_form(Binary("-", e, thread))
    return None if gap.terms else (gap.constant,)


def _apart(a: _Access, b: _Access) -> int | None:
    """How far apart two threads may be that touch one element."""
    for one, other in zip(a.distances, b.distances):
        if one is not None and other is not None:
            return max(abs(x - y) for x in one for y in other)
    return None


def differ(a: Sequence[Expr], b: Sequence[Expr], inside: frozenset[str]) -> bool:
    """Whether two places are apart in some dimension, whatever the variables ``inside`` are in either."""
    for left, right in zip(a, b):
        gap = linear_form(Binary("-", left, right))
        if not gap.terms and gap.constant and not inside & set(free_vars(left)):
            return True
    return False
