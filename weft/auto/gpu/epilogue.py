"""What is done with each result of a reduction, right where the result is: a cast, a division, an activation."""

from __future__ import annotations

from weft.auto.align import counterparts
from weft.auto.gpu.draft import GpuDraft
from weft.auto.stages import Stage


def epilogue_of(draft: GpuDraft, stage: Stage) -> Stage | None:
    """The only reader of ``stage``, where it reads each of its results once, at the same place."""
    reader = draft.only_reader(stage)
    if reader is None or reader.reductions or not reader.write.is_affine or reader.reads_target:
        return None
    if draft.stages.writers(reader.write.buffer.name) != (reader,):
        return None
    paired = counterparts(stage, reader)
    alike = all(stage.by_name[a].extent == reader.by_name[b].extent for a, b in paired.items())
    return reader if alike and len(paired) == len(stage.spatial) == len(reader.spatial) else None
