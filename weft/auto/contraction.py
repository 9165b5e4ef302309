"""Contractions: sums whose operands are reused along different iterators, from matrix products to convolutions.

The nest that comes out, outermost first::

    iterators that all vector operands use (batches)
      tiles along the lanes                             a panel of the vector operands stays in the cache
        pieces of the reductions, where the panel would not fit
          tiles of rows
            reductions
              rows of a tile, unrolled                  sums in registers
                lanes

Which iterator has which part is `contraction_plan`'s answer; what is copied into another order first,
`contraction_pack`'s.
"""

from __future__ import annotations

from weft.auto.contraction_nest import Nest
from weft.auto.contraction_pack import pack_operands
from weft.auto.contraction_plan import ContractionPlan, is_contraction, plan_contraction, size
from weft.auto.draft import Draft
from weft.auto.parallel_loops import parallel_prefix
from weft.auto.stages import Stage, StageIter
from weft.ir.errors import ScheduleError
from weft.schedules.layouts import LETTERS


def fits_contraction(draft: Draft, stage: Stage) -> bool:
    return is_contraction(stage)


def schedule_contraction(draft: Draft, name: str) -> None:
    """Tiles of sums in registers, operands packed where that pays, panels on threads."""
    stage = draft.stage(name)
    plan = plan_contraction(draft, stage)
    if plan is None:
        raise ScheduleError(f"`{name}` has no iterator for lanes")
    nest = _split_tiles(draft, plan)
    draft.s.reorder(*nest.order)
    _keep_sums(draft, plan, nest)
    draft.s.vectorize(nest.lanes)
    for loop in nest.unrolled:
        draft.s.unroll(loop)
    _tell_tile(draft, plan)
    together = parallel_prefix(
        draft, stage, [*nest.batch, *nest.panel, *(() if nest.pieces else nest.rows)], nest.counts
    )
    pack_operands(draft, plan, nest, together)
    if together:
        _run_parallel(draft, name, nest, together)


def _split_tiles(draft: Draft, plan: ContractionPlan) -> Nest:
    nest = Nest()
    rows = plan.tile.sizes
    for i in plan.stage.iters:
        if i.loop is None:
            continue
        if i.is_reduction:
            nest.reductions.append(i.loop)
            nest.counts[i.loop] = size(i)
        elif i.name == plan.lane.name:
            outer, nest.lanes = _split(draft, nest, i, plan.tile.width)
            nest.panel += outer
        else:
            outer, inner = _split(draft, nest, i, rows.get(i.name, 1))
            nest.unrolled += [inner] if inner else []
            batch = all(a.uses(i.name) for a in plan.vector_operands)
            (nest.batch if batch else nest.rows).extend(outer)
    return nest


def _split(draft: Draft, nest: Nest, i: StageIter, tile: int) -> tuple[list[str], str]:
    """The loops through tiles (none where one holds all) and through a tile ("" where it has one element)."""
    loop = i.loop
    assert loop is not None
    if tile == 1 and size(i) > 1:
        nest.counts[loop] = size(i)
        return [loop], ""
    if i.extent is not None and i.extent <= tile:
        nest.counts[loop] = i.extent
        return [], loop
    outer, inner = draft.s.split(loop, tile)
    nest.counts |= {outer.name: -(-size(i) // tile), inner.name: tile}
    return [outer.name], inner.name


def _keep_sums(draft: Draft, plan: ContractionPlan, nest: Nest) -> None:
    """The sums of a tile in registers, in lanes even where what is written is not."""
    at = nest.outer[-1] if nest.outer else None
    _, sums = draft.s.cache_write(plan.stage.write.buffer.name, scope="register", at=at)
    along = plan.stage.write.subscript_of(plan.lane.name)
    rank = plan.stage.write.buffer.rank
    if plan.turns and along is not None and along != rank - 1:
        order = [LETTERS[d] for d in range(rank) if d != along] + [LETTERS[along]]
        draft.s.pack(sums, " ".join(order))


def _tell_tile(draft: Draft, plan: ContractionPlan) -> None:
    tile = plan.tile
    shape = " x ".join(str(n) for n in (*tile.sizes.values(), tile.width))
    why = f"{tile.sums} of {draft.registers} registers; {tile.cycles:.2f} cycles a vector of sums"
    draft.decide("registers", plan.stage.name, f"tiles of {shape} sums", why)
    along = "unit stride" if not plan.turns else "stored across lanes"
    draft.decide("vector", plan.stage.name, f"`{plan.lane.name}` in vectors of {tile.width // tile.vectors}", along)


def _run_parallel(draft: Draft, name: str, nest: Nest, together: list[str]) -> None:
    loop = draft.s.fuse(*together) if len(together) > 1 else together[0]
    draft.s.parallel(loop)
    draft.decide("parallel", name, f"`{loop}` on {draft.threads} threads", "tiles do not share sums")
