"""What is done with each result of a reduction, right where the result is: a cast, a division, an activation."""

from __future__ import annotations

from weft.auto.align import counterparts
from weft.auto.gpu.draft import GpuDraft
from weft.auto.stages import Stage, StageAccess


def _is_elsewhere(one: StageAccess, other: StageAccess) -> bool:
    """Whether two accesses of a buffer never touch the same element: in a dimension they are at different numbers."""
    places = zip(one.rows or (), other.rows or (), one.offsets, other.offsets)
    return any(not any(a.values()) and not any(b.values()) and None not in (m, n) and m != n for a, b, m, n in places)


def epilogue_of(draft: GpuDraft, stage: Stage) -> Stage | None:
    """The only reader of ``stage``, where it reads each of its results once, at the same place."""
    reader = draft.only_reader(stage)
    if reader is None or reader.reductions or not reader.write.is_affine or reader.reads_target:
        return None
    others = [w for w in draft.stages.writers(reader.write.buffer.name) if w != reader]
    if not all(w.name in draft.scheduled or _is_elsewhere(w.write, reader.write) for w in others):
        return None
    pairs = ((stage.by_name[a], reader.by_name[b]) for a, b in counterparts(stage, reader).items())
    paired = [(own, theirs) for own, theirs in pairs if own.extent != 1]
    alike = all(own.extent == theirs.extent for own, theirs in paired)
    counts = {len([i for i in s.spatial if i.extent != 1]) for s in (stage, reader)}  # others stand still
    return reader if alike and counts == {len(paired)} else None
