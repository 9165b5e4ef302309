"""What the time model expects of a contraction that follows a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.auto.contraction_epilogue import find_epilogue, may_join
from weft.auto.contraction_nest import INNER, PartLoop, part_loops
from weft.auto.contraction_plan import Contraction, ContractionPlan, bare_stage, packed_layout, spans
from weft.auto.contraction_tiles import least_seconds
from weft.auto.draft import Draft
from weft.auto.parallel_loops import parallel_prefix
from weft.auto.sketch import Copy, Loop, Sketch, TileNest
from weft.auto.stages import Stage, StageAccess
from weft.ir.expr import Const
from weft.ir.stmt import LoopKind
from weft.schedules.index_forms import Forms
from weft.schedules.nests import Place

#: Part of the time that tiles which are not full take beyond what they compute, for each iterator: other code.
EDGE = 0.015


def contraction_seconds(draft: Draft, stage: Stage, plan: ContractionPlan) -> float:
    """The time of the nest of ``stage``, and of what is done with each sum where that cannot join its tiles."""
    if plan.dot is not None:  # as without, but for the steps that it takes at once
        return contraction_seconds(draft, stage, replace(plan, dot=None)) / plan.dot.group
    known = draft.expected.get(stage.name)
    least = least_seconds(draft, stage, plan)
    if known and least >= min(known.values()):
        return least  # as good as it can be it is no better than another
    sketch, c = Sketch(), Contraction(stage, plan, draft.lanes(stage), draft.enough_sums)
    places, forms = sketch.enter_outer(stage, draft.stages)
    draw_contraction(draft, sketch, places, c, forms)
    reader = find_epilogue(draft, stage)
    if reader is not None and not may_join(c, reader):
        around, theirs = sketch.enter_outer(reader, draft.stages)
        loops = [Loop(i.name, 1, i.count) for i in reader.spatial if i.count > 1]
        sketch.draw_stage(around[-1], reader, loops, theirs)
    return sketch.seconds(draft) * (1 + EDGE * c.edges)


def draw_contraction(
    draft: Draft, sketch: Sketch, places: Sequence[Place], c: Contraction, forms: Forms | None = None
) -> None:
    """The nest of ``c`` inside the last of ``places``, with its copies, inside the last or those around it."""
    loops = part_loops(c)
    outer = [loop for loop in loops if loop.part not in INNER]
    shared = threaded_loops(draft, c, loops)
    around = tuple(replace(loop.loop, kind="parallel") if loop in shared else loop.loop for loop in outer)
    steps: LoopKind = "unroll" if c.is_written_out else "serial"
    inner = tuple(replace(loop.loop, kind=steps) for loop in loops if loop.part == "reductions")
    tile = tuple(loop.loop for loop in loops if loop.part in ("unrolled", "lanes"))
    copies = [_copy(draft, c, access, outer) for access in c.packed]
    copies += [_row_copy(draft, c, access, row) for access, row in c.by_rows]
    sketch.draw_tiles(places, bare_stage(c.stage), TileNest(around, inner, tile), forms, copies)


def threaded_loops(draft: Draft, c: Contraction, loops: list[PartLoop]) -> list[PartLoop]:
    """The loops that run on threads: outside the pieces of a reduction, or inside where there are none to share."""
    blocked = any(loop.part == "pieces" for loop in loops)
    whole = ("batch", "rows", "panels") if c.is_apart else ("batch", "strips", "panels", "rows")
    ways = [("batch", "blocks"), ("rows", "panels")] if blocked else [whole]
    for parts in ways:
        among = [loop for stmt in parts for loop in loops if loop.part == stmt]
        names = [f"{loop.part} {loop.of}" for loop in among]
        counts = {name: loop.trips for name, loop in zip(names, among)}
        full = {name: loop.full for name, loop in zip(names, among)}
        if found := parallel_prefix(draft, c.stage, names, counts, full):
            return [loop for name, loop in zip(names, among) if name in found]
    return []


def _copy(draft: Draft, c: Contraction, access: StageAccess, outer: list[PartLoop]) -> Copy:
    """Where and how ``access`` is copied: panel by panel inside the loops that choose one, or all of it before."""
    along = access.subscript_of(c.plan.lane)
    assert along is not None
    depth = copy_depth(draft, c, access, outer)
    block = c.plan.blocking
    fixed = {loop.of for loop in outer[:depth]} - {c.plan.lane, block.along if block is not None else ""}
    extents = list(spans(c.stage, access, fixed))
    if depth:
        extents[along] = min(c.plan.width, c.lane.count)
        if block is not None:
            extents = [min(n, block.depth) if row.get(block.along) else n for n, row in zip(extents, access.rows or ())]
    is_free = access.buffer.name in draft.constants
    tile, home = min(c.plan.width, c.lane.count), c.stage.home_of(access)
    if c.stage.steps and depth == home == 0:  # all of it, not only what one iteration of the loops around reads
        extents = [int(size.value) if isinstance(size, Const) else n for size, n in zip(access.buffer.shape, extents)]
    layout = packed_layout(access, c.plan, along, tile)
    return Copy(access, along, layout, depth, tuple(extents), home, is_free)


def _row_copy(draft: Draft, c: Contraction, access: StageAccess, row: str) -> Copy:
    along = access.subscript_of(row)
    assert along is not None
    layout = packed_layout(access, c.plan, along, c.rows[row])
    return Copy(access, along, layout, 0, spans(c.stage, access), 0, access.buffer.name in draft.constants)


def copy_depth(draft: Draft, c: Contraction, access: StageAccess, loops: list[PartLoop]) -> int:
    """How many of the loops around a tile a copy of ``access`` is made inside of; 0: before all of them."""
    if (c.is_apart or c.stage.reuse_of(access) > 1) and access.buffer.name not in draft.constants:
        return 0
    is_shared = sum(a.buffer.name == access.buffer.name for a in c.stage.reads) > 1
    if is_shared or access.buffer.name in draft.constants:
        return 0
    outer = [loop for loop in loops if loop.part not in INNER]
    blocked = any(loop.part == "pieces" for loop in outer)
    around = ("batch", "blocks", "pieces") if blocked else ("batch", "panels")
    depth = sum(loop.part in around for loop in outer)
    together = threaded_loops(draft, c, outer)
    return depth if all(loop in outer[:depth] for loop in together) else 0
