"""Contractions: sums whose operands are reused along different iterators, from matrix products to convolutions.

The nest that comes out, outermost first::

    iterators that all vector operands use (batches)
      tiles along the lanes                     the panel of a tile stays in the cache while rows go by
        tiles of rows
          reductions
            rows of a tile, unrolled            sums in registers
              lanes

Where a panel does not fit, blocks of tiles along the lanes are outermost, pieces of a reduction come next, and the
tiles of a block are inside the rows.

Which iterator has which part is `contraction_plan`'s answer; what is copied into another order first,
`contraction_pack`'s.
"""

from __future__ import annotations

from functools import partial

from weft.auto.contraction_epilogue import find_epilogue, is_cheap, join_panels, join_registers, lanes_last
from weft.auto.contraction_nest import Nest, choose_blocking
from weft.auto.contraction_pack import pack_far_rows, pack_operands, place_copies, surround_operands
from weft.auto.contraction_plan import (
    ContractionPlan,
    beats_rows,
    is_contraction,
    is_short_window,
    plan_contraction,
)
from weft.auto.draft import Draft
from weft.auto.parallel_loops import parallel_prefix
from weft.auto.stages import UNKNOWN_EXTENT, Stage, StageIter
from weft.auto.straighten import straighten
from weft.ir.errors import ScheduleError


def fits_contraction(draft: Draft, stage: Stage) -> bool:
    """Whether operands are reused along iterators that can be lanes."""
    return is_contraction(stage) and beats_rows(draft, stage)


def schedule_contraction(draft: Draft, name: str) -> None:
    """Tiles of sums in registers, operands packed where that pays, panels on threads."""
    straighten(draft, name)
    copies = surround_operands(draft, name)
    plan = plan_contraction(draft, draft.stage(name))
    if plan is None:
        raise ScheduleError(f"`{name}` has no iterator for lanes")
    nest = _split_tiles(draft, plan)
    nest.together = _on_threads(draft, plan, nest)
    draft.s.reorder(*nest.order)
    place_copies(draft, plan, nest, copies)
    draft.s.vectorize(nest.lanes)
    written_out = nest.reductions if is_short_window(plan.stage, plan.lane, plan.operands) else ()
    for loop in (*written_out, *nest.unrolled):
        draft.s.unroll(loop)
    _tell_tile(draft, plan)
    _finish_tiles(draft, plan, nest)
    pack_operands(draft, plan, nest)
    pack_far_rows(draft, plan, nest)
    if nest.together:
        _run_parallel(draft, name, nest.together)


def _on_threads(draft: Draft, plan: ContractionPlan, nest: Nest) -> list[str]:
    """The loops that run on threads: outside the pieces of a reduction, or inside where there are none to share."""
    outside = parallel_prefix(draft, plan.stage, nest.shared, nest.counts, nest.full)
    if outside or not nest.pieces:
        return outside
    return parallel_prefix(draft, plan.stage, [*nest.rows, *nest.panels], nest.counts, nest.full)


def _split_tiles(draft: Draft, plan: ContractionPlan) -> Nest:
    nest = Nest()
    blocking = choose_blocking(draft, plan)
    rows, inside = plan.tile.sizes, False
    for i in plan.stage.iters:
        if i.loop is None:
            continue
        if i.extent == 1:  # out of the way
            nest.batch.insert(0, i.loop)
            nest.counts[i.loop] = 1
        elif i.is_reduction:
            depth = blocking.depth if blocking is not None and blocking.along == i.name else i.count
            pieces, inner = _split(draft, nest, i.loop, _exact(i), depth) if depth < i.count else ([], i.loop)
            nest.counts.setdefault(i.loop, i.count)
            nest.pieces += pieces
            nest.reductions += [inner] if inner else []
        elif i.name == plan.lane.name:
            nest.panels, nest.lanes = _split(draft, nest, i.loop, _exact(i), plan.tile.width)
            if blocking is not None and nest.panels and blocking.width > plan.tile.width:
                (panel,), each = nest.panels, blocking.width // plan.tile.width
                count = nest.counts[panel] if i.exact else None
                nest.blocks, inner = _split(draft, nest, panel, count, each)
                nest.panels = [inner]
                inside = True
        else:
            outer, inner = _split(draft, nest, i.loop, _exact(i), rows.get(i.name, 1))
            nest.unrolled += [inner] if inner else []
            batch = all(a.uses(i.name) for a in plan.vector_operands)
            (nest.batch if batch else nest.rows).extend(outer)
    if nest.pieces and not inside:
        nest.blocks, nest.panels = nest.panels, []
    if blocking is not None and nest.pieces:
        what = f"blocks of {blocking.depth} steps of `{blocking.along}` by {blocking.width} lanes"
        draft.decide("tiling", plan.stage.name, what, blocking.why)
    return nest


def _exact(i: StageIter) -> int | None:
    return i.extent if i.exact else None


def _split(draft: Draft, nest: Nest, loop: str, extent: int | None, tile: int) -> tuple[list[str], str]:
    """The loops through tiles (none where one holds all) and through a tile ("" where it has one element)."""
    count = UNKNOWN_EXTENT if extent is None else extent
    if tile == 1 and count > 1:
        nest.counts[loop] = count
        return [loop], ""
    if extent is not None and extent <= tile:
        nest.counts[loop] = extent
        return [], loop
    outer, inner = draft.s.split(loop, tile)
    nest.counts |= {outer.name: -(-count // tile), inner.name: tile}
    nest.full[outer.name] = count / tile
    return [outer.name], inner.name


def _finish_tiles(draft: Draft, plan: ContractionPlan, nest: Nest) -> None:
    """The sums of a tile kept in registers; what is done with each of them joins in, if that can be."""
    reader = find_epilogue(draft, plan.stage)
    whole = bool(nest.outer) and not nest.pieces and not plan.has_edges
    if reader is not None and whole and is_cheap(plan, reader):
        refusal = draft.attempt(partial(join_registers, draft, plan, nest, reader))
        if refusal is None:
            return
    loops = nest.blocks if nest.pieces else nest.panels or nest.batch
    if reader is not None and loops and loops[-1] != nest.outer[-1] and nest.takes(loops[-1]):
        draft.attempt(partial(join_panels, draft, plan, loops[-1], reader))
    _keep_sums(draft, plan, nest)


def _keep_sums(draft: Draft, plan: ContractionPlan, nest: Nest) -> None:
    """The sums of a tile in registers, in lanes even where what is written is not."""
    at: str | None = nest.outer[-1] if nest.outer else None
    if at is None and plan.stage.outer:  # one tile, in a loop with others: it gets a loop of its own to be kept in
        at = draft.s.wrap(nest.order[0]).name
    _, sums = draft.s.cache_write(plan.stage.write.buffer.name, scope="register", at=at)
    if plan.turns:
        draft.s.pack(sums, lanes_last(plan))


def _tell_tile(draft: Draft, plan: ContractionPlan) -> None:
    tile = plan.tile
    shape = " x ".join(str(n) for n in (*tile.sizes.values(), tile.width))
    updates = plan.stage.points / (tile.width / tile.vectors)
    why = (
        f"{tile.sums} of {draft.registers} registers; {plan.cycles / updates:.2f} cycles for each vector that is added"
    )
    draft.decide("registers", plan.stage.name, f"tiles of {shape} sums", why)
    along = "unit stride" if not plan.turns else "stored across lanes"
    draft.decide("vector", plan.stage.name, f"`{plan.lane.name}` in vectors of {tile.width // tile.vectors}", along)


def _run_parallel(draft: Draft, name: str, together: list[str]) -> None:
    loop = draft.s.fuse(*together) if len(together) > 1 else together[0]
    draft.s.parallel(loop)
    draft.decide("parallel", name, f"`{loop}` on {draft.threads} threads", "tiles do not share sums")
