"""Contractions: sums whose operands are reused along different iterators, from matrix products to convolutions.

The nest that comes out, outermost first::

    iterators that all vector operands use (batches), strips of rows
      tiles along the lanes                     the panel of a tile stays in the cache while rows go by
        tiles of rows
          reductions
            rows of a tile, unrolled            sums in registers
              lanes

Where a panel does not fit, blocks of tiles along the lanes are outermost, pieces of a reduction come next, and the
tiles of a block are inside the rows.

Which iterator may have which part is `contraction_tiles`' answer, what that takes `contraction_time`'s; what is copied
into another order first, `contraction_pack`'s.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from weft.auto.align import counterparts
from weft.auto.contraction_dots import finish_dots
from weft.auto.contraction_epilogue import (
    find_epilogue,
    join_inside,
    join_panels,
    join_registers,
    keep_for_reader,
    lanes_last,
    may_join,
    move_to_reader,
)
from weft.auto.contraction_fetch import fetch_panels, fetch_rows
from weft.auto.contraction_nest import INNER, Nest, part_loops, split_loops
from weft.auto.contraction_pack import (
    fill_up_rows,
    pack_operands,
    pack_rows,
    place_copies,
    spread_rows,
    surround_operands,
)
from weft.auto.contraction_plan import Contraction, ContractionPlan
from weft.auto.contraction_time import threaded_loops
from weft.auto.draft import Draft
from weft.auto.stages import Stage
from weft.auto.straighten import straighten

#: Part of the second cache in which sums are still found when what is done with them comes.
NEAR = 0.25


def apply_contraction(draft: Draft, name: str, plan: ContractionPlan) -> None:
    """Tiles of sums in registers, operands packed where that pays, panels on threads."""
    straighten(draft, name)
    copies = surround_operands(draft, name, plan)
    stage = draft.stage(name)
    c = Contraction(stage, plan, draft.lanes(stage), draft.enough_sums)
    reader = find_epilogue(draft, c.stage)
    joined = _join_reader(draft, c)
    c = c if joined is not None else _follow_reader(draft, c)
    nest = split_loops(draft, c) if joined is None else joined
    loops = part_loops(c)
    together = threaded_loops(draft, c, loops)
    nest.together = [loop for loop, part in zip(nest.order, loops) if part in together]
    draft.s.reorder(*(nest.order if joined is None else nest.of(*INNER)))
    place_copies(draft, c, nest, copies)
    fill_up_rows(draft, c, copies)
    spread_rows(draft, c, nest, copies)
    if plan.dot is None:
        draft.s.vectorize(nest.order[-1])
    written_out = nest.of("reductions") if c.is_written_out else ()
    for loop in (*written_out, *nest.of("unrolled", "vectors")):
        draft.s.unroll(loop)
    _tell_tile(draft, c)
    if joined is None:
        _finish_tiles(draft, c, nest)
    else:
        keep_for_reader(draft, c, nest)
    packed = pack_operands(draft, c, nest)
    pack_rows(draft, c)
    for buffer in packed:
        fetch_panels(draft, c, nest, buffer)
    fetch_rows(draft, c, nest, reader)
    if plan.dot is not None:
        finish_dots(draft, c, nest)
    if nest.together:
        _run_parallel(draft, name, nest.together)


def _join_reader(draft: Draft, c: Contraction) -> Nest | None:
    """The nest in the loops of what is done with each sum, where both share loops with others and that can be."""
    reader = find_epilogue(draft, c.stage) if c.stage.is_inside and c.plan.dot is None else None
    if reader is None or not may_join(c, reader):
        return None
    made: list[Nest] = []
    draft.attempt(lambda: made.append(join_inside(draft, c, reader)))
    return made[0] if made else None


def _follow_reader(draft: Draft, c: Contraction) -> Contraction:
    """``c`` in the outermost loop of what is done with each sum, where that cannot join its tiles and both share loops
    with others: what is in between stays in the first cache."""
    reader = find_epilogue(draft, c.stage) if c.stage.is_inside and c.plan.dot is None else None
    rows = [i for i in c.stage.spatial if i.loop is not None and i.count > 1 and i.name not in c.tile]
    if reader is None or not rows:
        return c
    loop = reader.loop_of(counterparts(c.stage, reader)[rows[0].name])
    if draft.attempt(move_to_reader, draft, c.stage.name, reader, loop) is not None:
        return c
    draft.decide("fusion", c.stage.name, f"computed in `{loop}` of `{reader.name}`", "it is read while it is near")
    return replace(c, stage=draft.stage(c.stage.name))


def _finish_tiles(draft: Draft, c: Contraction, nest: Nest) -> None:
    """The sums of a tile kept in registers; what is done with each of them joins in, if that can be."""
    reader = None if c.stage.is_inside else find_epilogue(draft, c.stage)
    if reader is not None and c.plan.dot is None and may_join(c, reader):
        refusal = draft.attempt(join_registers, draft, c, nest, reader)
        if refusal is None:
            return
    if reader is not None:
        _join_near(draft, c, nest, reader)
    _keep_sums(draft, c, nest)


def _join_near(draft: Draft, c: Contraction, nest: Nest, reader: Stage) -> None:
    """What is done with each sum, after each panel or block of them; after some rows where no cache holds more."""
    panels = nest.of("rows")[:1] if c.is_apart else nest.of("panels")
    loops = nest.of("blocks") if nest.of("pieces") else panels or nest.of("batch")
    further = [] if nest.of("pieces") or c.is_apart else nest.of("rows")
    room = NEAR * draft.cache("L2")
    candidates = [*loops[-1:], *(loop for loop in further if not loops or _sums_bytes(c, nest, loops[-1]) > room)]
    possible = [loop for loop in candidates if loop != nest.outer[-1] and nest.takes(loop)]
    near = [loop for loop in possible if _sums_bytes(c, nest, loop) <= room]
    for loop in dict.fromkeys([*near[:1], *possible[-1:], *possible[:1]]):
        if draft.attempt(join_panels, draft, c, loop, reader) is None:
            return


def _sums_bytes(c: Contraction, nest: Nest, loop: str) -> int:
    """Bytes of the sums that an iteration of ``loop`` makes."""
    around = part_loops(c)[: nest.order.index(loop) + 1]
    steps = {part.of: part.step for part in around}  # the innermost of several
    made = prod(min(steps.get(i.name, i.count), i.count) for i in c.stage.spatial)
    return made * c.stage.write.buffer.dtype.itemsize


def _keep_sums(draft: Draft, c: Contraction, nest: Nest) -> None:
    """The sums of a tile in registers, in lanes even where what is written is not."""
    at: str | None = nest.outer[-1] if nest.outer else None
    if at is None and (c.stage.outer or draft.stages.consumers(c.stage)):
        # One tile, in a loop with others or before one that reads it: it gets a loop of its own to be kept in.
        at = draft.s.wrap(nest.order[0]).name
    _, sums = draft.s.cache_write(c.stage.write.buffer.name, scope="register", at=at)
    if c.turns:
        draft.s.pack(sums, lanes_last(c))


def _tell_tile(draft: Draft, c: Contraction) -> None:
    name, plan = c.stage.name, c.plan
    if plan.blocking is not None:
        block = plan.blocking
        what = f"blocks of {block.depth} steps of `{block.along}` by {block.width} lanes"
        draft.decide("tiling", name, what, "they stay in a cache while rows go by")
    shape = " x ".join(str(n) for n in (*c.rows.values(), plan.width))
    why = f"{c.sums} of {draft.registers} registers"
    draft.decide("registers", name, f"tiles of {shape} sums", why)
    along = "unit stride" if not c.turns else "stored across lanes"
    draft.decide("vector", name, f"`{plan.lane}` in vectors of {min(c.vector, plan.width)}", along)


def _run_parallel(draft: Draft, name: str, together: list[str]) -> None:
    loop = draft.s.fuse(*together) if len(together) > 1 else together[0]
    draft.s.parallel(loop)
    draft.decide("parallel", name, f"`{loop}` on {draft.threads} threads", "tiles do not share sums")
