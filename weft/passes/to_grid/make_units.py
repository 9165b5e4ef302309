"""The program of a block as units: thread nests, and what the block does outside of them, in loops and tests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from weft.ir.errors import ScheduleError
from weft.ir.interval import Ranges, bounds
from weft.ir.nesting import exits, has_loop, inner_statements, perfect_nest, statements_in
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, For, Seq, Stmt
from weft.ir.visit import bound_names, children, map_statements, mentions, used_names, walk
from weft.passes.analysis.loop_ranges import ranges_inside
from weft.passes.analysis.thread_digits import Digit, Placed, split_subscript
from weft.passes.analysis.thread_reductions import Candidate, find_candidate, find_group
from weft.passes.analysis.thread_shapes import Nest, Shape, choose_shape, digits_at, rebase_nest
from weft.passes.analysis.thread_teams import barriers_in
from weft.passes.analysis.thread_units import Unit
from weft.passes.to_grid.level_threads import cut_threads, level_threads

#: The digits at which thread nests place threads in the subscripts of each buffer.
Places: TypeAlias = "Mapping[str, Collection[Placed]]"
FindCandidate: TypeAlias = "Callable[[Stmt, Sequence[For]], Candidate | None]"


def make_units(
    body: Stmt, ranges: Ranges, fresh: Callable[[str], str], *, fast: bool, most_threads: int
) -> tuple[Stmt, Shape]:
    """The body of a block with units in place of what they stand for, and the threads that run it."""
    body = cut_threads(level_threads(body, ranges), ranges, fresh)
    nests = find_nests(body, ranges)
    largest = max((n.total for n in nests), default=1)
    if largest > most_threads:
        raise _too_many_threads(largest, most_threads)
    made = {a.buffer.name for a in _block_allocs(body)}
    placed = _find_places(nests, made)

    def candidate(s: Stmt, loops: Sequence[For]) -> Candidate | None:
        reduction = find_candidate(s, made, fast)
        nest = None if reduction is None else rebase_nest(list(loops), Seq(()), ranges)
        if reduction is None or nest is None:
            return None
        extents = _extents(reduction, ranges)
        if extents is None or nest.total * math.prod(extents.values()) > largest:
            return None
        return reduction if find_group(reduction, made, placed, extents) is not None else None

    leveled = level_threads(body, ranges, lambda s, loops: candidate(s, loops) is not None)
    if leveled is not body:
        body, nests = leveled, find_nests(leveled, ranges)
    shape = choose_shape(nests, _other_names(body), fresh)
    places = _find_places([n for n in nests if n.total == shape.total], made)
    steps = _choose_steps(nests, shape, made, places)
    return _Maker(made, places, steps, candidate).stmt(body, dict(ranges)), shape


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes units of thread nests, and of what the block does outside of them."""

    made: set[str]
    placed: Places
    steps: Mapping[tuple[int, ...], int]
    candidate: FindCandidate

    def stmt(self, s: Stmt, ranges: Ranges) -> Stmt:
        if isinstance(s, For) and s.kind == "thread":
            loops, body = perfect_nest(s, "thread")
            nest = rebase_nest(loops, body, ranges)
            assert nest is not None
            return self.unit(nest, self.candidate(nest.body, loops))
        reduction = self.candidate(s, ())
        if reduction is not None or not self.is_control(s):
            return self.unit(Nest(body=s, ranges=ranges), reduction)
        ranges = ranges_inside(s, ranges)
        return map_statements(s, lambda n: self.stmt(n, ranges))

    def is_control(self, s: Stmt) -> bool:
        """Whether all threads go through ``s`` together: what it assigns or leaves they all have to."""
        if isinstance(s, Seq) or has_loop(s, "thread") or barriers_in(s) or self.has_candidate(s):
            return True
        return bool(inner_statements(s)) and (_assigns(s) or exits(s))

    def has_candidate(self, s: Stmt) -> bool:
        if self.candidate(s, ()) is not None:
            return True
        return any(self.has_candidate(n) for n in children(s) if isinstance(n, Stmt))

    def unit(self, nest: Nest, candidate: Candidate | None) -> Unit:
        digits = digits_at(nest, self.steps.get(nest.extents, 1))
        group: dict[str, Digit] | None = None
        if candidate is not None:
            extents = _extents(candidate, nest.ranges)
            group = None if extents is None else find_group(candidate, self.made, self.placed, extents)
            if group is None or not _are_apart([*digits.values(), *group.values()]):
                candidate, group = None, None
        return Unit(nest, digits, candidate, group or {})


def _assigns(s: Stmt) -> bool:
    """Whether ``s`` changes a variable that is made around it."""
    return not mentions(s).bound.issuperset(assigned_names(s))


def _choose_steps(nests: Sequence[Nest], shape: Shape, made: set[str], places: Places) -> dict[tuple[int, ...], int]:
    """How many threads the innermost loop of smaller nests counts: one, or as many as share an iteration then.

    Nests of the same extents are run by the same threads, those that have most of what the nests touch.
    """
    counts: dict[tuple[int, ...], int] = {}
    for extents in {n.extents for n in nests if 0 < n.total < shape.total and shape.total % n.total == 0}:
        alike = [n for n in nests if n.extents == extents]
        steps = (1, shape.total // alike[0].total)
        counts[extents] = max(steps, key=lambda step: sum(_score(n, digits_at(n, step), made, places) for n in alike))
    return counts


def _score(nest: Nest, digits: dict[str, Digit], made: set[str], places: Places) -> int:
    """How many accesses find their element with the thread that other nests place it at."""
    count = 0
    for n, inside in Unit(nest, digits).touches():
        if n.buffer.name in made:
            split = split_subscript(n.indices, digits, inside)
            known = places.get(n.buffer.name, ())
            count += split is not None and bool(split.placed) and all(_is_part(p, known) for p in split.placed)
    return count


def _is_part(p: Placed, digits: Collection[Placed]) -> bool:
    for q in digits:
        same = q.dim == p.dim and p.step % q.step == 0 and p.step * p.extent <= q.step * q.extent
        if same and p.stride == q.stride * (p.step // q.step):
            return True
    return False


def _are_apart(digits: list[Digit]) -> bool:
    """Whether no two of the digits overlap."""
    ordered = sorted(d for d in digits if d.extent > 1)
    return all(a.stride * a.extent <= b.stride for a, b in itertools.pairwise(ordered))


def _extents(c: Candidate, ranges: Ranges) -> dict[str, int] | None:
    """The most iterations of each loop of a reduction."""
    longest = {loop.var.name: bounds(simplify(loop.hi - loop.lo, ranges), ranges).hi for loop in c.loops}
    extents = {name: n for name, n in longest.items() if n is not None and n > 1}
    return extents if len(extents) == len(longest) else None


def find_nests(s: Stmt, ranges: Ranges) -> list[Nest]:
    """The thread nests of a block."""
    if isinstance(s, For) and s.kind == "thread":
        loops, body = perfect_nest(s, "thread")
        nest = rebase_nest(loops, body, ranges)
        assert nest is not None
        return [nest]
    inside = ranges_inside(s, ranges)
    return [n for inner in children(s) if isinstance(inner, Stmt) for n in find_nests(inner, inside)]


def _block_allocs(s: Stmt) -> list[Alloc]:
    """Storage made outside thread loops."""
    if isinstance(s, For) and s.kind == "thread":
        return []
    own = [s] if isinstance(s, Alloc) else []
    return own + [a for inner in children(s) if isinstance(inner, Stmt) for a in _block_allocs(inner)]


def _other_names(s: Stmt) -> set[str]:
    """The names in ``s`` besides those that thread loops alone bind."""
    threads = [n.var.name for n in statements_in(s, For) if n.kind == "thread"]
    bound = [name for n in walk(s) for name in bound_names(n)]
    only_threads = {name for name in threads if bound.count(name) == threads.count(name)}
    return used_names(s) - only_threads


def _find_places(nests: Sequence[Nest], made: set[str]) -> dict[str, set[Placed]]:
    """The digits at which nests place threads in subscripts of storage of the block."""
    places: dict[str, set[Placed]] = {}
    for nest in nests:
        digits = digits_at(nest)
        for n, inside in Unit(nest, digits).touches():
            split = split_subscript(n.indices, digits, inside) if n.buffer.name in made else None
            if split is not None:
                places.setdefault(n.buffer.name, set()).update(split.placed)
    return places


def _too_many_threads(count: int, most: int) -> ScheduleError:
    return ScheduleError(
        f"a block of {count} threads does not fit",
        why=f"a block has at most {most} threads",
        help="split the loop that is bound to threads and bind its outer part to blocks",
    )
