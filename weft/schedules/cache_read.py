"""``cache_read``: what is read of a buffer below a loop, copied at the start of the loop's body.

The copy has loops and a block of its own; the reads below go to it.
"""

from __future__ import annotations

from weft.ir.buffer import Scope
from weft.ir.stmt import Kernel
from weft.poly.verdict import Verdict
from weft.schedules.check_copy import check_copied, nothing_reads
from weft.schedules.copy_reads import Readers, copy_reads, find_reads
from weft.schedules.rewrite import Rewrite, primitive
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
