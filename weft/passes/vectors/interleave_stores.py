"""Rows stored in turn are mixed in registers and stored as one.

In ``unroll j in 0:4 { vector i { B[i, j] = A[j, i] } }``, where ``B[i, 0:4]`` lie side by side, every vector is
scattered to every fourth place, and the next one to the places beside. Here the vectors are computed first, their
lanes shuffled into each other, and stored in one go.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Const, Expr, Load, Ramp, Shuffle, Var, idx
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, For, Kernel, Let, Seq, Stmt, Store
from weft.ir.visit import fresh_name, rebuild, rewrite, substitute, used_names, walk
from weft.passes.analysis.infer_step import infer_step
from weft.passes.vectors.transpose_tiles import Tile, find_tile

#: Lanes that are stored as one.
MOST_LANES = 256


def interleave_stores(kernel: Kernel) -> Kernel:
    """Every store of unrolled vectors that together fill a piece of memory, as one store."""
    taken = used_names(kernel)

    def visit(s: Stmt) -> Stmt:
        tile = find_tile(s)
        if tile is None or not _fills_a_piece(tile):
            return rebuild(s, lambda n: visit(n) if isinstance(n, Stmt) else n)
        return _interleaved(tile, taken) or s

    return replace(kernel, body=visit(kernel.body))


def _fills_a_piece(tile: Tile) -> bool:
    """Whether copy ``j`` of the store goes to places ``j``, ``rows + j``, ``2 rows + j`` and so on."""
    store, rows = tile.store, tile.rows
    if rows < 2 or rows & (rows - 1) or tile.width & (tile.width - 1) or rows * tile.width > MOST_LANES:
        return False
    if store.buffer.scope == "register" or not isinstance(tile.outer.lo, Const) or tile.outer.lo.value != 0:
        return False
    inside = [n for n in walk(store) if isinstance(n, Load)]
    if any(n.buffer.name == store.buffer.name for n in inside):
        return False
    return _step(store, tile.lanes.var) == rows and _step(store, tile.outer.var) == 1


def _step(store: Store, var: Var) -> int | None:
    return infer_step(store.buffer, store.indices, var.name, frozenset({var.name}))


def _interleaved(tile: Tile, taken: set[str]) -> Stmt | None:
    """The tile through registers, unless what it fills is not seen to be one piece."""
    store, rows, width = tile.store, tile.rows, tile.width
    lane = Var(fresh_name(f"{tile.lanes.var.name}_mixed", taken))
    at: dict[Var, Expr] = {
        tile.lanes.var: Binary("//", lane, idx(rows)),
        tile.outer.var: Binary("%", lane, idx(rows)),
    }
    indices = tuple(simplify(substitute(i, at)) for i in store.indices)
    if _step(replace(store, indices=indices), lane) != 1:
        return None
    name = fresh_name(f"{store.buffer.name}_rows", taken)
    apart = Buffer(name, store.buffer.dtype, (idx(rows), idx(width)), scope="register", span=store.span)
    together = replace(apart, name=fresh_name(f"{store.buffer.name}_mixed", taken), shape=(idx(rows * width),))
    computed = rewrite(tile.outer, lambda n: _kept(n, tile, apart))
    mixed, steps = _mix([Load(apart, (idx(j), Ramp(idx(0), idx(1), width))) for j in range(rows)], taken)
    body: Stmt = Store(together, (Ramp(idx(0), idx(1), rows * width),), mixed, span=store.span)
    for var, value in reversed(steps):
        body = Let(var, value, body)
    written = replace(store, indices=indices, value=Load(together, (lane,)))
    last = For(lane, idx(0), idx(rows * width), "vector", written, span=tile.lanes.span)
    return Alloc(apart, Alloc(together, Seq((computed, body, last))), span=tile.outer.span)


def _kept(n: object, tile: Tile, apart: Buffer) -> Store | None:
    return replace(n, buffer=apart, indices=(tile.outer.var, tile.lanes.var)) if isinstance(n, Store) else None


def _mix(vectors: list[Expr], taken: set[str]) -> tuple[Expr, list[tuple[Var, Expr]]]:
    """Lane 0 of all vectors, lane 1 of all, and so on; with the variables that the result is computed from."""
    steps: list[tuple[Var, Expr]] = []
    while len(vectors) > 1:
        half, lanes = len(vectors) // 2, vectors[0].dtype.lanes
        positions = tuple(p for n in range(lanes) for p in (n, lanes + n))
        pairs = [Shuffle((a, b), positions) for a, b in zip(vectors[:half], vectors[half:])]
        if half == 1:
            return pairs[0], steps
        names = [Var(fresh_name("mixed", taken), p.dtype) for p in pairs]
        steps += zip(names, pairs)
        vectors = list(names)
    return vectors[0], steps
