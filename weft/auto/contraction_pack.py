"""Which operands of a contraction are copied into another order first, and where.

A vector operand is laid out in panels: the elements of a tile's lanes side by side, panel after panel. That is a must
where lanes are apart in memory, and pays where a panel is read for many rows and would otherwise be spread over too
many lines and pages. A broadcast operand is laid out row tile by row tile where many panels read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from weft.auto.contraction_nest import Nest
from weft.auto.contraction_plan import ContractionPlan, can_pack, footprint
from weft.auto.draft import Draft
from weft.auto.stages import StageAccess
from weft.schedules.layouts import LETTERS

#: Times that what is copied must be read to pay for the copy: a panel by rows, and rows by panels.
ROW_READS, PANEL_READS = 4, 8


def pack_operands(draft: Draft, plan: ContractionPlan, nest: Nest, together: Sequence[str]) -> None:
    for access in plan.vector_operands:
        if _pays_panels(draft, plan, nest, access):
            _pack_panels(draft, plan, nest, access, together)
    for access in plan.broadcast_operands:
        if _pays_rows(draft, plan, nest, access):
            _pack_rows(draft, plan, access)


def _pays_panels(draft: Draft, plan: ContractionPlan, nest: Nest, access: StageAccess) -> bool:
    if not can_pack(access, plan.lane.name):
        return False
    if access.stride(plan.lane.name) != 1:
        return True
    reads = prod(nest.counts[loop] for loop in nest.rows)
    return reads >= ROW_READS and footprint(plan.stage, access) * access.buffer.dtype.itemsize > draft.cache("L1") // 2


def _pack_panels(draft: Draft, plan: ContractionPlan, nest: Nest, access: StageAccess, together: Sequence[str]) -> None:
    """The panel of a tile copied where the loops through panels are, or all panels where threads share them."""
    inside = set(together) <= {*nest.batch, *nest.panel}
    outer = [*nest.batch, *nest.panel]
    at = outer[-1] if outer and inside else None
    where = _pack(draft, plan, access, plan.lane.name, plan.tile.width, at)
    reads = prod(nest.counts[loop] for loop in nest.rows)
    draft.decide(
        "packing",
        plan.stage.name,
        f"`{access.buffer.name}` in panels of {plan.tile.width}{where}",
        f"read {reads} times",
    )


def _pays_rows(draft: Draft, plan: ContractionPlan, nest: Nest, access: StageAccess) -> bool:
    rows = [n for n in plan.tile.sizes if access.uses(n)]
    if plan.stage.outer or len(rows) != 1 or not can_pack(access, rows[0]):
        return False
    panels = prod(nest.counts[loop] for loop in (*nest.panel, *nest.rows) if not _drives(plan, access, loop))
    return panels >= PANEL_READS and footprint(plan.stage, access) * access.buffer.dtype.itemsize > draft.cache("L1")


def _drives(plan: ContractionPlan, access: StageAccess, loop: str) -> bool:
    return any(access.uses(i.name) for i in plan.stage.iters if i.loop is not None and loop.startswith(i.loop))


def _pack_rows(draft: Draft, plan: ContractionPlan, access: StageAccess) -> None:
    (row,) = (n for n in plan.tile.sizes if access.uses(n))
    tile = plan.tile.sizes[row]
    _pack(draft, plan, access, row, tile, None)
    draft.decide("packing", plan.stage.name, f"`{access.buffer.name}` in rows of {tile}", "read by many panels")


def _pack(draft: Draft, plan: ContractionPlan, access: StageAccess, name: str, tile: int, at: str | None) -> str:
    """Copies with ``tile`` elements along ``name`` side by side; says where."""
    along = access.subscript_of(name)
    assert along is not None
    letter, extent = LETTERS[along], plan.stage.by_name[name].extent
    others = [LETTERS[d] for d in range(access.buffer.rank) if d != along]
    whole = extent is not None and extent <= tile
    layout = " ".join([*others, letter] if whole else [f"{letter}/{tile}", *others, f"{letter}%{tile}"])
    load, _ = draft.s.pack(access.buffer.name, layout, at=at, readers=None if at else [plan.stage.name])
    if load is not None:
        draft.scheduled.add(load.name)
        if at is None and draft.pays_threads(plan.stage):
            draft.s.parallel(draft.s.loops(load)[0])
    return f" at `{at}`" if at else ""
