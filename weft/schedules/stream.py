"""``stream``: what is stored to a buffer goes past the caches.

For large results that nobody reads soon: the processor then need not fetch the old contents of a line before it
overwrites all of it, and what is in the caches stays there. A hint; results do not change.
"""

from __future__ import annotations

from weft.ir.expr import AddressOf, idx
from weft.ir.nesting import sequence
from weft.ir.stmt import Alloc, Kernel, Store, hint
from weft.ir.visit import walk
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_alloc, find_buffer
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt
from weft.schedules.trace import Numerics


def check_stream(kernel: Kernel, buffer: str, *, numerics: Numerics) -> Verdict:
    """A hint changes nothing; there must be stores, to memory that has caches in front of it."""
    buffer_node = find_buffer(kernel, buffer)
    if buffer_node.scope != "global":
        return refuse(f"`{buffer}` is in {buffer_node.scope} memory, which is close already")
    if not any(isinstance(n, Store) and n.buffer.name == buffer for n in walk(kernel)):
        return refuse(f"nothing is stored to `{buffer}`")
    return OK


@primitive(check_stream, "cannot store to `{0}` past the caches")
def stream(kernel: Kernel, buffer: str) -> Rewrite:
    """Puts the hint before everything that uses the buffer."""
    buffer_node = find_buffer(kernel, buffer)
    place = AddressOf(buffer_node, tuple(idx(0) for _ in buffer_node.shape))
    streams = hint("stream", place)
    if buffer in {b.name for b in kernel.buffers}:
        return Rewrite(replace_stmt(kernel, kernel.body, sequence([streams, kernel.body])))
    alloc = find_alloc(kernel, buffer)
    body = sequence([streams, alloc.body])
    return Rewrite(replace_stmt(kernel, alloc, Alloc(alloc.buffer, body, span=alloc.span)))
