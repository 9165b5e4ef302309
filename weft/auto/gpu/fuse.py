"""What is computed where: formulas go into their readers, and stages that share rows into blocks over these.

Memory is slow and arithmetic fast: a value is computed again rather than stored and read back, unless it is dear or
the operand of a contraction, which reads it many times. What is the same for a whole row costs next to nothing where
it is read, for each thread has many elements of a row.
"""

from __future__ import annotations

from math import prod

from weft.auto.align import Chain
from weft.auto.distribute import distribute_steps
from weft.auto.fuse_chains import ChainRules, schedule_chains
from weft.auto.fuse_parts import precompute_parts
from weft.auto.gpu.contraction_instruction import is_thin_product
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.row_plan import Row, reads_again, row_plans
from weft.auto.gpu.rows import needs_of, rows_of, schedule_row_chain
from weft.auto.stages import Stage, buffer_bytes
from weft.ir.expr import Load
from weft.ir.visit import walk
from weft.target.cuda.rates import rates_of

#: Operations an element that cost nothing while memory is waited for, before and after chains are made.
FREE, CHEAP = 6, 40
#: Elements of a row a thread has, about: so often what is the same for the row is used.
PER_THREAD = 16


def fuse_stages(draft: GpuDraft) -> None:
    """Parts of formulas made stages, cheap stages inlined, rows in blocks, then the rest of what can be inlined."""
    distribute_steps(draft, _waiting_seconds)
    precompute_parts(draft)
    inline_stages(draft, FREE)
    schedule_chains(draft, RULES)
    inline_stages(draft, CHEAP)


def _waiting_seconds(draft: GpuDraft, stages: list[Stage]) -> float:
    """What ``stages`` take beyond their arithmetic: barriers of all steps; or a launch, and results kept in memory."""
    rates = rates_of(draft.machine.capability)
    in_steps = sum(prod(s.outer_counts) * rates.grid_barrier for s in stages if s.outer)
    at_once = [2 * buffer_bytes(s.write.buffer) / draft.machine.bandwidth for s in stages if not s.outer]
    return in_steps + sum(rates.launch + seconds for seconds in at_once)


def inline_stages(draft: GpuDraft, most: int) -> None:
    """Stages that cost at most ``most`` operations for each element of their readers, as formulas there."""
    for name in [s.name for s in draft.stages]:
        if name not in draft.stages or name in draft.scheduled:
            continue
        stage = draft.stage(name)
        cost = _cost_inlined(draft, stage)
        if cost is None or cost > most:
            continue
        if draft.attempt(draft.s.compute_inline, name) is None:
            draft.decide("fusion", name, "inlined into its readers", f"{cost:.2g} operations more an element")


def _cost_inlined(draft: GpuDraft, stage: Stage) -> float | None:
    """Operations more for each element of its readers; None where it is to be stored."""
    if draft.stages.is_output(stage) or stage.op != "=" or stage.reads_target or stage.reductions or stage.is_inside:
        return None
    readers = draft.stages.consumers(stage)
    if not readers or any(r.is_inside for r in readers):
        return None
    reads = sum(1 for r in readers for a in r.reads if a.buffer.name == stage.write.buffer.name)
    repeats = max(max(1, r.points // max(1, stage.points)) for r in readers)
    if any(r.reductions and r.is_affine for r in readers) and _is_unpacked(stage):
        return None  # rows of the reader are rows of memory, as they are not of what this is made from
    if reads == 1 and repeats == 1:
        return 0.0
    if any(r.reductions and r.is_affine and (reads_again(r) or not stage.is_affine) for r in readers):
        return None  # what data choose is fetched once, so that a row of it is one in registers
    shared = min(PER_THREAD, min(max(1, r.points // max(1, stage.points)) for r in readers))
    return stage.operations * reads / shared


def _is_unpacked(stage: Stage) -> bool:
    """Whether several of its elements are made from one, which is found by dividing subscripts."""
    loads = [n for n in walk(stage.block.body) if isinstance(n, Load)]
    looked_up = any(isinstance(n, Load) for load in loads for i in load.indices for n in walk(i))
    return not stage.is_affine and not looked_up


def _why_apart(draft: GpuDraft, chain: Chain, stage: Stage) -> str | None:
    if not chain.shared:
        return "no iterator goes along with all of both"
    if any(s.reductions and s.is_affine and reads_again(s) for s in chain.members):
        return "what it reads is read again for other results"
    if any(is_thin_product(draft, s) for s in chain.members):
        return "it is a product of few rows"
    if not all(s.is_affine or not s.reductions for s in chain.members):
        return "data choose what it reads"
    rows = rows_of(chain)
    if rows is None:
        return "it is not a row of each"
    rounds = prod(map(chain.extent, chain.shared))
    longest = max(r.length for r in rows)
    if 2 * rounds < draft.machine.sms and longest > 4096:
        return f"they share {rounds} rows, too few for {draft.machine.sms} multiprocessors"
    if not any(r.along(a) for r in rows if r.iters for a in r.stage.accesses) or any(map(_is_across, rows)):
        return "rows lie across memory"  # neighbours are other rows
    if not row_plans(draft, needs_of(chain, rows)):
        return "a row is too long for the registers of a block"
    return None


def _is_across(row: Row) -> bool:
    """Whether most of what ``row`` reduces lies across memory."""
    most = max((a for a in row.stage.reads if a.is_affine), key=lambda a: buffer_bytes(a.buffer), default=None)
    return row.is_reduction and most is not None and not row.along(most)


def _is_better_apart(draft: GpuDraft, chain: Chain) -> bool:
    return not any(s.reductions for s in chain.members)


#: What pays on a GPU.
RULES: ChainRules[GpuDraft] = ChainRules(schedule_row_chain, _why_apart, _is_better_apart)
