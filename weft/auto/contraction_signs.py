"""Products of signed bytes by instructions that want one side unsigned.

Without an instruction for two signed sides each step of a sum is corrected (`Hardware.scratch`: a register for that).
Where the side that is copied for the instruction is constant, its bytes are moved to unsigned ones once instead, and
each row of the result is corrected once (`compensate`).
"""

from __future__ import annotations

from weft.auto.contraction_tiles import contraction_plans
from weft.auto.draft import Draft
from weft.auto.stages import Stage
from weft.ir.dtype import int8
from weft.ir.hardware import HARDWARE


def compensate_signs(draft: Draft) -> None:
    """All products of the program that such an instruction would be used for."""
    for name in [s.name for s in draft.stages if s.op == "+" and all(a.buffer.dtype == int8 for a in s.distinct_reads)]:
        stage = draft.stage(name)
        moved = _corrected_operand(draft, stage)
        if moved is not None:
            draft.attempt(_compensate, draft, stage, moved)


def _corrected_operand(draft: Draft, stage: Stage) -> str | None:
    """The constant operand of vectors in plans whose instruction corrects each step."""
    for plan in contraction_plans(draft, stage):
        if plan.dot is not None and HARDWARE[plan.dot.instruction].scratch:
            (vector,) = (a.buffer.name for a in stage.distinct_reads if a.uses(plan.lane))
            return vector if vector in draft.constants else None
    return None


def _compensate(draft: Draft, stage: Stage, moved: str) -> None:
    end, storage = draft.s.compensate(stage.name, moved)
    draft.constants |= {storage.name}
    draft.attempt(draft.s.compute_inline, end.name)  # not an output
    what = f"bytes of `{moved}` moved to unsigned ones, sums compensated"
    draft.decide("vector", stage.name, what, "instructions for products of bytes take one unsigned side")
