"""Sums along memory for rows that lie apart: a matrix times a vector, row by row.

Lanes want neighbours in memory, but neighbours belong to one sum, whose order must stay. So one vector holds the sums
of as many rows as it has lanes, and squares of the matrix are loaded row by row and transposed in registers.
"""

from __future__ import annotations

from weft.auto.draft import Draft
from weft.auto.stages import Stage, StageIter


def fits_dots(draft: Draft, stage: Stage) -> bool:
    """One loop over rows, one along them, a matrix that is read along them, and sums that must keep their order."""
    found = _loops(stage)
    if draft.is_fast or found is None or not stage.is_plain:
        return False
    rows, along = found
    lanes = draft.lanes(stage)
    long_enough = all(i.extent is None or i.extent >= 2 * lanes for i in (rows, along))
    return long_enough and draft.machine.has_masks


def _loops(stage: Stage) -> tuple[StageIter, StageIter] | None:
    spatial = [i for i in stage.iters if not i.is_reduction and i.extent != 1]
    reductions = [i for i in stage.iters if i.is_reduction and i.extent != 1]
    if len(spatial) != 1 or len(reductions) != 1 or stage.op == "=" or not stage.is_affine or stage.reads_target:
        return None
    rows, along = spatial[0], reductions[0]
    squares = [a for a in stage.reads if a.uses(rows.name) and a.uses(along.name)]
    others = [a for a in stage.reads if a not in squares]
    apart = all(a.stride(along.name) == 1 and a.stride(rows.name) not in (0, 1) for a in squares)
    beside = all(a.stride(rows.name) in (0, 1) for a in others) and stage.write.stride(rows.name) == 1
    return (rows, along) if squares and apart and beside and not any(a.guarded for a in stage.accesses) else None


def schedule_dots(draft: Draft, name: str) -> None:
    """Squares of lanes x lanes: the rows in lanes, the columns written out."""
    s, stage = draft.s, draft.stage(name)
    found = _loops(stage)
    assert found is not None, "fits_dots answers this first"
    rows, along = found
    lanes, inner = draft.lanes(stage), stage.loop_of(along.name)
    row_tile, row = s.split(stage.loop_of(rows.name), lanes, tail="separate")
    s.cache_write(name, scope="register", at=row_tile)
    s.reorder(inner, row)
    _, column = s.split(inner, lanes, tail="separate")
    s.vectorize(row)
    s.unroll(column)
    draft.decide("vector", name, f"{lanes} rows of `{rows.name}` in lanes", "neighbours along a row belong to one sum")
    draft.decide(
        "registers", name, f"squares of {lanes} x {lanes} transposed", f"rows are contiguous along `{along.name}`"
    )
    if draft.pays_threads(stage):
        s.parallel(row_tile)
        draft.decide("parallel", name, f"`{row_tile}` on {draft.threads} threads", "rows do not share sums")
