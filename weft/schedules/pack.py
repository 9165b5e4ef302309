"""``pack``: the order in memory and the padding of a buffer chosen apart from its shape.

The layout is spelled as in `weft.schedules.layouts`: ``"j/32 i j%32"`` is panels of 32 columns, row by row. What is
read of an argument (or, with ``at`` or ``pad``, of any buffer) is copied to storage of that layout; a temporary is laid
out so where it is made, without a copy.

``cache_read`` is the same in the layout that the buffer has: what is read below a loop, copied at the start of its
body. The copy has loops and a block of its own; the reads below go to it.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.buffer import Buffer, Scope
from weft.ir.expr import idx
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Kernel
from weft.poly.verdict import Verdict, refuse
from weft.schedules.copy_reads import Readers, Slice, check_copied, copy_reads, find_reads, nothing_reads
from weft.schedules.find import all_allocs, find_alloc, find_buffer, ranges_at
from weft.schedules.layouts import parse_layout
from weft.schedules.loop_facts import check_valid
from weft.schedules.redirect import Placement, Redirection, only_plain_accesses
from weft.schedules.rewrite import Rewrite, primitive, remembered, replace_stmt, taken_names
from weft.schedules.trace import Numerics


def check_pack(
    kernel: Kernel,
    buffer: str,
    layout: str,
    at: str | None = None,
    scope: Scope = "global",
    pad: bool = False,
    readers: Readers | None = None,
    part: Slice | None = None,
    *,
    numerics: Numerics,
) -> Verdict:
    """A copy must stay true, as for `cache_read`; the layout of a temporary is nobody else's business."""
    rank = find_buffer(kernel, buffer).rank
    parse_layout(layout, rank)
    if part is not None and not 0 <= part[0] < rank:
        return refuse(f"`{buffer}` has {rank} dimensions, counted from 0; {part[0]} is none")
    if is_own_storage(kernel, buffer, at, pad, part):
        if not only_plain_accesses(kernel.body, buffer):
            return refuse(f"an intrinsic takes the address of `{buffer}`")
        return check_valid(lay_out(kernel, buffer, layout).kernel)
    reads = find_reads(kernel, buffer, at, readers, part)
    if reads is None:
        return nothing_reads(buffer, at)
    return check_copied(reads, scope, lambda: pack(kernel, buffer, layout, at, scope, pad, readers, part), numerics)


@primitive(check_pack, "cannot lay out `{0}` as {1}")
def pack(
    kernel: Kernel,
    buffer: str,
    layout: str,
    at: str | None = None,
    scope: Scope = "global",
    pad: bool = False,
    readers: Readers | None = None,
    part: Slice | None = None,
) -> Rewrite:
    """Makes the block that copies and the storage it fills; nothing new for a temporary."""
    if is_own_storage(kernel, buffer, at, pad, part):
        return lay_out(kernel, buffer, layout)
    reads = find_reads(kernel, buffer, at, readers, part)
    assert reads is not None, "the check answers this first"
    return copy_reads(reads, scope, layout, f"{buffer}_pack", fill=pad)


def is_own_storage(kernel: Kernel, buffer: str, at: str | None, pad: bool, part: Slice | None) -> bool:
    """Whether the buffer itself is to be laid out: a temporary, and neither a place for a copy, zeros to fill it up
    nor a part of it are asked for."""
    return at is None and not pad and part is None and any(a.buffer.name == buffer for a in all_allocs(kernel))


@remembered
def lay_out(kernel: Kernel, buffer: str, layout: str) -> Rewrite:
    """A temporary with its elements in another order."""
    alloc = find_alloc(kernel, buffer)
    old, ranges = alloc.buffer, ranges_at(kernel, alloc)
    order = parse_layout(layout, old.rank)
    shape = tuple(simplify(n, ranges) for n in order.shape(old.shape))
    new: Buffer = replace(old, shape=shape, strides=None)
    place = Placement(old, new, tuple(idx(0) for _ in old.shape), order)
    body = Redirection(place, taken_names(kernel)).apply(alloc.body, ranges)
    return Rewrite(replace_stmt(kernel, alloc, Alloc(new, body, span=alloc.span)))


def check_cache_read(
    kernel: Kernel,
    buffer: str,
    at: str | None = None,
    scope: Scope = "global",
    readers: Readers | None = None,
    *,
    numerics: Numerics,
) -> Verdict:
    """Nothing below may write what was copied, and the copy must not read what has no value yet."""
    reads = find_reads(kernel, buffer, at, readers)
    if reads is None:
        return nothing_reads(buffer, at)
    return check_copied(reads, scope, lambda: cache_read(kernel, buffer, at, scope, readers), numerics)


@primitive(check_cache_read, "cannot read `{0}` from a copy")
def cache_read(
    kernel: Kernel, buffer: str, at: str | None = None, scope: Scope = "global", readers: Readers | None = None
) -> Rewrite:
    """Makes the block that copies and the storage it fills."""
    reads = find_reads(kernel, buffer, at, readers)
    assert reads is not None, "the check answers this first"
    return copy_reads(reads, scope, None, f"{buffer}_cache")
