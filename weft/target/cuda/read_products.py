"""What a tensorized nest of matrix instructions is: its operands, read off the loops of a lane in grid form.

The thread nest around is that of warps: its innermost loops are the lanes. In grid form their values are digits of
thread variables, so these are written as ``32 * warp + 4 * row + pair`` first (for ``wgmma`` with warps in groups of
four, each with 16 of 64 rows); then the nest is compared with the meaning, which gives where the operands of the warp
or group begin and how they lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Const, Expr, Var, idx
from weft.ir.hardware import Hardware
from weft.ir.interval import Interval
from weft.ir.match_hardware import Mismatch, match_hardware
from weft.ir.nesting import around, statements_in
from weft.ir.offsets import linear_offset
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Seq, Stmt, Store, Tensorized
from weft.ir.visit import loads, stores, substitute
from weft.target.cuda.swizzle import ROW, SWIZZLE_ALIGN

#: ``ldmatrix`` takes rows of 16 bytes.
ROW_BYTES = 16
#: Of instructions of warp groups: rows of a warp, warps of a group, columns of a block and of a tile, the most columns.
ROWS, WARPS, BLOCK, TILE, MOST = 16, 4, 64, 8, 256
GROUP_ROWS = ROWS * WARPS


def can_be_turned(buffer: Buffer) -> bool:
    """Whether instructions multiply elements that do not lie side by side along the depth."""
    return buffer.dtype.itemsize > 1


def row_length(buffer: Buffer) -> int:
    """Elements of a row of swizzled shared memory."""
    return ROW // buffer.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Site:
    """Where a nest stands: the thread loops of the launch, what variables can be, and buffers of special kinds."""

    threads: tuple[For, ...]
    ranges: Mapping[str, Interval]
    private: frozenset[str]
    swizzled: frozenset[str]
    launch: Stmt | None = None


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix in shared memory, or in that of the device: where the warp's part begins, elements between its rows (or
    columns) and along k."""

    place: AddressOf
    row: int
    k: int


@dataclass(frozen=True, slots=True)
class Products:
    """What the nest of a lane is: ``steps`` times ``rows`` by ``columns`` matrix instructions.

    ``sums`` and ``numbers`` tell where a lane's sums are in its own array; ``lane`` is the thread's place in the warp.
    ``is_made``: lanes have stored themselves what they bring of the columns.
    """

    a: Operand
    b: Operand
    sums: AddressOf
    numbers: dict[str, int]
    lane: Expr
    is_made: bool = False

    @property
    def steps(self) -> int:
        return self.numbers["KS"]

    @property
    def rows(self) -> int:
        return self.numbers["MI"]

    @property
    def columns(self) -> int:
        return self.numbers["NJ"]

    @property
    def is_fetched(self) -> bool:
        """Whether lanes load columns from memory, or have them, two steps at a time."""
        return self.is_made or self.b.place.buffer.scope == "global"


@dataclass(frozen=True, slots=True)
class GroupProducts:
    """What the nest of a lane is for four warps: ``numbers`` has steps, blocks of 64 columns, and all strides.

    ``lane`` is the thread's place among the 128 of the group.
    """

    a: AddressOf
    b: AddressOf
    sums: AddressOf
    numbers: dict[str, int]
    lane: Expr

    @property
    def is_in_lanes(self) -> bool:
        """Whether the left matrix is in registers: each lane has what it stored itself."""
        return self.numbers["a_row"] == 0


def read_products(site: Site, s: Tensorized, hardware: Hardware) -> Products | None:
    """None where operands are not in shared memory, rows of 16 bytes, or sums not in the registers of the lane.

    Columns may also be in memory, or made by lanes, along the depth and for an even number of steps.
    """
    warps = _Units.find(site, 1)
    found = None if warps is None else warps.match(site, hardware, s.body, (0, 1, 3))
    if warps is None or found is None:
        return None
    places, n = found
    in_pairs = n["a_k"] == n["b_k"] == 1 and n["KS"] % 2 == 0
    fetched = places["B"].buffer.scope == "global" and in_pairs
    a = warps.operand(site, places["A"], n["a_row"], n["a_k"])
    b = warps.operand(site, places["B"], n["b_col"], n["b_k"], "global" if fetched else "shared")
    if a is None or b is None:
        return None
    made = in_pairs and not fetched and _is_made(site, s, b, n["NJ"])
    return Products(a, b, places["C"], n, warps.lane(site), made)


def _is_made(site: Site, s: Tensorized, columns: Operand, count: int) -> bool:
    """Whether each lane has stored itself what two steps take of columns from its registers, 16 bytes at a time, and
    nothing else reads it."""
    buffer = columns.place.buffer
    if site.launch is None or buffer.scope != "shared" or buffer.dtype.itemsize != 2:
        return False
    wide = [n.body for n in statements_in(site.launch, For) if _is_row(n, buffer)]
    stored = [n for n in stores(site.launch) if n.buffer.name == buffer.name]
    own = all(n in wide and column_place(site.threads, n, columns, count) is not None for n in stored)
    inside, everywhere = (sum(n.buffer.name == buffer.name for n in loads(x)) for x in (s, site.launch))
    return own and inside == everywhere


def _is_row(s: For, buffer: Buffer) -> bool:
    """Whether it stores 16 bytes of ``buffer`` at once."""
    is_whole = s.kind == "vector" and (s.lo, s.hi) == (idx(0), idx(ROW_BYTES // buffer.dtype.itemsize))
    return is_whole and isinstance(s.body, Store) and s.body.buffer.name == buffer.name


def read_groups(site: Site, s: Tensorized, hardware: Hardware) -> GroupProducts | None:
    """None where threads are not groups of warps, or matrices not in rows of swizzled shared memory."""
    groups = _Units.find(site, WARPS)
    found = None if groups is None else groups.match(site, hardware, s.body, (0, 2))
    if groups is None or found is None:
        return None
    places, n = found
    whole = BLOCK * row_length(places["A"].buffer)
    together = TILE * n["NJ"]  # columns side by side, which are blocks where they lie across the depth
    blocks = n["b_block"] if n["NB"] > 1 else together * row_length(places["B"].buffer)
    # The matrix unit would not see in time what lanes stored to shared memory just before, so that comes first.
    in_lanes = groups.has_in_lanes(site, s, places["A"], n["a_row"], n["a_k"])
    a = (
        groups.first(site, places["A"])
        if in_lanes
        else groups.matrix(site, places["A"], n["a_row"], n["a_k"], whole, ROWS * n["a_row"])
    )
    b = groups.matrix(site, places["B"], n["b_col"], n["b_k"], blocks, 0, together)
    if a is None or b is None or n["NB"] * together > MOST or _varies(places["C"]):
        return None
    numbers = {**n, "b_block": blocks, "a_row": 0 if in_lanes else n["a_row"]}
    return GroupProducts(a, b, places["C"], numbers, groups.lane(site))


def _varies(place: AddressOf) -> bool:
    """Whether it is not one place for all lanes and iterations: sums are in registers, which have no addresses."""
    offset = linear_offset(place.buffer, place.indices)
    return offset is None or bool(offset.terms)


_UNIT, _WARP, _ROW, _PAIR = (Var(name) for name in ("unit_", "warp_", "row_", "pair_"))


@dataclass(frozen=True, slots=True)
class _Units:
    """The threads of a block, each with its ``number``, in ``count`` units of so many ``warps``.

    ``values`` has thread variables in terms of unit, warp, row and pair of lanes.
    """

    values: dict[Var, Expr]
    number: Expr
    warps: int
    count: int

    @staticmethod
    def find(site: Site, warps: int) -> _Units | None:
        """None where there are no whole units of threads."""
        loops = [(x.var, int(x.hi.value)) for x in site.threads if isinstance(x.hi, Const) and x.lo == idx(0)]
        threads = prod(count for _, count in loops)
        if not loops or len(loops) != len(site.threads) or threads % (32 * warps):
            return None
        thread: Expr = _UNIT * (32 * warps) + _WARP * 32 + _ROW * 4 + _PAIR
        number: Expr = idx(0)
        values: dict[Var, Expr] = {}
        apart = 1
        for var, count in reversed(loops):
            values[var] = thread // apart % count
            number, apart = var * apart + number, apart * count
        return _Units(values, simplify(number), warps, threads // (32 * warps))

    @property
    def ranges(self) -> dict[str, Interval]:
        counts = {_ROW: 8, _PAIR: 4, _WARP: self.warps, _UNIT: self.count}
        return {v.name: Interval(0, n - 1) for v, n in counts.items()}

    def lane(self, site: Site) -> Expr:
        """The thread's place in its unit."""
        return simplify(self.number % (32 * self.warps), site.ranges)

    def match(
        self, site: Site, hardware: Hardware, nest: Stmt, once: tuple[int, ...]
    ) -> tuple[dict[str, AddressOf], dict[str, int]] | None:
        """The operands of the intrinsic, addresses those of a warp's first lane, and its sizes and strides, by name.

        None where one of these is no number, or sums are not the lane's own; loops ``once`` may run but once.
        """
        lanes = tuple(For(v, idx(0), idx(n), "thread", Seq(())) for v, n in ((_ROW, 8), (_PAIR, 4)))
        ranges = {**site.ranges, **self.ranges}
        plain = simplify(substitute(nest, self.values), ranges)
        tried = (match_hardware(hardware, complete, ranges, lanes) for complete in _with_loops_of_one(plain, 6, once))
        found = next((args for args in tried if not isinstance(args, Mismatch)), None)
        args = {} if found is None else dict(zip((p.name for p in hardware.meaning.params), found))
        places = {name: e for name, e in args.items() if isinstance(e, AddressOf)}
        numbers = {name: int(e.value) for name, e in args.items() if isinstance(e, Const)}
        if found is None or len(places) + len(numbers) != len(args):
            return None
        own = places["C"].buffer.name in site.private and numbers["c_row"] == numbers["c_pair"] == 0
        return (places, numbers) if own else None

    def first(self, site: Site, place: AddressOf) -> AddressOf:
        """``place`` for the first lane of the unit that a thread is in."""
        values = {_UNIT: self.number // (32 * self.warps), _WARP: idx(0)}
        return replace(place, indices=tuple(simplify(substitute(i, values), site.ranges) for i in place.indices))

    def operand(self, site: Site, place: AddressOf, row: int, k: int, scope: str = "shared") -> Operand | None:
        """Where a matrix is; None where its rows are not aligned or not in memory of this ``scope``."""
        if place.buffer.scope != scope or place.buffer.name in site.swizzled or 1 not in (row, k):
            return None
        if scope == "global" and (k != 1 or place.buffer.dtype.itemsize > 2 or place.buffer.name in site.private):
            return None
        start = linear_offset(place.buffer, place.indices)
        if k != 1 and not can_be_turned(place.buffer):
            return None
        pitch, size = max(row, k), place.buffer.dtype.itemsize
        steps = [] if start is None else [pitch, start.constant, *start.terms.values()]
        if start is None or any(step * size % ROW_BYTES for step in steps):
            return None
        return Operand(self.first(site, place), row, k)

    def has_in_lanes(self, site: Site, s: Tensorized, place: AddressOf, row: int, k: int) -> bool:
        """Whether each lane has stored itself what an instruction takes of the left matrix from its registers, and
        nothing else reads it."""
        name = place.buffer.name
        start = linear_offset(place.buffer, place.indices)
        if site.launch is None or place.buffer.scope != "shared" or start is None or start.constant or k != 1:
            return False
        rows = {_UNIT: GROUP_ROWS * row, _WARP: ROWS * row}
        own = all(start.terms.get(v, 0) == n or (v == _UNIT and self.count == 1) for v, n in rows.items())
        stored = [n for n in stores(site.launch) if n.buffer.name == name]
        plain = all(isinstance(n, Store) and lane_place(site.threads, n) is not None for n in stored)
        inside = sum(n.buffer.name == name for n in loads(s))
        return (
            own
            and plain
            and start.terms.keys() <= rows.keys()
            and inside == sum(n.buffer.name == name for n in loads(site.launch))
        )

    def matrix(
        self, site: Site, place: AddressOf, row: int, k: int, block: int, per_warp: int, together: int = BLOCK
    ) -> AddressOf | None:
        """Where a matrix is: ``row`` and ``k`` elements from one row (or column) and step to the next, ``block`` from
        so many of them ``together`` to the next; warps begin ``per_warp`` elements apart."""
        if place.buffer.name not in site.swizzled:
            return None
        is_transposed, length = k != 1, row_length(place.buffer)
        start = linear_offset(place.buffer, place.indices)
        if start is None or (row, k) != ((1, length) if is_transposed else (length, 1)):
            return None
        if not is_transposed and block != together * length:
            return None
        if is_transposed and (together != BLOCK or not can_be_turned(place.buffer)):
            return None
        others = [n for atom, n in start.terms.items() if atom != _WARP]
        whole = SWIZZLE_ALIGN // place.buffer.dtype.itemsize
        if start.terms.get(_WARP, 0) != per_warp or any(n % whole for n in (start.constant, block, *others)):
            return None
        return self.first(site, place)


def lane_place(threads: tuple[For, ...], s: Store) -> Expr | None:
    """Where a lane of a group has what ``s`` stores, in the order in which an instruction takes its left matrix from
    registers: for each 8 steps two rows, of each a pair. None where other lanes are to have it."""
    groups = _Units.find(Site(threads, {}, frozenset(), frozenset()), WARPS)
    row = int(s.buffer.shape[-1].value) if isinstance(s.buffer.shape[-1], Const) else 0
    if groups is None or row % ROWS:
        return None
    places = (simplify(substitute(i, groups.values), groups.ranges) for i in s.indices)
    offset = linear_offset(s.buffer, tuple(places))
    if offset is None or offset.constant:
        return None
    terms = dict(offset.terms)
    lanes = {_UNIT: GROUP_ROWS * row, _WARP: ROWS * row, _ROW: row, _PAIR: 2}
    if any(terms.pop(v, 0) != n for v, n in lanes.items() if v != _UNIT or groups.count > 1):
        return None
    place: Expr = idx(0)
    for atom, step in terms.items():
        own = {1: 1, 8 * row: 2}.get(step, step // 8 * 4 if step % 8 == 0 and step < row else 0)
        if not own or not isinstance(atom, Var):
            return None
        place = place + atom * own
    return simplify(place)


def column_place(threads: tuple[For, ...], s: Stmt, columns: Operand, count: int) -> Expr | None:
    """Where a lane has what ``s`` stores of its warp's columns, ``count`` times 8 of them, in the order in which it
    brings them: of each two steps and 8 columns 16 bytes of one column. None where other lanes are to have it."""
    warps = _Units.find(Site(threads, {}, frozenset(), frozenset()), 1)
    if warps is None or not isinstance(s, Store):
        return None
    places = ((simplify(substitute(i, warps.values), warps.ranges) for i in e.indices) for e in (s, columns.place))
    here, first = (linear_offset(s.buffer, tuple(place)) for place in places)
    if here is None or first is None:
        return None
    terms, own = here.add(first, -1).terms, ROW_BYTES // s.buffer.dtype.itemsize
    if here.constant or terms.pop(_ROW, 0) != columns.row or terms.pop(_PAIR, 0) != own:
        return None
    place: Expr = idx(0)
    for atom, step in terms.items():
        apart = {1: 1, 8 * columns.row: own, 4 * own: own * count}.get(step)
        if apart is None or not isinstance(atom, Var):
            return None
        place = place + atom * apart
    return simplify(place)


def _with_loops_of_one(nest: Stmt, count: int, at: tuple[int, ...]) -> list[Stmt]:
    """The nest as ``count`` loops: simplifying takes away those that run once, which those ``at`` some places may."""
    loops: list[For] = []
    s = nest
    while isinstance(s, For):
        loops.append(s)
        s = s.body
    missing = count - len(loops)
    found: list[Stmt] = []
    for places in combinations(at, max(0, missing)):
        rest = iter(loops)
        once = (For(Var(f"once{n}_"), idx(0), idx(1), "serial", s) for n in range(count))
        whole = [next(once) if n in places else next(rest) for n in range(count)]
        found.append(around(whole, s))
    return found
