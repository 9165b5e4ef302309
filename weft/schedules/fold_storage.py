"""``fold_storage``: a dimension of a temporary kept in a ring of ``factor`` elements.

This is storage folding, or modulo addressing of a ring buffer.

``T[y, x]`` becomes ``T[y % 4, x]``: right where never more than ``factor`` neighbouring subscripts are alive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from weft.ir.expr import Binary, Const, Expr, Load, idx
from weft.ir.interval import Interval
from weft.ir.nesting import statements_in_turn
from weft.ir.quick_init import replace
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Atomic, For, Kernel, Stmt, Store
from weft.ir.visit import replace_buffers, rewrite, substitute
from weft.poly.conflicts import Meeting, Surroundings, written_by
from weft.poly.describe import iteration
from weft.poly.infer_spans import Span, clip, infer_spans, is_at_most, knowing_loops, upper_bound
from weft.poly.leaves import leaves, sizes_of
from weft.poly.refuse_meeting import precedes, touches
from weft.poly.verdict import OK, Verdict, Witness, refuse
from weft.schedules.find import find_alloc, loops_around, size_ranges
from weft.schedules.loop_facts import check_number, check_valid, first_no
from weft.schedules.make_blocks import declare_accesses
from weft.schedules.redirect import only_plain_accesses
from weft.schedules.rewrite import Rewrite, primitive, remembered, replace_stmt
from weft.schedules.trace import Numerics


def check_fold_storage(kernel: Kernel, buffer: str, dim: int, factor: int, *others: int, numerics: Numerics) -> Verdict:
    """All that is alive in dimension ``dim`` at any time must fit in ``factor`` neighbouring elements."""
    alloc = find_alloc(kernel, buffer)
    if len(others) % 2:
        return refuse(f"dimension {others[-1]} of `{buffer}` has no factor")
    folded = _pairs(dim, factor, others)
    sound = first_no([*(check_number("factor", n, 1) for _, n in folded), *(_check_dim(alloc, d) for d, _ in folded)])
    if not sound.ok:
        return sound
    if len(dict(folded)) < len(folded):
        return refuse(f"a dimension of `{buffer}` is folded twice")
    if not only_plain_accesses(kernel.body, buffer):
        return refuse(f"a call reaches into the memory of `{buffer}`")
    # What is alive of one dimension does not depend on how others are kept.
    whole = _touched(kernel, alloc, alloc)
    if whole is None:
        return refuse(f"nothing touches `{buffer}`")
    window = first_no(_check_window(kernel, alloc, whole, *pair) for pair in folded)
    return check_valid(fold_storage(kernel, buffer, dim, factor, *others).kernel) if window.ok else window


def _pairs(dim: int, factor: int, others: Sequence[int]) -> list[tuple[int, int]]:
    """Dimensions and their factors."""
    return [(dim, factor), *zip(others[::2], others[1::2])]


def _check_dim(alloc: Alloc, dim: int) -> Verdict:
    if not isinstance(dim, bool) and isinstance(dim, int) and 0 <= dim < alloc.buffer.rank:
        return OK
    name, rank = alloc.buffer.name, alloc.buffer.rank
    return refuse(f"`{name}` has {rank} dimensions, counted from 0; there is no dimension {dim}")


def _check_window(kernel: Kernel, alloc: Alloc, whole: tuple[_Window, ...], dim: int, factor: int) -> Verdict:
    name = alloc.buffer.name
    most = _width([whole[dim]])
    if most is not None and most <= factor:
        return OK
    windows = [each[dim] for each in _windows(kernel, alloc)]
    width = _width(windows)
    if width is None:
        return refuse(f"how much of dimension {dim} of `{name}` is alive at once is not known")
    if width > factor:
        reason = f"{width} neighbouring elements of dimension {dim} of `{name}` are alive at once"
        offers = (f's.fold_storage("{name}", {dim}, {width})',)
        return replace(_refuse_clash(reason, kernel, alloc, dim, factor), offers=offers)
    if _move_one_way(windows):
        return OK
    loop = next((f"`{w.loop.var.name}` runs" for w in windows if w.loop is not None), "the statements run")
    reason = f"what is alive in dimension {dim} of `{name}` does not move one way as {loop}"
    return _refuse_clash(reason, kernel, alloc, dim, factor)


def live_widths(kernel: Kernel, buffer: str) -> list[int | None]:
    """How many neighbouring elements of each dimension a ring has to hold; None where all, or that is not known.

    All is what is touched while the storage exists: lowering makes no more than that.
    """
    alloc = find_alloc(kernel, buffer)
    whole = _touched(kernel, alloc, alloc)
    return [] if whole is None else [_ring(*each) for each in zip(whole, zip(*_windows(kernel, alloc)))]


def _ring(whole: _Window, windows: Sequence[_Window]) -> int | None:
    width, most = _width(windows), _width([whole])
    smaller = width is not None and (most is None or width < most)
    return width if smaller and _move_one_way(windows) else None


@dataclass(frozen=True, slots=True)
class _Window:
    """What a statement, or each iteration of it where it is a ``loop`` in order, touches of a dimension.

    ``spans`` are two answers, first subscript and one past the last: as subscripts say it, and within the buffer.
    """

    loop: For | None
    spans: tuple[Span, Span]
    ranges: dict[str, Interval]

    def at(self, which: int, *, end: bool) -> Span:
        """One of the ``spans`` in the first iteration, or in the last."""
        if self.loop is None:
            return self.spans[which]
        value = self.loop.hi - idx(1) if end else self.loop.lo
        low, high = (simplify(substitute(e, {self.loop.var: value}), self.ranges) for e in self.spans[which])
        return low, high


@remembered
def _windows(kernel: Kernel, alloc: Alloc) -> list[tuple[_Window, ...]]:
    """Those of the statements that run one after another while the storage exists, one for each dimension."""
    found = (_touched(kernel, alloc, stmt) for stmt in statements_in_turn(alloc.body))
    return [windows for windows in found if windows is not None]


def _touched(kernel: Kernel, alloc: Alloc, stmt: Stmt) -> tuple[_Window, ...] | None:
    """Of each dimension by ``stmt`` inside ``alloc``; None where it does not touch the storage."""
    loop = stmt if isinstance(stmt, For) and stmt.kind in ("serial", "unroll") else None
    loops = [*loops_around(kernel, alloc), *([loop] if loop is not None else [])]
    raw = infer_spans(kernel, alloc.buffer, stmt, len(loops))
    if raw is None:
        return None
    with knowing_loops(loops, size_ranges(kernel)) as simple:
        ends = [(lo, simple.expr(hi + idx(1))) for lo, hi in raw]
        ranges = {**simple.ranges}
        return tuple(_Window(loop, both, ranges) for both in zip(ends, clip(raw, alloc.buffer, simple)))


def _width(windows: Sequence[_Window]) -> int | None:
    """The most elements that one of them has."""
    widths = [[n for a, b in w.spans if (n := upper_bound(b - a, w.ranges)) is not None] for w in windows]
    return max(map(min, widths)) if all(widths) else None


def _move_one_way(windows: Sequence[_Window]) -> bool:
    """Whether no element comes back that was left behind: windows only go up, or only down.

    Any two are compared, not only neighbours: a loop between them may not run at all.
    """

    def onward(before: Span, after: Span, ranges: dict[str, Interval], up: bool) -> bool:
        return all(is_at_most(*((a, b) if up else (b, a)), ranges) for a, b in zip(before, after))

    def moves(which: int, up: bool) -> bool:
        steps = ((w.spans[which], _next(w.loop, w.spans[which], w.ranges), w.ranges) for w in windows if w.loop)
        turns = ((a.at(which, end=True), b.at(which, end=False), b.ranges) for a, b in combinations(windows, 2))
        return all(onward(*pair, up) for pair in (*steps, *turns))

    return any(moves(which, up) for which in (0, 1) for up in (True, False))


def _next(loop: For, span: Span, ranges: dict[str, Interval]) -> Span:
    """``span`` one iteration later."""
    low, high = (simplify(substitute(e, {loop.var: loop.var + idx(1)}), ranges) for e in span)
    return low, high


def _refuse_clash(reason: str, kernel: Kernel, alloc: Alloc, dim: int, factor: int) -> Verdict:
    """``reason``, with an iteration that writes the place of an element which a later one still reads."""
    name = alloc.buffer.name
    inside = leaves(kernel, alloc)
    fixed = {f.var.name for f in loops_around(kernel, alloc)}
    around = Surroundings(frozenset(fixed), written_by(inside), sizes_of(kernel))
    for leaf, write in touches(inside, name, reads=False):
        for later, read in touches(inside, name, writes=False):
            for distance in (factor, -factor):
                moved = (*read.indices[:dim], read.indices[dim] + idx(distance), *read.indices[dim + 1 :])
                meeting = Meeting(leaf, write, later, replace(read, indices=moved), around)
                for order, equal in precedes(leaf, later, fixed):
                    conflict = meeting.find(order, equal)
                    if isinstance(conflict, Witness) and conflict.certain:
                        return _describe_clash(reason, conflict, dim, factor, distance)
    return refuse(reason, kind="unproved")


def _describe_clash(reason: str, conflict: Witness, dim: int, factor: int, distance: int) -> Verdict:
    name, _, rest = conflict.element.partition("[")
    at = [int(part) for part in rest.rstrip("]").split(",")]

    def element(n: int) -> str:
        return f"{name}[{', '.join(str(n if d == dim else part) for d, part in enumerate(at))}]"

    text = (
        f"iteration {iteration(conflict.first)} writes {conflict.element} in the place of {element(at[dim] - distance)}"
    )
    witness = replace(conflict, element=element(at[dim] % factor), after=True)
    return refuse(f"{reason}: {text}, which iteration {iteration(conflict.second)} reads", witness)


def _turn(index: Expr, count: int) -> Expr:
    turn = Binary("%", index, idx(count))
    return simplify(turn) if isinstance(index, Const) else turn


@primitive(check_fold_storage, "cannot fold dimension {1} of `{0}` by {2}")
def fold_storage(kernel: Kernel, buffer: str, dim: int, factor: int, *others: int) -> Rewrite:
    """Subscripts of dimension ``dim`` taken modulo ``factor``; ``others`` are more dimensions, each with its factor."""
    alloc, folded = find_alloc(kernel, buffer), _pairs(dim, factor, others)
    old = alloc.buffer
    ring = replace(old, shape=_with(old.shape, {d: idx(n) for d, n in folded}), strides=None)

    def fold(n: object) -> Load | Store | Atomic | None:
        if isinstance(n, (Load, Store, Atomic)) and n.buffer.name == buffer:
            turns = {d: _turn(n.indices[d], count) for d, count in folded}
            return replace(n, buffer=ring, indices=_with(n.indices, turns))
        return None

    body = replace_buffers(rewrite(alloc.body, fold, naming=[buffer]), {old: ring})
    return Rewrite(replace_stmt(kernel, alloc, Alloc(ring, declare_accesses(body, [buffer]), span=alloc.span)))


def _with(parts: tuple[Expr, ...], changed: Mapping[int, Expr]) -> tuple[Expr, ...]:
    return tuple(changed.get(d, e) for d, e in enumerate(parts))
