"""Left matrices of products by warp groups in registers, where each lane has stored what it brings to an instruction.

Such a matrix is shared memory in the program, which the threads of a warp hand each other; that an instruction takes
it from their registers is the code's business alone, like where swizzled rows lie: nothing of it is in shared memory.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Const, idx
from weft.ir.hardware import HARDWARE
from weft.ir.stmt import Alloc, Evaluate, Store
from weft.ir.visit import Node, rewrite, walk
from weft.target.cuda.read_launches import Grid, thread_counts
from weft.target.cuda.read_products import lane_place
from weft.target.cuda.swizzle import find_swizzled


def operands_in_registers(grid: Grid) -> tuple[Grid, frozenset[str]]:
    """The launch with arrays of each thread for left matrices that are not swizzled, and their names."""
    swizzled = find_swizzled(grid.body)
    calls = (n.call for n in walk(grid.body) if isinstance(n, Evaluate) and n.call.name.endswith("_start"))
    places = [c.args[1] for c in calls if c.name in HARDWARE]
    found = {e.buffer for e in places if isinstance(e, AddressOf)} - {b for b in grid.shared if b.name in swizzled}
    body = grid.body
    for buffer in found:
        count = prod(int(e.value) for e in buffer.shape if isinstance(e, Const)) // prod(thread_counts(grid))
        own = replace(buffer, shape=(idx(count),), scope="register")

        def visit(n: Node, old: str = buffer.name, own: Buffer = own) -> Node | None:
            if isinstance(n, Store) and n.buffer.name == old:
                place = lane_place(grid.threads, n)
                assert place is not None
                return replace(n, buffer=own, indices=(place,))
            if isinstance(n, AddressOf) and n.buffer.name == old:
                return replace(n, buffer=own, indices=(idx(0),))
            return None

        body = Alloc(own, rewrite(body, visit))
    names = frozenset(b.name for b in found)
    inner = tuple(s for s in grid.inner if not (isinstance(s, Alloc) and s.buffer.name in names))
    return (replace(grid, inner=inner, body=body), names) if found else (grid, names)
