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

from weft.ir.expr import AddressOf, Const, Expr, Var, idx
from weft.ir.hardware import Hardware
from weft.ir.interval import Interval
from weft.ir.match_hardware import Mismatch, match_hardware
from weft.ir.offsets import linear_offset
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Seq, Stmt, Tensorized
from weft.ir.visit import substitute
from weft.target.cuda.swizzle import ROW, SWIZZLE_ALIGN

#: ``ldmatrix`` takes rows of 16 bytes.
ROW_BYTES = 16
#: Of instructions of warp groups: rows of a warp, warps of a group, columns of a block of them, the most columns.
ROWS, WARPS, BLOCK, MOST = 16, 4, 64, 256
#: Elements of a row of swizzled shared memory, which are of 2 bytes.
LENGTH = ROW // 2


@dataclass(frozen=True, slots=True)
class Site:
    """Where a nest stands: the thread loops of the launch, what variables can be, and buffers of special kinds."""

    threads: tuple[For, ...]
    ranges: Mapping[str, Interval]
    private: frozenset[str]
    swizzled: frozenset[str]


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix in shared memory: where the warp's part begins, elements between its rows (or columns) and along k."""

    place: AddressOf
    row: int
    k: int


@dataclass(frozen=True, slots=True)
class Products:
    """What the nest of a lane is: ``steps`` times ``rows`` by ``columns`` matrix instructions.

    ``sums`` and ``numbers`` tell where a lane's sums are in its own array; ``lane`` is the thread's place in the warp.
    """

    a: Operand
    b: Operand
    sums: AddressOf
    numbers: dict[str, int]
    lane: Expr

    @property
    def steps(self) -> int:
        return self.numbers["KS"]

    @property
    def rows(self) -> int:
        return self.numbers["MI"]

    @property
    def columns(self) -> int:
        return self.numbers["NJ"]


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


def read_products(site: Site, s: Tensorized, hardware: Hardware) -> Products | None:
    """None where operands are not in shared memory, rows of 16 bytes, or sums not in the registers of the lane."""
    warp = _Warp.find(site)
    found = None if warp is None else warp.match(site, hardware, s.body)
    if warp is None or found is None:
        return None
    named = name_operands(hardware, found)
    if named is None:
        return None
    places, numbers = named
    sums = places["C"]
    a, b = (warp.operand(site, places[n], numbers[row], numbers[k]) for n, row, k in _MATRICES)
    own = sums.buffer.name in site.private and numbers["c_row"] == numbers["c_pair"] == 0
    if a is None or b is None or not own:
        return None
    return Products(a, b, sums, numbers, warp.lane)


def name_operands(hardware: Hardware, found: tuple[Expr, ...]) -> tuple[dict[str, AddressOf], dict[str, int]] | None:
    """The matrices of a matched nest, and its sizes and strides, by name; None where one of these is no number."""
    args = dict(zip((p.name for p in hardware.meaning.params), found))
    places = {name: e for name, e in args.items() if isinstance(e, AddressOf)}
    numbers = {name: int(e.value) for name, e in args.items() if isinstance(e, Const)}
    return (places, numbers) if len(places) + len(numbers) == len(args) else None


_MATRICES = (("A", "a_row", "a_k"), ("B", "b_col", "b_k"))


@dataclass(frozen=True, slots=True)
class _Warp:
    """The threads of a block as warps: ``values`` has thread variables in terms of ``number``, ``row`` and ``pair``."""

    values: dict[Var, Expr]
    number: Var
    back: Expr
    lane: Expr
    warps: int

    @staticmethod
    def find(site: Site) -> _Warp | None:
        """None where 32 neighbouring threads are not 8 rows of 4 in the innermost thread loops."""
        w, row, pair = Var("warp_"), Var("row_"), Var("pair_")
        loops = [(loop.var, int(loop.hi.value)) for loop in site.threads if isinstance(loop.hi, Const)]
        if len(loops) != len(site.threads) or not loops or any(loop.lo != idx(0) for loop in site.threads):
            return None
        (x, extent), outer = loops[-1], loops[:-1]
        if extent % 32 == 0:
            return _Warp({x: w * 32 + row * 4 + pair}, w, x // 32, x % 32, extent // 32)
        if extent == 4 and outer and outer[-1][1] % 8 == 0:
            y, count = outer[-1]
            return _Warp({x: pair, y: w * 8 + row}, w, y // 8, y % 8 * 4 + x, count // 8)
        return None

    def match(self, site: Site, hardware: Hardware, nest: Stmt) -> tuple[Expr, ...] | None:
        """The operands of the intrinsic, addresses those of the warp's first lane."""
        lanes = tuple(For(Var(n), idx(0), idx(e), "thread", Seq(())) for n, e in (("row_", 8), ("pair_", 4)))
        ranges = {**site.ranges, "row_": Interval(0, 7), "pair_": Interval(0, 3), "warp_": Interval(0, self.warps - 1)}
        plain = simplify(substitute(nest, self.values), ranges)
        for complete in add_loops_of_one(plain, 6, (0, 1, 3)):
            found = match_hardware(hardware, complete, ranges, lanes)
            if not isinstance(found, Mismatch):
                return found
        return None

    def operand(self, site: Site, place: AddressOf, row: int, k: int) -> Operand | None:
        """Where a matrix is; None where its rows are not aligned or not in shared memory."""
        if place.buffer.scope != "shared" or place.buffer.name in site.swizzled or 1 not in (row, k):
            return None
        start = linear_offset(place.buffer, place.indices)
        pitch, size = max(row, k), place.buffer.dtype.itemsize
        steps = [] if start is None else [pitch, start.constant, *start.terms.values()]
        if start is None or any(step * size % ROW_BYTES for step in steps):
            return None
        indices = tuple(substitute(i, {self.number: self.back}) for i in place.indices)
        return Operand(replace(place, indices=indices), row, k)


def add_loops_of_one(nest: Stmt, count: int, at: tuple[int, ...]) -> list[Stmt]:
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
        body = s
        for loop in reversed(whole):
            body = replace(loop, body=body)
        found.append(body)
    return found


def read_groups(site: Site, s: Tensorized, hardware: Hardware) -> GroupProducts | None:
    """None where threads are not groups of warps, or matrices not in rows of swizzled shared memory."""
    group = _Group.find(site)
    found = None if group is None else group.match(site, hardware, s.body)
    if group is None or found is None:
        return None
    named = name_operands(hardware, found)
    if named is None:
        return None
    places, numbers = named
    sums = places["C"]
    blocks = numbers["b_block"] if numbers["NB"] > 1 else BLOCK * LENGTH
    a = group.matrix(site, places["A"], numbers["a_row"], numbers["a_k"], BLOCK * LENGTH, ROWS * numbers["a_row"])
    b = group.matrix(site, places["B"], numbers["b_col"], numbers["b_k"], blocks, 0)
    own = sums.buffer.name in site.private and numbers["c_row"] == numbers["c_pair"] == 0
    if a is None or b is None or not own or numbers["NB"] * BLOCK > MOST or _varies(sums):
        return None
    return GroupProducts(a, b, sums, {**numbers, "b_block": blocks}, group.number % (32 * WARPS))


def _varies(place: AddressOf) -> bool:
    """Whether it is not one place for all lanes and iterations: sums are in registers, which have no addresses."""
    offset = linear_offset(place.buffer, place.indices)
    return offset is None or bool(offset.terms)


@dataclass(frozen=True, slots=True)
class _Group:
    """The threads of a block, each with its ``number``, as groups: ``values`` has thread variables by these."""

    values: dict[Var, Expr]
    group: Var
    warp: Var
    number: Expr
    count: int

    @staticmethod
    def find(site: Site) -> _Group | None:
        """None where there are no whole groups of threads."""
        loops = [(x.var, int(x.hi.value)) for x in site.threads if isinstance(x.hi, Const) and x.lo == idx(0)]
        threads = prod(count for _, count in loops)
        if len(loops) != len(site.threads) or threads % (32 * WARPS):
            return None
        group, warp, row, pair = (Var(n) for n in ("group_", "warp_", "row_", "pair_"))
        thread: Expr = group * (32 * WARPS) + warp * 32 + row * 4 + pair
        number: Expr = idx(0)
        values: dict[Var, Expr] = {}
        apart = 1
        for var, count in reversed(loops):
            values[var] = thread // apart % count
            number, apart = var * apart + number, apart * count
        return _Group(values, group, warp, simplify(number), threads // (32 * WARPS))

    def match(self, site: Site, hardware: Hardware, nest: Stmt) -> tuple[Expr, ...] | None:
        """The operands of the intrinsic, addresses those of a warp's first lane."""
        counts = {"row_": 8, "pair_": 4, "warp_": WARPS, "group_": self.count}
        lanes = tuple(For(Var(n), idx(0), idx(counts[n]), "thread", Seq(())) for n in ("row_", "pair_"))
        ranges = {**site.ranges, **{name: Interval(0, count - 1) for name, count in counts.items()}}
        plain = simplify(substitute(nest, self.values), ranges)
        for complete in add_loops_of_one(plain, 6, (0, 2)):
            found = match_hardware(hardware, complete, ranges, lanes)
            if not isinstance(found, Mismatch):
                return found
        return None

    def matrix(self, site: Site, place: AddressOf, row: int, k: int, block: int, per_warp: int) -> AddressOf | None:
        """Where a matrix is: ``row`` and ``k`` elements from one row (or column) and step to the next, ``block`` from
        64 of them to the next 64; warps begin ``per_warp`` elements apart."""
        if place.buffer.name not in site.swizzled:
            return None
        is_transposed = k != 1
        start = linear_offset(place.buffer, place.indices)
        if start is None or (row, k) != ((1, LENGTH) if is_transposed else (LENGTH, 1)):
            return None
        if not is_transposed and block != BLOCK * LENGTH:
            return None
        others = [n for atom, n in start.terms.items() if atom != self.warp]
        whole = SWIZZLE_ALIGN // place.buffer.dtype.itemsize
        if start.terms.get(self.warp, 0) != per_warp or any(n % whole for n in (start.constant, block, *others)):
            return None
        first = {self.group: self.number // (32 * WARPS), self.warp: idx(0)}
        indices = tuple(simplify(substitute(i, first), site.ranges) for i in place.indices)
        return replace(place, indices=indices)
