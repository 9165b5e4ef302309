"""``prefetch``: what an iteration of a loop will read of a buffer, asked for some iterations earlier.

Software prefetching: a hint at the start of the loop's body, one for each cache line of the box that is read there;
results do not change. A row that is looked up, ``LUT[I[b, l], d]``, is looked up for the later iteration too (for the
last, again and again).

Where a loop further out goes through much more, such as the panels of a packed matrix, each of which is gone through
many times before the next, the iterations of the loops inside it ask for a share each (``of``): the next panel comes
while the present one is computed with, a line now and then. What of the address stays the same through the loop that
asks is found before it: where each step of a sum asks, there is no room for more than the hint.
"""

from __future__ import annotations

import math
from dataclasses import replace

from weft.ir.affine import linear_form, ordered
from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Binary, Const, Expr, Var, idx
from weft.ir.nesting import sequence
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Kernel, Let, Stmt, hint
from weft.ir.visit import free_vars, fresh_name, loads, stores, substitute
from weft.poly.verdict import Verdict, refuse
from weft.schedules.boxes import Box
from weft.schedules.copy_reads import Reads, find_reads, nothing_reads
from weft.schedules.find import all_allocs, find_buffer, find_loop, loops_around
from weft.schedules.loop_facts import check_number, check_valid, trip_count
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, taken_names
from weft.schedules.trace import Numerics

#: Bytes that come together.
LINE = 64
#: More lines than this for one iteration would crowd out what they are to serve.
MOST_LINES = 64
#: Up to so many hints are written out instead of looped over.
MOST_UNROLLED = 16


def check_prefetch(
    kernel: Kernel, buffer: str, at: str, ahead: int = 1, of: str | None = None, *, numerics: Numerics
) -> Verdict:
    """A hint changes nothing; it must be known what to ask for, and be little."""
    loop, old = find_loop(kernel, at), find_buffer(kernel, buffer)
    wrong = check_number("distance", ahead, 1)
    if not wrong.ok:
        return wrong
    if old.scope in ("register", "shared", "constant"):
        return refuse(f"`{buffer}` is in {old.scope} memory, which no cache is in front of")
    if buffer in {a.buffer.name for a in all_allocs(loop)}:
        return refuse(f"`{buffer}` is made anew by each iteration of `{at}`: there is nothing to fetch ahead")
    lanes = [x.var.name for x in (*loops_around(kernel, loop), loop) if x.kind == "vector"]
    if lanes:
        return refuse(f"`{lanes[0]}` is a vector loop: its iterations run at once")
    if of is not None:
        refused = _check_shares(kernel, buffer, at, of)
        return refused if refused is not None else check_valid(prefetch(kernel, buffer, at, ahead, of).kernel)
    box = _box(kernel, buffer, at)
    if box is None:
        return nothing_reads(buffer, at)
    lines = _lines(box, old.dtype.bits // 8 or 1)
    if lines is None:
        return refuse(f"how much of `{buffer}` an iteration of `{at}` reads is not a known number")
    if math.prod(lines) > MOST_LINES:
        reason = f"an iteration of `{at}` reads {math.prod(lines)} cache lines of `{buffer}`, more than {MOST_LINES}"
        return refuse(reason)
    return check_valid(prefetch(kernel, buffer, at, ahead).kernel)


@primitive(check_prefetch, "cannot prefetch `{0}`")
def prefetch(kernel: Kernel, buffer: str, at: str, ahead: int = 1, of: str | None = None) -> Rewrite:
    """Puts the hints at the start of the body of ``at``."""
    loop, old = find_loop(kernel, at), find_buffer(kernel, buffer)
    if of is not None:
        return Rewrite(replace_stmt(kernel, loop, _asking_for_share(kernel, old, loop, find_loop(kernel, of), ahead)))
    box, size = _box(kernel, buffer, at), old.dtype.bits // 8 or 1
    lines = None if box is None else _lines(box, size)
    assert box is not None
    assert lines is not None
    later: dict[Var, Expr] = {loop.var: loop.var + ahead}
    there: dict[Var, Expr] = {loop.var: Binary("min", loop.var + ahead, loop.hi - 1)}  # an index that is really read
    taken = taken_names(kernel)
    names = [Var(fresh_name(f"{buffer}_line{d}", taken)) for d in range(old.rank)]
    steps = [1] * (old.rank - 1) + [LINE // size]
    many = [n if count > 1 else None for n, count in zip(names, lines)]
    indices = []
    for start, var, step in zip(box.starts, many, steps):
        first = substitute(start, there if loads(start) else later)
        indices.append(simplify(first if var is None else first + var * step))
    asked: Stmt = hint("prefetch", AddressOf(old, tuple(indices)))
    kind = "unroll" if math.prod(lines) <= MOST_UNROLLED else "serial"
    for var, count in reversed(list(zip(many, lines))):
        if var is not None:
            asked = For(var, idx(0), idx(count), kind, asked)  # type: ignore[arg-type]
    body = sequence([asked, loop.body])
    return Rewrite(replace_stmt(kernel, loop, replace(loop, body=body)))


def _check_shares(kernel: Kernel, buffer: str, at: str, of: str) -> Verdict | None:
    """Why iterations of ``at`` cannot ask for shares of what one of ``of`` reads; None where they can."""
    loop = find_loop(kernel, at)
    if of not in (x.var.name for x in loops_around(kernel, loop)):
        return refuse(f"`{of}` is not a loop around `{at}`")
    box, old = _box(kernel, buffer, of), find_buffer(kernel, buffer)
    if box is None:
        return nothing_reads(buffer, of)
    turns = [x for x in _between(kernel, loop, of) if trip_count(x, {}) is None]
    if turns:
        return refuse(f"how often `{turns[0].var.name}` runs is not a known number")
    elements = _dense_elements(box, old)
    if elements is None:
        return refuse(f"what an iteration of `{of}` reads of `{buffer}` does not lie in one piece of a known size")
    if (share := _share_lines(kernel, old, loop, of, elements)) > MOST_UNROLLED:
        reason = f"an iteration of `{at}` would ask for {share} cache lines of `{buffer}`, more than {MOST_UNROLLED}"
        return refuse(reason)
    return None


def _between(kernel: Kernel, loop: For, of: str) -> list[For]:
    """The loops inside ``of`` down to ``loop``."""
    around = [*loops_around(kernel, loop), loop]
    return around[[x.var.name for x in around].index(of) + 1 :]


def _share_lines(kernel: Kernel, old: Buffer, loop: For, of: str, elements: int) -> int:
    turns = math.prod(trip_count(x, {}) or 1 for x in _between(kernel, loop, of))
    return -(-elements * (old.dtype.bits // 8 or 1) // (LINE * max(turns, 1)))


def _asking_for_share(kernel: Kernel, old: Buffer, loop: For, of: For, ahead: int) -> Stmt:
    """``loop`` with hints for the part of what the iteration of ``of`` so many later reads that each of its iterations
    is to ask for."""
    box = _box(kernel, old.name, of.var.name)
    elements = None if box is None else _dense_elements(box, old)
    assert box is not None
    assert elements is not None
    turn: Expr = idx(0)
    for x in _between(kernel, loop, of.var.name):
        turn = turn * (trip_count(x, {}) or 1) + (x.var - x.lo)
    lines, per_line = _share_lines(kernel, old, loop, of.var.name, elements), LINE // (old.dtype.bits // 8 or 1)
    turns = math.prod(trip_count(x, {}) or 1 for x in _between(kernel, loop, of.var.name))
    rest = turns * lines * per_line // elements  # turns enough for a line in some of them: beyond are other pieces
    turn = turn // idx(rest) if rest > 1 else turn
    outer, first = [simplify(substitute(start, {of.var: of.var + ahead})) for start in box.starts[:-1]], box.starts[-1]
    around, inside = _parts(simplify(substitute(first, {of.var: of.var + ahead}) + turn * (lines * per_line)), loop.var)
    if isinstance(around, (Const, Var)):
        return _with_hints(loop, old, outer, around + inside, lines, per_line)
    begin = Var(fresh_name(f"{old.name}_next", taken_names(kernel)))
    return Let(begin, around, _with_hints(loop, old, outer, begin + inside, lines, per_line))


def _parts(e: Expr, var: Var) -> tuple[Expr, Expr]:
    """``e`` as a sum of what stays the same while ``var`` changes, and the rest."""
    form = linear_form(e)
    parts: list[Expr] = [idx(form.constant), idx(0)]
    for term, factor in ordered(form.terms.items()):
        changes = var.name in free_vars(term)
        parts[changes] = parts[changes] + term * factor
    return simplify(parts[0]), simplify(parts[1])


def _with_hints(loop: For, old: Buffer, outer: list[Expr], first: Expr, lines: int, per_line: int) -> For:
    places = (simplify(first + n * per_line) for n in range(lines))
    asked = [hint("prefetch", AddressOf(old, (*outer, place))) for place in places]
    return replace(loop, body=sequence([*asked, loop.body]))


def _dense_elements(box: Box, buffer: Buffer) -> int | None:
    """How many elements a box has that is one piece of memory; None for others."""
    sizes = [(int(n.value), int(m.value)) for n, m in zip(box.extents, buffer.shape)
             if isinstance(n, Const) and isinstance(m, Const)]  # fmt: skip
    if len(sizes) < buffer.rank or buffer.strides is not None:
        return None
    parted = next((d for d, (n, _) in enumerate(sizes) if n > 1), buffer.rank)
    return math.prod(n for n, _ in sizes) if all(n == m for n, m in sizes[parted + 1 :]) else None


def _box(kernel: Kernel, buffer: str, at: str) -> Box | None:
    reads = find_reads(kernel, buffer, at, None)
    if reads is None:
        return None
    rows = _looked_up(reads, find_loop(kernel, at))
    starts = tuple(rows.get(d, start) for d, start in enumerate(reads.box.starts))
    extents = tuple(idx(1) if d in rows else extent for d, extent in enumerate(reads.box.extents))
    return Box(starts, extents)


def _looked_up(reads: Reads, loop: For) -> dict[int, Expr]:
    """Subscripts that are looked up once for all that an iteration of ``loop`` reads, by dimension."""
    if len(reads.touched) != 1:
        return {}
    leaf, access = reads.touched[0]
    if leaf.tests or access.tests or access.axes:  # what is looked up may not be there in all iterations
        return {}
    written = {w.buffer.name for w in stores(loop)}
    looked_up: dict[int, Expr] = {}
    for d, index in enumerate(map(leaf.resolve, access.indices)):
        sources = loads(index)
        is_known = free_vars(index).keys() <= reads.segment.fixed
        if sources and is_known and not any(x.buffer.name in written for x in sources):
            looked_up[d] = index
    return looked_up


def _lines(box: Box, size: int) -> list[int] | None:
    """How many cache lines there are to ask for in each dimension, if that is known; only the last one is dense."""
    counts = []
    for d, extent in enumerate(box.extents):
        if not isinstance(extent, Const):
            return None
        step = LINE // size if d == len(box.extents) - 1 else 1
        counts.append(max(-(-int(extent.value) // step), 1))
    return counts
