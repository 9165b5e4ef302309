"""What is computed where: formulas of cheap stages go into their readers."""

from __future__ import annotations

from weft.auto.block_factors import group_factors
from weft.auto.chain_plan import CPU_RULES
from weft.auto.chain_time import apart_seconds
from weft.auto.contraction_epilogue import find_epilogue
from weft.auto.contraction_plan import is_contraction
from weft.auto.contraction_signs import compensate_signs
from weft.auto.distribute import distribute_steps
from weft.auto.draft import Draft
from weft.auto.fuse_chains import schedule_chains
from weft.auto.fuse_parts import precompute_parts
from weft.auto.group_axes import split_groups
from weft.auto.product_axes import merge_odd_rows
from weft.auto.reduction import REDUCTION
from weft.auto.stages import Stage
from weft.auto.windows import inline_windows

#: A stage of at most so many operations a point may be computed again for each reader.
CHEAP = 8


def fuse_stages(draft: Draft) -> None:
    """Axes merged, parts of formulas made stages, stages inlined, then the rest in chains that share loops."""
    group_factors(draft)
    split_groups(draft)
    merge_odd_rows(draft, _seconds)
    distribute_steps(draft, _seconds)
    precompute_parts(draft)
    inline_stages(draft)
    inline_windows(draft)
    compensate_signs(draft)
    schedule_chains(draft, CPU_RULES)


def _seconds(draft: Draft, stages: list[Stage]) -> float:
    """What ``stages`` take by themselves, each by the best of its plans."""
    total = 0.0
    for stage in stages:
        plans = REDUCTION.ranked(draft, stage)
        times = draft.expected.pop(stage.name, {})
        total += times[plans[0]] if plans and plans[0] in times else apart_seconds(draft, [stage])
    return total


def inline_stages(draft: Draft) -> None:
    """Stages that are cheaper to compute where they are read than to store and read back."""
    for name in [s.name for s in draft.stages]:
        if name not in draft.stages:  # another block of a stage that was inlined
            continue
        stage = draft.stage(name)
        if _pays_inline(draft, stage) and draft.attempt(draft.s.compute_inline, name) is None:
            draft.decide("fusion", name, "inlined into its readers", f"{stage.operations} operations an element")


def _pays_inline(draft: Draft, stage: Stage) -> bool:
    if draft.stages.is_output(stage) or stage.op != "=" or stage.reads_target or stage.reductions:
        return False
    readers = draft.stages.consumers(stage)
    if any(_reduces_all(r, stage) for r in readers) and any(p.reductions for p in draft.stages.producers(stage)):
        return False  # between two reductions it is the end of one chain; inlined, it would be part of none
    reads = sum(1 for r in readers for a in r.reads if a.buffer.name == stage.write.buffer.name)
    repeats = max((_repeats(r, stage) for r in readers), default=1)
    sums = [p for p in draft.stages.producers(stage) if is_contraction(p)]
    if repeats > 1 and any(find_epilogue(draft, p) is stage for p in sums):
        return False  # done with each sum while that is in a register, it is done once
    return (reads == 1 and repeats == 1) or (stage.operations * reads * repeats <= CHEAP and repeats <= 2)


def _repeats(reader: Stage, stage: Stage) -> int:
    """How often ``reader`` reads each element that ``stage`` computes, about."""
    return max(1, reader.points // max(1, stage.points))


def _reduces_all(reader: Stage, stage: Stage) -> bool:
    """Whether no iterator of what ``reader`` computes goes along with one of ``stage``."""
    reads = [a for a in reader.reads if a.buffer.name == stage.write.buffer.name]
    return bool(reader.reductions) and not any(a.uses(i.name) for a in reads for i in reader.spatial)
