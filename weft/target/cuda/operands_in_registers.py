"""Left matrices of products by warp groups in registers, where each lane has stored what it brings to an instruction.

Such a matrix is shared memory in the program, which the threads of a warp hand each other; that an instruction takes
it from their registers is the code's business alone, like where swizzled rows lie: nothing of it is in shared memory.
"""

from __future__ import annotations

import math
from dataclasses import replace
from math import prod

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Binary, Call, Const, Expr, const, idx
from weft.ir.hardware import HARDWARE
from weft.ir.stmt import Alloc, Evaluate, Store
from weft.ir.visit import Node, rewrite, walk
from weft.target.cuda.read_launches import Grid, thread_counts
from weft.target.cuda.read_products import lane_place

#: Which argument of a product is the distance of two rows of its left matrix: zero where lanes have these.
_ROW = 6


def operands_in_registers(grid: Grid) -> tuple[Grid, frozenset[str]]:
    """The launch with arrays of each thread for left matrices that have no rows in shared memory, and their names."""
    calls = (n.call for n in walk(grid.body) if isinstance(n, Evaluate) and n.call.name.endswith(("_start", "_begin")))
    places = [c.args[1] for c in calls if c.name in HARDWARE and c.args[_ROW] == idx(0)]
    found = dict.fromkeys(e.buffer for e in places if isinstance(e, AddressOf))  # in the order of the program
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

        body = Alloc(own, rewrite(rewrite(body, visit), _as_power_of_two))
    names = frozenset(b.name for b in found)
    inner = tuple(s for s in grid.inner if not (isinstance(s, Alloc) and s.buffer.name in names))
    return (replace(grid, inner=inner, body=body), names) if found else (grid, names)


def _as_power_of_two(n: Node) -> Node | None:
    """``exp(a - b)`` as what the hardware has an instruction for, so that the difference is one operation with it.

    What rounding ``b`` costs is a factor that all weights of a row have in common.
    """
    if not (isinstance(n, Call) and n.name == "exp" and n.dtype == dt.float32):
        return None
    (gap,) = n.args
    if not isinstance(gap, Binary) or gap.op != "-":
        return None
    return replace(n, name="exp2", args=(Binary("-", _times(gap.left), _times(gap.right)),))


def _times(e: Expr) -> Expr:
    """``e`` times the binary logarithm of e."""
    per = 1.0 / math.log(2.0)
    if isinstance(e, Binary) and e.op == "*" and isinstance(e.right, Const):
        return Binary("*", e.left, const(float(e.right.value) * per, e.dtype))
    return Binary("*", e, const(per, e.dtype))
