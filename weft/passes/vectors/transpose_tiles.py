"""Tiles read or written across their rows go through registers and are turned there.

In ``unroll j { vector i { B[j, i] = A[i, j] } }`` every vector gathers from as many rows as it has
lanes, and the next one from the same rows again. Here the rows of the tile are read as vectors,
exchanged in register halves, quarters and so on until they are columns, and used as such; stores
across rows go the other way round.

Such exchanges are shuffles, or permutes, of a register transpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from weft.ir.affine import affine_form, linear_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Const, Expr, Load, Ramp, Reduce, Select, Shuffle, Var, idx
from weft.ir.stmt import Alloc, For, Kernel, Let, Seq, Stmt, Store
from weft.ir.visit import fresh_name, map_statements, rewrite, substitute, used_names, walk
from weft.passes.analysis.check_vector import check_vector
from weft.passes.analysis.conditions import mentions
from weft.passes.analysis.loop_ranges import constant_extent

#: Squares smaller than this gain nothing over picking lanes one by one.
SMALLEST = 4


def transpose_tiles(kernel: Kernel, vector_bits: int) -> Kernel:
    """Every access across the rows of a tile, of unrolled times vector iterations, through registers."""
    taken = used_names(kernel)
    return replace(kernel, body=_visit(kernel.body, vector_bits, taken))


def _visit(s: Stmt, vector_bits: int, taken: set[str]) -> Stmt:
    tile = find_tile(s)
    if tile is None:
        return map_statements(s, lambda n: _visit(n, vector_bits, taken))
    result: Stmt = tile.outer
    accesses: list[Load | Store] = [*_loads(tile.store.value), tile.store]
    crossing = [a for a in accesses if _crosses(tile, a, vector_bits)]
    for access in dict.fromkeys(crossing):
        result = _turn(tile, result, access, vector_bits, taken)
    return result


@dataclass(frozen=True, slots=True)
class Tile:
    """``unroll outer { vector lanes { store } }``: ``rows`` copies of ``width`` lanes."""

    outer: For
    lanes: For
    store: Store
    rows: int
    width: int


def find_tile(s: Stmt) -> Tile | None:
    if not isinstance(s, For) or s.kind != "unroll" or not isinstance(s.body, For) or s.body.kind != "vector":
        return None
    rows, width, store = constant_extent(s), constant_extent(s.body), s.body.body
    if not rows or not width or not isinstance(store, Store) or mentions(s.body.hi, s.var.name):
        return None
    return Tile(s, s.body, store, rows, width) if check_vector(s.body) is None and s.body.lo == idx(0) else None


def _loads(e: Expr) -> Iterator[Load]:
    """Loads that are surely made, not behind a condition (which would be a lane's own)."""
    if any(isinstance(n, (Select, Reduce)) or (isinstance(n, Binary) and n.op in ("&&", "||")) for n in walk(e)):
        return
    yield from (n for n in walk(e) if isinstance(n, Load))


def square(tile: Tile, buffer: Buffer, vector_bits: int) -> int:
    """The side of the squares that are turned in registers, or 0 where there are none."""
    bits = buffer.dtype.bits
    side = 0 if bits < 32 else min(tile.rows, tile.width, vector_bits // bits)
    fits = side >= SMALLEST and side & (side - 1) == 0 and tile.rows % side == 0 and tile.width % side == 0
    return side if fits else 0


def _crosses(tile: Tile, access: Load | Store, vector_bits: int) -> bool:
    """Whether lanes are in different rows of the buffer, and unrolled copies next to each other."""
    buffer, row, lane = access.buffer, tile.outer.var.name, tile.lanes.var.name
    if buffer.scope == "register" or not buffer.shape or not square(tile, buffer, vector_bits):
        return False
    if any(isinstance(n, Load) for i in access.indices for n in walk(i)):
        return False
    last, others, step = access.indices[-1], access.indices[:-1], buffer.element_strides()[-1]
    form = linear_form(last)
    adjacent = form.terms.get(tile.outer.var, 0) == 1 and not any(
        mentions(e, row) for e in form.terms if e != tile.outer.var
    )
    apart = any(mentions(i, lane) for i in others) and not mentions(last, lane)
    touched = [n for n in walk(tile.store) if isinstance(n, (Load, Store)) and n.buffer.name == buffer.name]
    alone = len(touched) == 1 or tile.store.buffer.name != buffer.name
    injective = isinstance(access, Load) or _is_injective(others, lane)
    fixed = isinstance(step, Const) and step.value == 1 and not any(mentions(i, row) for i in others)
    return adjacent and apart and alone and fixed and injective


def _is_injective(indices: tuple[Expr, ...], lane: str) -> bool:
    """Whether some index differs between any two lanes, so that stores may change their order."""
    forms = (affine_form(i) for i in indices)
    return any(f is not None and f.get(lane, 0) != 0 for f in forms)


def _turn(tile: Tile, body: Stmt, access: Load | Store, vector_bits: int, taken: set[str]) -> Stmt:
    side = square(tile, access.buffer, vector_bits)
    shape = (idx(tile.rows), idx(tile.width))
    name = fresh_name(f"{access.buffer.name}_tile", taken)
    turned = Buffer(name, access.buffer.dtype, shape, scope="register", span=access.span)
    assert isinstance(tile.outer.lo, Const)
    place = (tile.outer.var - int(tile.outer.lo.value), tile.lanes.var)

    def through_tile(n: Any) -> Any:
        if isinstance(access, Load):
            return Load(turned, place, span=n.span) if isinstance(n, Load) and n == access else None
        same = isinstance(n, Store) and n.buffer.name == access.buffer.name
        return Store(turned, place, n.value, span=n.span) if same else None

    steps = [s for corner in _corners(tile, side) for s in _turn_square(tile, access, turned, corner, side, taken)]
    inside = rewrite(body, through_tile)
    order = (*steps, inside) if isinstance(access, Load) else (inside, *steps)
    return Alloc(turned, Seq(order), span=tile.outer.span)


def _corners(tile: Tile, side: int) -> Iterator[tuple[int, int]]:
    return ((row, lane) for row in range(0, tile.rows, side) for lane in range(0, tile.width, side))


def _turn_square(
    tile: Tile, access: Load | Store, turned: Buffer, corner: tuple[int, int], side: int, taken: set[str]
) -> Iterator[Stmt]:
    """One square between memory and ``turned``, where row ``j`` of the tile holds unrolled copy ``j``."""
    row, lane = corner
    assert isinstance(tile.outer.lo, Const)
    columns = Ramp(idx(int(tile.outer.lo.value) + row), idx(1), side)
    places: list[tuple[Expr, Expr]] = [(idx(row + n), Ramp(idx(lane), idx(1), side)) for n in range(side)]
    exchanged = _exchange(turned, places, side, taken)
    if isinstance(access, Store):
        yield from exchanged
    for n, place in enumerate(places):
        at = {tile.lanes.var: idx(lane + n)}
        indices = tuple(substitute(i, at) for i in access.indices)
        start = substitute(indices[-1], {tile.outer.var: columns.base})
        there = (*indices[:-1], Ramp(start, idx(1), side))
        if isinstance(access, Load):
            yield Store(turned, place, Load(access.buffer, there, span=access.span), span=access.span)
        else:
            yield Store(access.buffer, there, Load(turned, place, span=access.span), span=access.span)
    if isinstance(access, Load):
        yield from exchanged


def _exchange(turned: Buffer, places: list[tuple[Expr, Expr]], side: int, taken: set[str]) -> list[Stmt]:
    """The square transposed in place: in every pair of rows ``step`` apart, blocks of ``step`` lanes change places."""
    steps: list[Stmt] = []
    step = side // 2
    while step:
        for n in (n for n in range(side) if not n & step):
            pair = (Load(turned, places[n]), Load(turned, places[n + step]))
            upper = [lane if not lane & step else side + lane - step for lane in range(side)]
            lower = [lane + step if not lane & step else side + lane for lane in range(side)]
            first = Var(fresh_name("turned", taken), turned.dtype.with_lanes(side))
            store = Store(turned, places[n + step], Shuffle(pair, tuple(lower)))
            steps.append(Let(first, Shuffle(pair, tuple(upper)), Seq((store, Store(turned, places[n], first)))))
        step //= 2
    return steps
