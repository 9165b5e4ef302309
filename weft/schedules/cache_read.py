"""``cache_read``: what is read of a buffer below a loop, copied at the start of the loop's body.

The copy has loops and a block of its own; the reads below go to it.
"""

from __future__ import annotations

from weft.ir.buffer import Scope
from weft.ir.stmt import Kernel
from weft.poly.verdict import Verdict, refuse
from weft.schedules.check_copy import check_reads, check_result
from weft.schedules.copy_reads import Readers, copy_reads, find_reads
from weft.schedules.find import find_buffer
from weft.schedules.rewrite import Rewrite, remembered
from weft.schedules.trace import Numerics


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
        find_buffer(kernel, buffer)
        return refuse(nothing_reads(buffer, at))
    verdict = check_reads(reads, scope)
    if not verdict.ok:
        return verdict
    return check_result(reads.segment, _copied(kernel, buffer, at, scope, readers).kernel, buffer, numerics)


def cache_read(
    kernel: Kernel, buffer: str, at: str | None = None, scope: Scope = "global", readers: Readers | None = None
) -> Rewrite:
    """Makes the block that copies and the storage it fills."""
    return _copied(kernel, buffer, at, scope, readers)


@remembered
def _copied(kernel: Kernel, buffer: str, at: str | None, scope: Scope, readers: Readers | None) -> Rewrite:
    reads = find_reads(kernel, buffer, at, readers)
    assert reads is not None
    return copy_reads(reads, scope, None, f"{buffer}_cache")


def nothing_reads(buffer: str, at: str | None) -> str:
    return f"nothing reads `{buffer}`" if at is None else f"nothing below `{at}` reads `{buffer}`"
