"""Rows of a table that data choose: each row is read along memory, and asked for before it is needed.

Nothing can foresee which row comes next but the program itself, so while one is added the rows some iterations later
are fetched into the cache.
"""

from __future__ import annotations

from weft.auto.draft import Draft
from weft.auto.parallel_loops import parallel_outermost
from weft.auto.stages import Stage, StageIter, buffer_bytes
from weft.ir.expr import Load
from weft.ir.visit import free_vars, loads

#: How many rows ahead of the one that is used.
AHEAD = 8
#: Vectors of a row's sums that are kept in registers, and vectors of a row that are fetched ahead, at most.
MOST_VECTORS = 16


def fits_lookups(draft: Draft, stage: Stage) -> bool:
    return stage.write.is_affine and not stage.reads_target and stage.is_plain and _lookup(stage) is not None


def _lookup(stage: Stage) -> tuple[Load, StageIter] | None:
    """A read whose row data choose, and the iterator along the row, with which the result lies along memory too."""
    for load in loads(stage.block.body):
        if load.buffer.name == stage.write.buffer.name or not any(loads(i) for i in load.indices):
            continue
        *_, last = load.indices
        along = next((i for i in stage.spatial if i.loop and free_vars(last).keys() == {i.name}), None)
        rows = [i for i in load.indices if loads(i)]
        if along is None or loads(last) or any(along.name in free_vars(i) for i in rows):
            continue
        if stage.write.stride(along.name) == 1:
            return load, along
    return None


def schedule_lookups(draft: Draft, name: str) -> None:
    stage = draft.stage(name)
    found = _lookup(stage)
    assert found is not None
    load, along = found
    row, lanes = stage.loop_of(along.name), draft.lanes(stage)
    chosen = {v for i in load.indices for x in loads(i) for v in free_vars(x)}
    choosing = [i.loop for i in stage.reductions if i.name in chosen and i.loop is not None]
    others = [x for x in stage.loops if x not in (row, *choosing)]
    order = [*others, *choosing, row]
    if order != list(stage.loops):
        draft.s.reorder(*order)
    vectors = -(-(along.extent or MOST_VECTORS * lanes + 1) // lanes)
    is_short = vectors <= MOST_VECTORS
    if choosing and others and is_short:
        draft.s.cache_write(stage.write.buffer.name, scope="register", at=others[-1])
        draft.decide(
            "registers", name, f"{vectors} vectors of sums", f"a row of `{load.buffer.name}` is added at a time"
        )
    draft.s.vectorize(row) if is_short else draft.s.vectorize(row, 2 * lanes)
    draft.decide("vector", name, f"`{along.name}` in vectors of {lanes}", "rows lie along it")
    if len(order) > 1 and is_short:
        _fetch_ahead(draft, stage, load, order[-2])
    if draft.pays_threads(stage):
        parallel_outermost(draft, name, order[:-1])


def _fetch_ahead(draft: Draft, stage: Stage, load: Load, loop: str) -> None:
    table = load.buffer
    size = buffer_bytes(table)
    if size <= draft.cache("L2"):
        return
    if draft.attempt(draft.s.prefetch, table.name, at=loop, ahead=AHEAD) is None:
        why = f"{size >> 20} MiB of rows that come in no order"
        draft.decide("storage", stage.name, f"rows of `{table.name}` fetched {AHEAD} ahead", why)
