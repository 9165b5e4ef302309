"""``prefetch``: what an iteration of a loop will read of a buffer, asked for some iterations earlier.

Software prefetching: a hint at the start of the loop's body, one for each cache line of the box that is read there;
results do not change. A row that is looked up, ``LUT[I[b, l], d]``, is looked up for the later iteration too (for the
last, again and again).
"""

from __future__ import annotations

import math
from dataclasses import replace

from weft.ir.expr import AddressOf, Binary, Const, Expr, Var, idx
from weft.ir.nesting import sequence
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Kernel, Stmt, hint
from weft.ir.visit import free_vars, fresh_name, loads, stores, substitute
from weft.poly.verdict import Verdict, refuse
from weft.schedules.boxes import Box
from weft.schedules.copy_reads import Reads, find_reads, nothing_reads
from weft.schedules.find import all_allocs, find_buffer, find_loop, loops_around
from weft.schedules.loop_facts import check_number, check_valid
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, taken_names
from weft.schedules.trace import Numerics

#: Bytes that come together.
LINE = 64
#: More lines than this for one iteration would crowd out what they are to serve.
MOST_LINES = 64
#: Up to so many hints are written out instead of looped over.
MOST_UNROLLED = 16


def check_prefetch(kernel: Kernel, buffer: str, at: str, ahead: int = 1, *, numerics: Numerics) -> Verdict:
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
def prefetch(kernel: Kernel, buffer: str, at: str, ahead: int = 1) -> Rewrite:
    """Puts the hints at the start of the body of ``at``."""
    loop, old = find_loop(kernel, at), find_buffer(kernel, buffer)
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
