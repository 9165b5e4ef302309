"""A contraction read as a product of matrices: rows from one operand, columns from the other, a depth they share.

Iterators are told apart by which operands use them, never by name. Those of one operand alone are its rows (or
columns), those of both are a batch. One of each is tiled; the others run over blocks, and further reductions around
the tiles of the depth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import gcd, prod
from types import MappingProxyType

from weft.auto.contraction_plan import is_contraction
from weft.auto.gpu.draft import WIDEST
from weft.auto.stages import Stage, StageAccess, StageIter
from weft.ir.buffer import Buffer
from weft.ir.expr import Const, idx
from weft.target.cuda.machine import GpuMachine
from weft.target.cuda.rates import SECTOR
from weft.target.cuda.read_boxes import rows_apart, why_not_fetched

#: Below so many rows, columns or steps there is too little reuse for tiles in shared memory.
FEWEST, SHALLOWEST = 16, 8
#: Fewer rows than that are worth a matrix instruction, most of whose rows are zeros, beside so many columns and steps.
BESIDE_FEW = 256
#: Rows from which on tiles are those of any product.
THICK = 64


@lru_cache(maxsize=64)  # asked again for every plan
def whole_bytes(buffer: Buffer) -> int:
    """What the places of rows in memory are multiples of, up to 16 bytes."""
    long = [step for step, n in zip(buffer.element_strides(), buffer.shape) if n != idx(1)]
    steps = [int(step.value) if isinstance(step, Const) else 1 for step in long]
    return gcd(WIDEST, *(n * buffer.dtype.itemsize for n in steps if n != 1 or len(steps) == 1))


@dataclass(frozen=True, slots=True)
class Side:
    """An operand and its iterator that is tiled; ``along_depth`` where neighbours in memory are along the depth,
    which is in subscript ``deep``.

    A tile may also be a ``box`` along several iterators of the operand alone, ``sizes`` of each. It is taken from
    ``storage``, where that is not the operand. ``turned`` is the order of dimensions of a copy that the operand is to
    get, as which ``access`` then reads it. ``gathered``: it is no array but a formula of one, so many bytes of which
    lie side by side. A piece of the depth may be a box, too, along all that is summed over: ``deep_box``, so much as
    ``deep_sizes`` of each.
    """

    access: StageAccess
    iterator: StageIter
    along_depth: bool
    deep: int
    box: tuple[StageIter, ...] = ()
    sizes: tuple[int, ...] = ()
    storage: str | None = None
    turned: tuple[int, ...] = ()
    gathered: int = 0
    deep_box: tuple[StageIter, ...] = ()
    deep_sizes: tuple[int, ...] = ()

    @property
    def buffer(self) -> str:
        return self.storage or self.access.buffer.name

    @property
    def dimension(self) -> int:
        """The subscript that the iterator is in."""
        return _dimension(self.access, self.iterator.name)

    @property
    def tiled(self) -> tuple[StageIter, ...]:
        """The iterators that a tile goes along."""
        return self.box if self.sizes else (self.iterator,)

    @property
    def count(self) -> int:
        """Rows (or columns) of the matrix that the tiles are cut from."""
        return prod(i.count for i in self.tiled)

    def sizes_of(self, size: int) -> tuple[int, ...]:
        """How much a tile of ``size`` rows has along each iterator."""
        return self.sizes or (size,)

    def tiles_of(self, size: int) -> int:
        return prod(-(-i.count // n) for i, n in zip(self.tiled, self.sizes_of(size)))

    def last_tiles_of(self, size: int) -> int:
        """Tiles along the last iterator."""
        return -(-self.tiled[-1].count // self.sizes_of(size)[-1])

    def step_of(self, dimension: int) -> int:
        """Elements of the operand from one row of the box to the next."""
        rows = self.access.rows or ()
        along = (*self.box, *self.deep_box)
        return next((rows[dimension][i.name] for i in along if rows[dimension].get(i.name)), 1)

    def dimension_of(self, iterator: StageIter) -> int:
        return _dimension(self.access, iterator.name)

    @property
    def steps(self) -> tuple[int, ...]:
        return tuple(self.step_of(self.dimension_of(i)) for i in self.box)

    @property
    def why_not_fetched(self) -> str | None:
        """Why the copy engine cannot fetch tiles; None where it can."""
        if self.gathered:
            return f"`{self.access.buffer.name}` is gathered from all over another array"
        return why_not_fetched(self.access.buffer)

    @property
    def whole_bytes(self) -> int:
        return self.gathered or whole_bytes(self.access.buffer)

    @property
    def needs_box(self) -> bool:
        """Whether a tile of rows along its iterator alone would have gaps."""
        return self.step_of(self.dimension) != 1

    @property
    def is_opened(self) -> bool:
        """Whether boxes have gaps, or zeros around the operand in them."""
        return self.access.guarded or any(step != 1 for step in (*self.steps, *self.deep_steps))

    @property
    def deep_steps(self) -> tuple[int, ...]:
        return tuple(self.step_of(self.dimension_of(i)) for i in self.deep_box)


@dataclass(frozen=True, slots=True)
class Product:
    """``rows`` times ``columns``, summed over ``deep`` steps of loop ``depth`` by block ``name`` into ``sums``.

    ``batch`` and ``around`` are the loops of other iterators, over ``batches`` products and around each of them;
    ``boxes`` what was found for tiles and results of some sizes (`box_sizes`). ``stored`` are bytes of a result, as the
    formula that is done with each sum leaves it; ``packed`` is the part of the columns' bytes that is read where a
    formula makes them. ``cut`` are the loops over pieces of the depth and through one, where they are made already.
    """

    stage: Stage
    rows: Side
    columns: Side
    depth: str
    deep: int
    name: str
    sums: str
    batch: tuple[str, ...]
    batches: int
    around: tuple[str, ...]
    stored: int
    packed: float = 1.0
    cut: tuple[str, str] | None = None
    boxes: dict[tuple[int, int, int], Product | None] = field(default_factory=dict, compare=False, repr=False)

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.rows, self.columns

    def why_not_fetched(self, machine: GpuMachine) -> str | None:
        """Why the copy engine cannot bring the operands; None where it can."""
        if not machine.has("tma"):
            return f"{machine.name} has no copy engine"
        return next((why for s in self.sides if (why := s.why_not_fetched) is not None), None)

    def moved_apart(self, machine: GpuMachine) -> tuple[Buffer, ...]:
        """Operands whose rows the copy engine could fetch from a copy in which they lie further apart; none where it
        can fetch all of them, or some it never could."""
        apart = [s.access.buffer for s in self.sides if s.why_not_fetched is not None]
        able = not any(s.gathered for s in self.sides) and all(rows_apart(b) is not None for b in apart)
        return tuple(apart) if machine.has("tma") and able else ()

    @property
    def boxed(self) -> Side | None:
        """The side whose tiles may be boxes."""
        return next((s for s in self.sides if s.box), None)

    @property
    def is_boxed(self) -> bool:
        return any(s.sizes for s in self.sides)

    @property
    def store_overhead(self) -> float:
        """How many times as large as a tile's results are the sectors of memory that these are stored to: of a box few
        may lie side by side."""
        side, write = next((s for s in self.sides if s.sizes), None), self.stage.write
        along = sorted(zip(side.box, side.sizes), key=lambda x: write.stride(x[0].name) or 0) if side else []
        run = 1
        for i, n in along:
            if write.stride(i.name) != run:
                break
            run *= min(n, i.count)
            if n < i.count:
                break
        is_along = any(write.stride(i.name) == 1 for i, _ in along)
        return 1 + (SECTOR - self.stored) / (run * self.stored) if is_along else 1.0

    def with_side(self, side: Side) -> Product:
        """With another way to tile the boxed side; loops that it goes along are no batch any more."""
        product = replace(self, rows=side) if self.rows.box else replace(self, columns=side)
        gone = [i for i in side.tiled if i.loop in self.batch]
        batch = tuple(x for x in self.batch if x not in [i.loop for i in gone])
        return replace(product, batch=batch, batches=self.batches // prod(i.count for i in gone), boxes={})

    @property
    def is_thin(self) -> bool:
        """Whether it has so few rows that a warp may have all of them."""
        return self.rows.iterator.count < THICK

    @property
    def results(self) -> int:
        return self.rows.count * self.columns.count * self.batches

    @property
    def steps(self) -> int:
        """Products that are added up for one sum."""
        return self.deep * prod(i.count for i in self.stage.reductions if i.loop in self.around)


def read_product(
    stage: Stage,
    *,
    surrounded: bool = True,
    turned: bool = False,
    gathered: Mapping[str, int] = MappingProxyType({}),
    deep_boxes: bool = False,
) -> Product | None:
    """``stage`` as a product; None where it is none, or too small a one.

    Not ``surrounded``: reads that give zero outside of an operand will get a copy with zeros around it yet. ``turned``:
    operands will get copies in which the depth lies along memory. ``gathered`` are operands that are formulas.
    ``deep_boxes``: pieces of the depth are to be boxes along all that is summed over.
    """
    if stage.op != "+" or stage.is_inside or not is_contraction(stage) or any(i.extent is None for i in stage.iters):
        return None
    reads = stage.distinct_reads
    if len(reads) != 2 or reads[0].buffer.name == reads[1].buffer.name:
        return None
    if surrounded and any(a.guarded for a in reads):
        return None
    if stage.write.guarded or not all(i.exact for i in stage.iters):
        return None
    columns, rows = reads if _is_innermost(stage, reads[0]) else (reads[1], reads[0])
    row, column, depth = _main(stage, rows, columns), _main(stage, columns, rows), _depth(stage, rows, columns)
    if row is None or column is None or depth is None:
        return None
    down, across = (
        replace(_side(stage, a, i, depth, turned), gathered=gathered.get(a.buffer.name, 0))
        for a, i in ((rows, row), (columns, column))
    )
    across = replace(across, box=()) if down.box else across
    if deep_boxes:
        down, across = (
            replace(s, box=(), deep_box=tuple(i for i in stage.reductions if i.loop is not None))
            for s in (down, across)
        )
        if sum(i.count > 1 for i in stage.reductions) < 2 or not (_is_deep_box(down) and _is_deep_box(across)):
            return None
    few, many = (max(s.iterator.count, prod(i.count for i in s.box)) for s in (down, across))
    if many < FEWEST:
        return None
    if few < FEWEST and (row.count == 1 or min(column.count, depth.count) < BESIDE_FEW):
        return None
    tiled = {row.name, column.name, depth.name}
    if not all(
        (s.deep_box or _is_plain(s.access, depth.name, tiled))
        and (s.box or _is_plain(s.access, s.iterator.name, tiled))
        for s in (down, across)
    ):
        return None
    batch = tuple(stage.loop_of(i.name) for i in stage.spatial if i.name not in tiled and i.loop is not None)
    around = tuple(stage.loop_of(i.name) for i in stage.reductions if i.name != depth.name and i.loop is not None)
    batches = prod(i.count for i in stage.spatial if i.loop in batch)
    depth_loop, sums = stage.loop_of(depth.name), stage.write.buffer.name
    size = stage.write.buffer.dtype.itemsize
    return Product(stage, down, across, depth_loop, depth.count, stage.name, sums, batch, batches, around, size)


def _side(stage: Stage, access: StageAccess, iterator: StageIter, depth: StageIter, turned: bool) -> Side:
    other = next(a for a in stage.distinct_reads if a is not access)
    order = _depth_last(access, depth) if turned else ()
    access = _in_order(access, order) if order else access
    side = Side(access, iterator, access.stride(depth.name) == 1, _dimension(access, depth.name), turned=order)
    alone = [i for i in stage.spatial if access.uses(i.name) and not other.uses(i.name) and i.count > 1]
    side = replace(side, box=tuple(sorted(alone, key=lambda i: -(stage.write.stride(i.name) or 0))))
    return side if alone and _is_box(side) and (len(alone) > 1 or side.needs_box) else replace(side, box=())


def _depth_last(access: StageAccess, depth: StageIter) -> tuple[int, ...]:
    """The dimensions of an operand with that of the depth last; none where it lies along memory as it is."""
    deep = _dimension(access, depth.name)
    others = [d for d in range(access.buffer.rank) if d != deep]
    return () if access.stride(depth.name) == 1 else (*others, deep)


def _in_order(access: StageAccess, order: tuple[int, ...]) -> StageAccess:
    """The same read of a copy with its dimensions in another order."""
    rows, shape = access.rows or (), access.buffer.shape
    buffer = replace(access.buffer, shape=tuple(shape[d] for d in order), strides=None)
    offsets = tuple(access.offsets[d] for d in order)
    return replace(access, buffer=buffer, rows=tuple(rows[d] for d in order), offsets=offsets)


def _is_box(side: Side) -> bool:
    """Whether each iterator counts up a subscript of its own, in steps, and pieces of the depth lie side by side."""
    rows = side.access.rows or ()
    used = [[d for d, row in enumerate(rows) if row.get(i.name)] for i in side.box]
    dimensions = [own[0] for own in used if len(own) == 1 and own[0] != side.deep]
    whole = len(dimensions) == len(set(dimensions)) == len(used) and all(i.loop is not None for i in side.box)
    return side.along_depth and whole and all(step > 0 for step in side.steps)


def _is_deep_box(side: Side) -> bool:
    """Whether all that is summed over counts up subscripts of its own, in steps, and results lie side by side."""
    rows = side.access.rows or ()
    used = [[d for d, row in enumerate(rows) if row.get(i.name)] for i in side.deep_box]
    dimensions = [own[0] for own in used if len(own) == 1 and own[0] != side.dimension]
    whole = len(dimensions) == len(set(dimensions)) == len(used) and all(i.loop is not None for i in side.deep_box)
    return whole and side.access.stride(side.iterator.name) == 1 and all(step > 0 for step in side.deep_steps)


def _is_innermost(stage: Stage, access: StageAccess) -> bool:
    """Whether ``access`` alone uses the iterator along which results lie side by side."""
    return any(stage.write.stride(i.name) == 1 and access.uses(i.name) for i in stage.spatial if i.count > 1)


def _main(stage: Stage, own: StageAccess, other: StageAccess) -> StageIter | None:
    """The iterator of ``own`` alone that is tiled: where enough results lie side by side, else the longest."""
    alone = [i for i in stage.spatial if own.uses(i.name) and not other.uses(i.name) and i.loop is not None]
    return max(alone, key=lambda i: (i.count >= FEWEST, stage.write.stride(i.name) == 1, i.count), default=None)


def _depth(stage: Stage, rows: StageAccess, columns: StageAccess) -> StageIter | None:
    """The reduction that both operands use and that is cut into steps: the longest, along memory if it can be."""
    both = [i for i in stage.reductions if rows.uses(i.name) and columns.uses(i.name) and i.count >= SHALLOWEST]
    return max(both, key=lambda i: (i.count, 1 in (rows.stride(i.name), columns.stride(i.name))), default=None)


def _is_plain(access: StageAccess, name: str, tiled: set[str]) -> bool:
    """Whether ``name`` counts up one subscript that no other tiled iterator is in."""
    used = [row for row in access.rows or () if row.get(name)]
    return len(used) == 1 and used[0][name] == 1 and not any(used[0].get(n) for n in tiled - {name})


def _dimension(access: StageAccess, name: str) -> int:
    assert access.rows is not None
    return next(d for d, row in enumerate(access.rows) if row.get(name))
