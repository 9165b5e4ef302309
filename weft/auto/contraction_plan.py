"""How a contraction is to run, before anything is done: which iterator becomes lanes, the tile of sums, what is packed.

Iterators are told apart by which operands use them, never by name: lanes run along one that what is written has;
operands that use it are loaded as vectors, the others broadcast one element to all lanes. Rows are iterators that some
operand does not use, so that what it loads serves all of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from weft.auto.draft import Draft
from weft.auto.stages import Stage, StageAccess, StageIter
from weft.auto.tiles import Operand, Registers, Tile, Work, choose_tile, turning_cycles
from weft.ir.expr import Binary, Cast, Expr
from weft.ir.stmt import Store

#: Bytes of a cache line.
LINE = 64
#: Elements apart, at most, that are picked from vectors of all in between.
NEAR = 4
#: Steps of a reduction that are written out, at most, where rows share what they load.
WINDOW_STEPS = 32
#: Cycles to add up the lanes of a vector.
LANES_CYCLES = 12.0


@dataclass(frozen=True, slots=True)
class ContractionPlan:
    """The choice for one stage: ``lane`` is the iterator of lanes, ``tile`` the sums in registers."""

    stage: Stage
    lane: StageIter
    tile: Tile
    operands: tuple[StageAccess, ...]
    cycles: float

    @property
    def vector_operands(self) -> tuple[StageAccess, ...]:
        return tuple(a for a in self.operands if a.uses(self.lane.name))

    @property
    def packed(self) -> tuple[StageAccess, ...]:
        """Operands that are copied into another order."""
        return tuple(a for n, a in enumerate(self.operands) if n in self.tile.packed)

    @property
    def has_edges(self) -> bool:
        """Whether some tiles are not full."""
        tile = {self.lane.name: self.tile.width, **self.tile.sizes}
        return any(not i.exact or i.count % tile[i.name] for i in self.stage.spatial if i.name in tile)

    @property
    def turns(self) -> bool:
        """Whether sums lie across the lanes in memory."""
        return self.stage.write.stride(self.lane.name) != 1


def is_contraction(stage: Stage) -> bool:
    """Whether sums (or minima ...) are taken of products (or anything else) of operands reused along iterators."""
    if stage.op == "=" or not stage.is_affine or not stage.is_plain or stage.reads_target:
        return False
    long = [i for i in stage.spatial if i.count > 1]
    summed = [i for i in stage.reductions if i.count > 1]
    if not long or not summed or any(stage.write.uses(i.name) for i in summed):
        return False
    reads = [a for a in distinct_reads(stage) if any(a.uses(i.name) for i in summed)]
    return len(reads) > 1 and any(not a.uses(i.name) for a in reads for i in long)


def distinct_reads(stage: Stage) -> tuple[StageAccess, ...]:
    """What is loaded at one point, each element once."""
    seen: dict[object, StageAccess] = {}
    for a in stage.reads:
        key = (a.buffer.name, a.offsets, None if a.rows is None else tuple(tuple(sorted(r.items())) for r in a.rows))
        seen.setdefault(key, a)
    return tuple(seen.values())


def plan_contraction(draft: Draft, stage: Stage) -> ContractionPlan | None:
    """The plan with the fewest cycles, None where lanes that run along a reduction need fewer."""
    known = draft.plans.get(id(stage))
    if known is None or known[0] is not stage:
        known = draft.plans[id(stage)] = (stage, _find_plan(draft, stage))
    return known[1]


def _find_plan(draft: Draft, stage: Stage) -> ContractionPlan | None:
    reads = distinct_reads(stage)
    most = _cycles_along_reductions(draft, stage, reads)
    best: ContractionPlan | None = None
    for lane in _lane_iterators(stage, reads):
        plan = plan_along(draft, stage, reads, lane, most if best is None else best.cycles)
        best = best if plan is None or (best is not None and best.cycles <= plan.cycles) else plan
    return best


def beats_rows(draft: Draft, stage: Stage) -> bool:
    """Whether lanes along a spatial iterator are better than along a reduction."""
    rows = _cycles_along_reductions(draft, stage, distinct_reads(stage))
    return rows == float("inf") or plan_contraction(draft, stage) is not None


def _lane_iterators(stage: Stage, reads: tuple[StageAccess, ...]) -> list[StageIter]:
    """Iterators that may become lanes, those along which most lies side by side first."""
    long = [i for i in stage.spatial if i.count > 1]
    gathered = {i.name for i in long if any(not _is_near(a, i.name) for a in reads)}
    near = [i for i in long if i.name not in gathered] or long
    return sorted(near, key=lambda i: (stage.write.stride(i.name) != 1, -i.count))


def _is_near(access: StageAccess, name: str) -> bool:
    """Whether elements along ``name`` are neighbours, or nearly, or can be copied to be."""
    stride = access.stride(name)
    return (stride is not None and abs(stride) <= NEAR) or (
        access.subscript_of(name) is not None and not access.guarded
    )


def plan_along(
    draft: Draft, stage: Stage, reads: tuple[StageAccess, ...], lane: StageIter, most: float
) -> ContractionPlan | None:
    """The best plan with lanes along ``lane``; None where it takes more than ``most`` cycles."""
    extents = {i.name: i.count for i in stage.spatial}
    short = {i.name: i.short for i in stage.spatial if not i.exact}
    steps = prod(i.count for i in stage.reductions)
    operands = [_operand(draft, stage, a, lane) for a in reads]
    work = Work(extents, short, operands, steps, instructions(stage), is_short_window(stage, lane, reads))
    tile = choose_tile(work, lane.name, _registers(draft, stage), most)
    if tile is None:
        return None
    return ContractionPlan(stage, lane, tile, reads, tile.cycles + _turning_cycles(stage, lane, tile))


def _registers(draft: Draft, stage: Stage) -> Registers:
    model = draft.machine.model
    near = draft.cache("L1") / 2 / (draft.lanes(stage) * stage.write.buffer.dtype.itemsize)
    return Registers(draft.registers, draft.lanes(stage), model.fma_units, model.load_units, model.fma_latency, near)


def is_short_window(stage: Stage, lane: StageIter, reads: tuple[StageAccess, ...]) -> bool:
    """Whether there are few steps, in which neighbouring rows load many of the same vectors."""
    steps = prod(i.count for i in stage.reductions)
    shared = [row for a in reads if a.uses(lane.name) for row in a.rows or () if not row.get(lane.name)]
    return steps <= WINDOW_STEPS and any(len([n for n in row if stage.by_name[n].count > 1]) > 1 for row in shared)


def _turning_cycles(stage: Stage, lane: StageIter, tile: Tile) -> float:
    """What storing sums across lanes takes."""
    if stage.write.stride(lane.name) == 1:
        return 0.0
    row, rows = tile.rows[-1] if tile.rows else ("", 1)
    return prod(i.count for i in stage.spatial) * turning_cycles(rows, near=stage.write.stride(row) == 1)


def _operand(draft: Draft, stage: Stage, access: StageAccess, lane: StageIter) -> Operand:
    uses = frozenset(i.name for i in stage.spatial if access.uses(i.name))
    can_copy = access.subscript_of(lane.name) is not None and _may_pack(draft, stage, access)
    count = footprint(stage, access)
    is_large = count * access.buffer.dtype.itemsize > draft.cache("L2") // 2
    elements = 0 if access.buffer.name in draft.constants else count // stage.reuse_of(access)
    lines = {n: min(1.0, abs(access.stride(n) or LINE) * access.buffer.dtype.itemsize / LINE) for n in uses}
    serves = min(float(_run(stage, access)), LINE / access.buffer.dtype.itemsize)
    loading = _loading(access, lane.name, can_copy)
    depth = footprint(stage, access, {i.name for i in stage.spatial})
    return Operand(uses, loading, can_copy, elements, access.guarded, lines, serves, is_large, depth)


def _may_pack(draft: Draft, stage: Stage, access: StageAccess) -> bool:
    """Whether ``access`` may read a copy: an argument's, of which all reads go there."""
    whole = not any(a.guarded for a in stage.reads if a.buffer.name == access.buffer.name)
    return whole and any(b.name == access.buffer.name for b in draft.s.kernel.buffers)


def _run(stage: Stage, access: StageAccess) -> int:
    """How many elements in a row of memory ``access`` goes through as reductions run."""
    run = 1
    for stride, extent in sorted((access.stride(i.name) or 0, i.count) for i in stage.reductions):
        run *= extent if stride == run else 1
    return run


def _loading(access: StageAccess, lane: str, can_copy: bool) -> str:
    if not access.uses(lane):
        return "broadcast"
    if access.stride(lane) == 1:
        return "vector"
    if can_copy:
        return "apart"
    return "strided" if _is_near(access, lane) else "gather"


def footprint(stage: Stage, access: StageAccess, fixed: Collection[str] = ()) -> int:
    """How many elements ``access`` touches while the iterators ``fixed`` stand still."""
    assert access.rows is not None
    reach = {i.name: 0 if i.name in fixed else i.count - 1 for i in stage.iters}
    return prod(1 + sum(abs(c) * reach[n] for n, c in row.items()) for row in access.rows)


def _cycles_along_reductions(draft: Draft, stage: Stage, reads: tuple[StageAccess, ...]) -> float:
    """What partial sums in lanes along a reduction would take; infinitely many where its elements lie apart."""
    if not draft.is_fast:
        return float("inf")
    near = [i for i in stage.reductions if all(a.stride(i.name) in (0, 1) for a in reads) and i.count > 1]
    if not near:
        return float("inf")
    lanes = draft.lanes(stage)
    vectors = min(-(-i.count // lanes) / i.count for i in near)
    return stage.points * vectors * len(reads) + prod(i.count for i in stage.spatial) * LANES_CYCLES


def instructions(stage: Stage) -> int:
    """Vector instructions that update a sum: a product that is added is one."""
    return max(1, stage.operations - (1 if stage.op == "+" and _adds_product(stage) else 0))


def _adds_product(stage: Stage) -> bool:
    store = stage.block.body
    value = store.value if isinstance(store, Store) else None
    return isinstance(value, Binary) and any(_is_product(e) for e in (value.left, value.right))


def _is_product(e: Expr) -> bool:
    while isinstance(e, Cast):
        e = e.operand
    return isinstance(e, Binary) and e.op == "*"
