"""What is done with the sums of a contraction, element by element, while they are at hand: bias, activation, a cast.

Where that takes few operations, it reads the registers that sums are in, and what is in between is never stored. Where
it takes many, it runs in a loop of its own through the part of the sums that is still in the cache.
"""

from __future__ import annotations

from weft.auto.align import counterparts
from weft.auto.contraction_nest import Nest
from weft.auto.contraction_plan import Contraction
from weft.auto.draft import Draft
from weft.auto.estimate_regions import MAX_COPIES
from weft.auto.stages import Stage, StageAccess
from weft.ir.expr import Expr
from weft.schedules.layouts import LETTERS


def find_epilogue(draft: Draft, stage: Stage) -> Stage | None:
    """The stage that alone reads what ``stage`` computes, each element once and where it stands."""
    reader = draft.only_reader(stage)
    if reader is None or stage.is_inside:  # in loops shared with others nothing joins: its instances are not all there
        return None
    reads = [a for a in reader.reads if a.buffer.name == stage.write.buffer.name]
    written, made = _sizes(reader, reader.write), _sizes(stage, stage.write)
    same = made is not None and all(_sizes(reader, a) == made == written for a in reads)
    return reader if same and reader.position > stage.position else None


def _sizes(stage: Stage, access: StageAccess) -> list[Expr] | None:
    """The sizes of the dimensions that ``access`` goes along; None where one is not an iterator of its own alone."""
    if access.rows is None:
        return None
    moving = [d for d, row in enumerate(access.rows) if any(stage.by_name[n].loop is not None for n in row)]
    used = [name for d in moving for name in access.rows[d]]
    plain = all([*access.rows[d].values()] == [1] and access.offsets[d] == 0 for d in moving)
    return [access.buffer.shape[d] for d in moving] if plain and len({*used}) == len(used) else None


def join_registers(draft: Draft, c: Contraction, nest: Nest, reader: Stage) -> None:
    """``reader`` after the last step of each tile, from the registers that its sums are in."""
    sums, at = c.stage.write.buffer.name, nest.outer[-1]
    draft.s.reverse_compute_at(reader.name, at)
    draft.s.store_at(sums, at)
    draft.s.set_scope(sums, "register")
    draft.s.decompose_reduction(c.stage.name, at=nest.of("reductions")[0])
    if c.turns:
        draft.s.pack(sums, lanes_last(c))
    _run_as_tile(draft, c, reader)
    draft.scheduled.add(reader.name)
    why = f"{reader.operations} operations an element, on sums still in registers"
    draft.decide("fusion", reader.name, f"done at the end of each tile of `{c.stage.name}`", why)


def may_join(c: Contraction, reader: Stage) -> bool:
    """Whether ``reader`` can be written out after each tile: all are full and whole sums, and it is not long."""
    whole = c.plan.blocking is None and not c.edges and any(i.count > c.tile.get(i.name, 1) for i in c.stage.spatial)
    return whole and c.sums * max(1, reader.operations) <= MAX_COPIES


def join_panels(draft: Draft, c: Contraction, loop: str, reader: Stage) -> None:
    """``reader`` after each iteration of ``loop``, on what that has computed."""
    draft.s.reverse_compute_at(reader.name, loop)
    draft.s.store_at(c.stage.write.buffer.name, loop)
    draft.scheduled.add(reader.name)
    why = f"{reader.operations} operations an element, on sums still in the cache"
    draft.decide("fusion", reader.name, f"done in each iteration of `{loop}`", why)


def lanes_last(c: Contraction) -> str:
    """The layout of sums in which those of a vector are side by side."""
    along = c.stage.write.subscript_of(c.plan.lane)
    rank = c.stage.write.buffer.rank
    order = [LETTERS[d] for d in range(rank) if d != along]
    return " ".join(order if along is None else [*order, LETTERS[along]])


def _run_as_tile(draft: Draft, c: Contraction, reader: Stage) -> None:
    """The loops of ``reader`` through a tile as those of the contraction: rows unrolled, lanes inside."""
    tile = c.tile
    theirs = counterparts(c.stage, reader)
    lanes = reader.loop_of(theirs[c.plan.lane])
    rows = [reader.loop_of(theirs[name]) for name in tile if name != c.plan.lane]
    own = [loop for loop in draft.stage(reader.name).loops if loop not in (*rows, lanes)]
    draft.s.reorder(*own, *rows, lanes)
    draft.s.vectorize(lanes)
    for loop in (*own, *rows):
        draft.s.unroll(loop)
