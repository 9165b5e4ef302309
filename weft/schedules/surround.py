"""``surround``: a copy of a buffer with what is outside of it around it, for reads there: zeros, or further elements.

::

    for y, x, k                                          for y, x: A_around[y, x] = inside A ? A[y - 1, x - 1] : 0
      B[y, x] += (inside A ? A[y + k - 1, x - 1] : 0)  =>  for y, x, k
                                                           B[y, x] += A_around[y + k, x]

What is around is often called halo, ghost cells or padding. The test is made once for each element, not at each read.
Reads whose condition says more than that the element exists keep it. Subscripts that are cut off or wrap around at the
borders, all of them in the same way, need no condition.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from weft.ir import dtype as dt
from weft.ir.affine import Linear, linear_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Cast, Const, Expr, Load, Select
from weft.ir.inequality import conjuncts, slack, tight
from weft.ir.simplify import simplify
from weft.ir.stmt import Block, Kernel, Stmt
from weft.ir.visit import Node, rewrite, walk
from weft.poly.verdict import Verdict, refuse
from weft.schedules.borders import Border, beyond_borders, find_border
from weft.schedules.copy_reads import Readers, Reads, check_copied, copy_reads, find_reads, nothing_reads
from weft.schedules.rewrite import Rewrite, primitive
from weft.schedules.trace import Numerics


def check_surround(
    kernel: Kernel,
    buffer: str,
    at: str | None = None,
    readers: Readers | None = None,
    layout: str | None = None,
    *,
    numerics: Numerics,
) -> Verdict:
    """As for `cache_read`; and there must be reads that give zero, or all the same other element, outside."""
    reads = find_reads(kernel, buffer, at, readers)
    if reads is None:
        return nothing_reads(buffer, at)
    if not _gives_zero(reads) and _border(reads) is None:
        return refuse(f"no read of `{buffer}` gives zero outside of it")
    return check_copied(reads, "global", lambda: surround(kernel, buffer, at, readers, layout), numerics)


@primitive(check_surround, "cannot read `{0}` from a copy with zeros around it")
def surround(
    kernel: Kernel, buffer: str, at: str | None = None, readers: Readers | None = None, layout: str | None = None
) -> Rewrite:
    """Makes the block that copies and the storage it fills, laid out as `weft.schedules.layouts` spells it."""
    reads = find_reads(kernel, buffer, at, readers)
    assert reads is not None, "the check answers this first"
    source, border = reads.buffer, None if _gives_zero(reads) else _border(reads)

    def opened_read(n: Node) -> Node | None:
        if border is not None and isinstance(n, Load) and n.buffer == source:
            return replace(n, indices=beyond_borders(n))
        return opened(n, source) if border is None and isinstance(n, Select) else None

    def without_tests(s: Stmt) -> Stmt:
        return rewrite(s, opened_read)

    def prepared(s: Stmt) -> Stmt:
        """Blocks that go on reading the buffer itself keep their tests."""
        if readers is None:
            return without_tests(s)
        return rewrite(s, lambda n: without_tests(n) if isinstance(n, Block) and n.name in readers else None)

    if border is None:
        whole = replace(reads, beyond=True)
        return copy_reads(whole, "global", layout, f"{buffer}_around", fill=True, prepare=prepared)
    touched = [(leaf, replace(a, indices=beyond_borders(a))) for leaf, a in reads.touched]
    whole = replace(reads, touched=touched, beyond=True)
    return copy_reads(whole, "global", layout, f"{buffer}_around", border=border, prepare=prepared)


def _gives_zero(reads: Reads) -> bool:
    selects = (n for s in reads.segment.inside for n in walk(s) if isinstance(n, Select))
    return any(opened(n, reads.buffer) is not None for n in selects)


def _border(reads: Reads) -> Border | None:
    return find_border([a for _, a in reads.touched], frozenset(v.name for v in reads.segment.kernel.scalars))


@lru_cache(maxsize=64)  # the check asks, and both rewrites of a read do
def opened(e: Select, buffer: Buffer) -> Expr | None:
    """What ``e`` reads, if it is an element of ``buffer`` where that exists and zero elsewhere."""
    load = e.then.operand if isinstance(e.then, Cast) else e.then
    zero = isinstance(e.otherwise, Const) and e.otherwise.value == 0
    if not zero or not isinstance(load, Load) or load.buffer != buffer:
        return None
    inside = [_tight(end) for i, size in zip(load.indices, buffer.shape) for end in (i, size - i - 1)]
    tests = map(slack, conjuncts(e.condition))
    return e.then if all(gap is not None and _tight(gap.expr(dt.index)) in inside for gap in tests) else None


def _tight(gap: Expr) -> Linear:
    return tight(linear_form(simplify(gap)))
