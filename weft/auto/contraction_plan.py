"""How a contraction is to run, before anything is done: which iterator becomes lanes, the tile of sums, what is packed.

Iterators are told apart by which operands use them, never by name: lanes run along one that what is written has;
operands that use it are loaded as vectors, the others broadcast one element to all lanes. Rows are iterators that some
operand does not use, so that what it loads serves all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

from weft.auto.draft import Draft
from weft.auto.stages import UNKNOWN_EXTENT, Stage, StageAccess, StageIter
from weft.auto.tiles import Operand, Registers, Tile, choose_tile
from weft.ir.expr import Binary, Cast, Expr

#: Cycles to copy an element into another order, and to store a sum across the lanes.
COPY_CYCLES, TURN_CYCLES = 1.0, 1.0


@dataclass(frozen=True)
class ContractionPlan:
    """The choice for one stage: ``lane`` is the iterator of lanes, ``tile`` the sums in registers."""

    stage: Stage
    lane: StageIter
    tile: Tile
    cycles: float

    @cached_property
    def operands(self) -> tuple[StageAccess, ...]:
        return distinct_reads(self.stage)

    @property
    def vector_operands(self) -> tuple[StageAccess, ...]:
        return tuple(a for a in self.operands if a.uses(self.lane.name))

    @property
    def broadcast_operands(self) -> tuple[StageAccess, ...]:
        return tuple(a for a in self.operands if not a.uses(self.lane.name))

    @property
    def turns(self) -> bool:
        """Whether sums lie across the lanes in memory."""
        return self.stage.write.stride(self.lane.name) != 1


def distinct_reads(stage: Stage) -> tuple[StageAccess, ...]:
    """What is loaded at one point, each element once."""
    seen: dict[object, StageAccess] = {}
    for a in stage.reads:
        key = (a.buffer.name, a.offsets, None if a.rows is None else tuple(tuple(sorted(r.items())) for r in a.rows))
        seen.setdefault(key, a)
    return tuple(seen.values())


def is_contraction(stage: Stage) -> bool:
    """Whether sums (or minima ...) are taken of products (or anything else) of operands reused along iterators."""
    if stage.op == "=" or not stage.is_affine or not stage.is_plain or stage.reads_target:
        return False
    long = [i for i in stage.spatial if size(i) > 1]
    summed = [i for i in stage.reductions if size(i) > 1]
    if not long or not summed or any(stage.write.uses(i.name) for i in summed):
        return False
    reads = [a for a in distinct_reads(stage) if any(a.uses(i.name) for i in summed)]
    return len(reads) > 1 and any(not a.uses(i.name) for a in reads for i in long)


def size(i: StageIter) -> int:
    return UNKNOWN_EXTENT if i.extent is None else i.extent


def plan_contraction(draft: Draft, stage: Stage) -> ContractionPlan | None:
    """The plan with the fewest cycles, None where lanes along a spatial iterator are no good."""
    plans = [plan_along(draft, stage, i) for i in stage.spatial if size(i) > 1]
    return min(plans, key=lambda p: p.cycles, default=None)


def plan_along(draft: Draft, stage: Stage, lane: StageIter) -> ContractionPlan:
    """The best plan with lanes along ``lane``."""
    lanes = draft.lanes(stage)
    extents = {i.name: size(i) for i in stage.spatial}
    operands = [_operand(a, stage, lane) for a in distinct_reads(stage)]
    tile = choose_tile(extents, lane.name, operands, Registers(draft.registers, lanes), instructions(stage))
    cycles = prod(size(i) for i in stage.iters) / lanes * tile.cycles
    written = prod(extents.values())
    cycles += sum(COPY_CYCLES * footprint(stage, a) for a in _packed(stage, lane))
    if stage.write.stride(lane.name) != 1:
        cycles += written * TURN_CYCLES
    return ContractionPlan(stage, lane, tile, cycles)


def _operand(access: StageAccess, stage: Stage, lane: StageIter) -> Operand:
    uses = frozenset(i.name for i in stage.spatial if access.uses(i.name))
    if not access.uses(lane.name):
        return Operand(uses, "broadcast", access.guarded)
    near = access.stride(lane.name) == 1 or can_pack(access, lane.name)
    return Operand(uses, "vector" if near else "gather", access.guarded)


def _packed(stage: Stage, lane: StageIter) -> Iterator[StageAccess]:
    """Operands that have to be packed to be loaded as vectors."""
    for a in distinct_reads(stage):
        if a.uses(lane.name) and a.stride(lane.name) != 1 and can_pack(a, lane.name):
            yield a


def can_pack(access: StageAccess, name: str) -> bool:
    """Whether elements along iterator ``name`` can be laid side by side."""
    return access.subscript_of(name) is not None and not access.guarded


def footprint(stage: Stage, access: StageAccess) -> int:
    """How many elements ``access`` touches."""
    assert access.rows is not None
    count = 1
    for row in access.rows:
        count *= 1 + sum(abs(c) * (size(stage.by_name[name]) - 1) for name, c in row.items())
    return count


def instructions(stage: Stage) -> int:
    """Vector instructions that update a sum: a product that is added is one."""
    return max(1, stage.operations - (1 if stage.op == "+" and _is_product(_value(stage)) else 0))


def _value(stage: Stage) -> Expr | None:
    store = stage.block.body
    value = getattr(store, "value", None)
    return value.right if isinstance(value, Binary) else None


def _is_product(e: Expr | None) -> bool:
    while isinstance(e, Cast):
        e = e.operand
    return isinstance(e, Binary) and e.op == "*"
