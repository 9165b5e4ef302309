"""Matrices of products in registers, where each lane has stored what it brings to an instruction: left ones of warp
groups, and columns that a warp takes two steps at a time.

Such a matrix is shared memory in the program, which the threads of a warp hand each other; that an instruction takes
it from their registers is the code's business alone, like where swizzled rows lie: nothing of it is in shared memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import prod

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Binary, Call, Const, Expr, const, idx
from weft.ir.hardware import HARDWARE
from weft.ir.stmt import Alloc, Evaluate, Store
from weft.ir.visit import Node, rewrite, walk
from weft.target.cuda.emit_mma import number_of
from weft.target.cuda.read_launches import Grid, thread_counts
from weft.target.cuda.read_products import Operand, column_place, lane_place

#: Which argument of a product is the distance of two rows of its left matrix: zero where lanes have these.
_ROW = 6
#: Of columns: how many times 8 there are, and the distance of two of them.
_COUNT, _COLUMN = 4, 6


#: Where a lane has what a statement stores.
Place = Callable[[Store], Expr | None]


def operands_in_registers(grid: Grid) -> tuple[Grid, frozenset[str]]:
    """The launch with arrays of each thread for matrices that have no rows in shared memory, and their names."""
    lefts, columns = _find_lefts(grid), _find_columns(grid)
    found = lefts | columns
    body = grid.body
    for buffer, place_of in found.items():
        count = prod(int(e.value) for e in buffer.shape if isinstance(e, Const)) // prod(thread_counts(grid))
        own = replace(buffer, shape=(idx(count),), strides=None, scope="register")

        def visit(n: Node, old: str = buffer.name, own: Buffer = own, place_of: Place = place_of) -> Node | None:
            if isinstance(n, Store) and n.buffer.name == old:
                place = place_of(n)
                assert place is not None
                return replace(n, buffer=own, indices=(place,))
            if isinstance(n, AddressOf) and n.buffer.name == old:
                return replace(n, buffer=own, indices=(idx(0),))
            return None

        body = Alloc(own, rewrite(body, visit))
    body = rewrite(body, _as_power_of_two) if lefts else body
    names = frozenset(b.name for b in found)
    inner = tuple(s for s in grid.inner if not (isinstance(s, Alloc) and s.buffer.name in names))
    return (replace(grid, inner=inner, body=body), names) if found else (grid, names)


def _find_lefts(grid: Grid) -> dict[Buffer, Place]:
    """Left matrices that the lanes of warp groups bring, in the order of the program, and where these have them."""
    places = [c.args[1] for c in _calls(grid, "_start", "_begin") if c.args[_ROW] == idx(0)]
    return {e.buffer: partial(lane_place, grid.threads) for e in places if isinstance(e, AddressOf)}


def _find_columns(grid: Grid) -> dict[Buffer, Place]:
    """The same of columns that the lanes of a warp bring."""
    found: dict[Buffer, Place] = {}
    for call in _calls(grid, "_halve_b"):
        place = call.args[1]
        if isinstance(place, AddressOf):
            count, apart = (number_of(call.args[n]) for n in (_COUNT, _COLUMN))
            columns = Operand(place, apart, 1)
            found[place.buffer] = partial(column_place, grid.threads, columns=columns, count=count)
    return found


def _calls(grid: Grid, *endings: str) -> Iterator[Call]:
    for n in walk(grid.body):
        if isinstance(n, Evaluate) and n.call.name.endswith(endings) and n.call.name in HARDWARE:
            yield n.call


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
