"""What is looked up for the rows of a tile, as its least and its greatest, found before the nest that the tile is in.

::

    for s_o { for t { for s_i { ... t >= F[32 * s_o + s_i] ...      =>      for s_o { for s_i {
                                                                              F_least[s_o] = min(F_least[s_o],
                                                                                                 F[32 * s_o + s_i])
                                                                            } }
                                                                            for s_o { for t { ... F_least[s_o] ...

Masks of sequences of any length, one after another in memory, are such: which keys a row has stands in a table, or is
found from one. Rows beyond the last one count as that one, which changes no extremum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Load, Var, identity, idx
from weft.ir.interval import Interval, bounds
from weft.ir.nesting import sequence
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Block, For, Iter, IterKind, Kernel, Stmt, Store
from weft.ir.visit import Node, free_vars, fresh_name, loads, mentions, rewrite, substitute
from weft.schedules.copy_reads import region
from weft.schedules.find import loops_around
from weft.schedules.rewrite import replace_stmt, taken_names


@dataclass
class TileExtremes:
    """Those asked for so far, of lookups below ``loop``; ``nests`` find them."""

    kernel: Kernel
    loop: For
    nests: list[tuple[Buffer, Stmt]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.outer = loops_around(self.kernel, self.loop)
        self.taken = taken_names(self.kernel)
        self.known: dict[tuple[Expr, BinaryOp], Expr] = {}

    def find(self, e: Expr, op: BinaryOp, inner: Sequence[For]) -> Expr | None:
        """The extremum by ``op`` of lookup ``e`` over ``inner`` loops, as a lookup of its own; None where ``e`` is
        something else, or changes in the nest."""
        if (e, op) not in self.known:
            found = self._found(e, op, inner)
            if found is None:
                return None
            self.known[e, op] = found
        return self.known[e, op]

    def _found(self, e: Expr, op: BinaryOp, inner: Sequence[For]) -> Expr | None:
        is_wider = isinstance(e, Cast) and e.dtype.is_integer and e.dtype.bits > e.operand.dtype.bits
        read = e.operand if isinstance(e, Cast) and is_wider else e
        if not isinstance(read, Load) or not read.dtype.is_integer or not self.outer:
            return None
        used, stored = free_vars(read).keys(), mentions(self.outer[0]).stored
        rows = [x for x in inner if x.var.name in used]
        tiles = [x for x in self.outer if x.var.name in used]
        spans = [(bounds(x.lo, {}).lo, bounds(x.hi, {}).hi) for x in (*tiles, *rows)]
        known = used == {x.var.name for x in (*tiles, *rows)} and all(a == 0 and b for a, b in spans)
        if not known or stored & {x.buffer.name for x in loads(read)} or any(x.hi != idx(_count(x)) for x in tiles):
            return None
        table = self._table(read, op, tiles, rows)
        places: dict[Expr, Expr] = {read: Load(table, tuple(x.var for x in tiles))}
        return rewrite(e, lambda n: places.get(n) if isinstance(n, Load) else None)

    def _table(self, read: Load, op: BinaryOp, tiles: Sequence[For], rows: Sequence[For]) -> Buffer:
        """The nest that finds the extremum for each of ``tiles``, as a block that reduces."""
        word = "least" if op == "min" else "greatest"
        shape = tuple(idx(_count(x)) for x in tiles)
        table = Buffer(fresh_name(f"{read.buffer.name}_{word}", self.taken), read.dtype, shape)
        loops = [(Var(fresh_name(x.var.name, self.taken)), idx(_count(x))) for x in (*tiles, *rows)]
        of_tiles: list[IterKind] = ["spatial" for _ in tiles]
        of_rows: list[IterKind] = ["reduce" for _ in rows]
        iters = tuple(
            Iter(Var(fresh_name(f"v{var.name}", self.taken)), idx(0), hi, kind, var)
            for (var, hi), kind in zip(loops, (*of_tiles, *of_rows))
        )
        values: dict[Var, Expr] = {x.var: i.var for x, i in zip((*tiles, *rows), iters)}
        value = _within({i.var.name: Interval(0, int(i.hi.value) - 1) for i in iters}, substitute(read, values))  # type: ignore[attr-defined]
        place = tuple(i.var for i in iters[: len(tiles)])
        begin = Store(table, place, identity(op, table.dtype))
        body: Stmt = Block(
            fresh_name(table.name, self.taken), iters,
            tuple(dict.fromkeys(region(x.buffer, x.indices, is_certain=x is value) for x in loads(value))),
            (region(table, place),), begin, Store(table, place, Binary(op, Load(table, place), value)),
        )  # fmt: skip
        for var, hi in reversed(loops):
            body = For(var, idx(0), hi, "serial", body)
        self.nests.append((table, body))
        return table

    def placed(self, kernel: Kernel, nest: For) -> Kernel:
        """``kernel`` with what finds them before ``nest``, the outermost loop of the nest they are asked for in."""
        if not self.nests:
            return kernel
        made = sequence([*(s for _, s in self.nests), nest])
        for table, _ in reversed(self.nests):
            made = Alloc(table, made)
        return replace_stmt(kernel, nest, made)


def _count(x: For) -> int:
    """How often a loop from 0 runs at most."""
    return bounds(x.hi, {}).hi or 0


def _within(ranges: dict[str, Interval], read: Load) -> Expr:
    """``read`` with subscripts beyond the ends of a buffer at these."""

    def visit(n: Node) -> Node | None:
        if not isinstance(n, Load):
            return None
        kept = []
        for i, size in zip(n.indices, n.buffer.shape):
            i = rewrite(i, visit)
            span = bounds(i, ranges)
            last = int(size.value) - 1 if isinstance(size, Const) else None
            if span.lo is None or span.lo < 0:
                i = Binary("max", i, idx(0))
            if last is None or span.hi is None or span.hi > last:
                i = Binary("min", i, size - 1)
            kept.append(simplify(i, ranges))
        return Load(n.buffer, tuple(kept))

    return rewrite(read, visit)
