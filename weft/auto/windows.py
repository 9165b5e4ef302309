"""Stencils: neighbouring points read many of the same elements, above and below as well as along memory.

A few rows are computed at a time, unrolled, so that what they share is loaded, or computed, once for all of them. That
also makes it cheap to inline a stage that is read at several rows: with 6 rows at a time and a window of 3, 8 rows of
it are computed for 6 results, and it is never stored.
"""

from __future__ import annotations

from weft.auto.draft import Draft
from weft.auto.parallel_loops import parallel_outermost
from weft.auto.pointwise import stream_large_result, vector_iterator
from weft.auto.stages import Stage, StageAccess, StageIter

#: Rows computed at a time, at most: more need more registers than they save loads.
ROWS = 6
#: Operations of a nest written out for a few rows, at most, so that code stays short.
WRITTEN_OUT = 400
#: Operations a stage may cost for each element of its reader before storing it is cheaper.
RECOMPUTED = 24


def inline_windows(draft: Draft) -> None:
    """Cheap stages that one other reads through a window of some rows, as formulas of their reader."""
    for name in [s.name for s in draft.stages]:
        stage = draft.stage(name)
        reader = _window_reader(draft, stage)
        if reader is None:
            continue
        cost = _recomputed_operations(stage, reader)
        if cost <= RECOMPUTED and draft.attempt(draft.s.compute_inline, name) is None:
            why = f"{cost:.3g} operations for each element of `{reader.name}`, {ROWS} rows at a time"
            draft.decide("fusion", name, "inlined into its reader, never stored", why)


def _window_reader(draft: Draft, stage: Stage) -> Stage | None:
    """The stage that reads ``stage`` at several rows, where it is the only one and both are pointwise."""
    stages = draft.stages
    readers = stages.consumers(stage)
    if len(readers) != 1 or stages.is_output(stage) or stage.outer or readers[0].outer:
        return None
    if not (_is_pointwise(stage) and _is_pointwise(readers[0])):
        return None
    along = vector_iterator(readers[0])
    if along is None or _row_iterator(readers[0], along, stage.write.buffer.name) is None:
        return None
    return readers[0]


def _is_pointwise(stage: Stage) -> bool:
    return stage.op == "=" and not stage.reductions and not stage.reads_target and stage.is_affine


def _recomputed_operations(stage: Stage, reader: Stage) -> float:
    """Operations of ``stage`` for each element of ``reader`` where that computes `ROWS` rows at a time."""
    along = vector_iterator(reader)
    assert along is not None
    row = _row_iterator(reader, along, stage.write.buffer.name)
    reads = [a for a in reader.reads if a.buffer.name == stage.write.buffer.name]
    assert row is not None
    rows = {_offset_along(a, row.name) for a in reads}
    others = {tuple(o for o, used in zip(a.offsets, a.rows or ()) if not used.get(row.name)) for a in reads}
    height = max(rows) - min(rows) + 1
    return stage.operations * len(others) * (ROWS + height - 1) / ROWS


def _offset_along(access: StageAccess, name: str) -> int:
    """The constants of the subscripts that ``name`` is in, which tell reads of one window apart."""
    return sum(o or 0 for o, row in zip(access.offsets, access.rows or ()) if row.get(name))


def _row_iterator(stage: Stage, along: StageIter, buffer: str | None = None) -> StageIter | None:
    """The iterator, other than ``along``, along which the same elements are read at most offsets.

    That of reads of ``buffer``, where one is named.
    """
    windows: dict[str, set[tuple[str, int]]] = {}
    for i in stage.spatial:
        if i.loop is None or i is along or i.extent == 1:
            continue
        reads = [a for a in stage.reads if buffer in (None, a.buffer.name) and _moves_by_one(a, i.name)]
        windows[i.name] = {(a.buffer.name, _offset_along(a, i.name)) for a in reads}
        windows[i.name] = {w for w in windows[i.name] if sum(v[0] == w[0] for v in windows[i.name]) > 1}
    best = max(windows, key=lambda name: len(windows[name]), default=None)
    return stage.by_name[best] if best is not None and windows[best] else None


def _moves_by_one(access: StageAccess, name: str) -> bool:
    return access.rows is not None and any(row.get(name) == 1 for row in access.rows) and None not in access.offsets


def fits_windows(draft: Draft, stage: Stage) -> bool:
    if not _is_pointwise(stage):
        return False
    along = vector_iterator(stage)
    if along is None or (along.extent is not None and along.extent < draft.lanes(stage)):
        return False
    return _row_iterator(stage, along) is not None


def schedule_windows(draft: Draft, name: str) -> None:
    stage, lanes = draft.stage(name), draft.lanes(draft.stage(name))
    along = vector_iterator(stage)
    assert along is not None
    row = _row_iterator(stage, along)
    assert row is not None
    rows = _rows_at_a_time(stage, row)
    others = [x for x in stage.loops if x not in (stage.loop_of(along.name), stage.loop_of(row.name))]
    column, lane = draft.s.split(stage.loop_of(along.name), lanes)
    strip, inner = draft.s.split(stage.loop_of(row.name), rows)
    draft.s.reorder(*others, strip, column, inner, lane)
    draft.s.vectorize(lane)
    draft.s.unroll(inner)
    draft.decide("vector", name, f"`{along.name}` in vectors of {lanes}", "the result lies along it")
    what = f"{rows} rows of `{row.name}` at a time"
    draft.decide("registers", name, what, "neighbouring rows read the same elements, each loaded once for all")
    if draft.pays_threads(stage):
        parallel_outermost(draft, name)
    stream_large_result(draft, stage)


def _rows_at_a_time(stage: Stage, row: StageIter) -> int:
    """As many as pay and leave least over."""
    most = max(1, min(ROWS, WRITTEN_OUT // max(1, stage.operations)))
    if row.extent is None:
        return most
    return min(range(max(1, most // 2), most + 1), key=lambda r: (-(-row.extent // r) * r, -r))  # type: ignore[operator]
