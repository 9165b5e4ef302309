"""Contractions of narrow elements by the dot product instructions of a machine (VNNI, AVX512-BF16).

Such an instruction adds, in each of its lanes, the products of a group of neighbouring steps of the sum: four of bytes,
two of bfloat16. The plan is that of any contraction, with lanes of its width; what is loaded as vectors is copied with
the steps of a group side by side, and what is broadcast must have them side by side. Which instructions there are, of
what types and widths, the declared intrinsics themselves tell by what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from weft.auto.contraction_nest import Nest
from weft.auto.contraction_plan import Contraction, ContractionPlan, Dot, bare_stage, footprint
from weft.auto.draft import Draft
from weft.auto.stages import Stage, StageAccess
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Cast, Const, Expr
from weft.ir.hardware import Hardware
from weft.ir.stmt import Store
from weft.schedules.find import find_block
from weft.target.cpu.intrinsics import missing_for
from weft.target.cpu.intrinsics_x86 import DOTS

#: Rows that a copy made in every call must serve: with fewer, plain vectors were faster (measured on a Zen 4, with
#: twice as many where it turns rows into columns).
ENOUGH_ROWS = 48


def dot_plans(draft: Draft, stage: Stage, plans: Iterable[ContractionPlan]) -> list[ContractionPlan]:
    """Those of ``plans`` that an instruction does several steps at once of, as they then are."""
    stage = bare_stage(stage)
    if not adds_products(stage):
        return []
    found = dict.fromkeys(_by_dots(draft, stage, plan) for plan in plans)
    return [plan for plan in found if plan is not None]


def _by_dots(draft: Draft, stage: Stage, plan: ContractionPlan) -> ContractionPlan | None:
    """``plan`` by an instruction that does what ``stage`` says for several steps at once; None where there is none."""
    if stage.write.stride(plan.lane) != 1:
        return None
    vectors = [a for a in stage.distinct_reads if a.uses(plan.lane)]
    single = [a for a in stage.distinct_reads if not a.uses(plan.lane)]
    if len(vectors) != 1 or len(single) != 1 or not _pays_copy(draft, stage, plan, vectors[0]):
        return None
    for hardware in DOTS:
        dot = _dot(draft, stage, plan, hardware, single[0], vectors[0])
        if dot is not None:
            plan = _fitting(draft, stage, replace(plan, width=_whole(plan.width, dot.lanes)), hardware)
            return _whole_groups(
                replace(plan, dot=dot, packed=(vectors[0].buffer.name,), by_rows=(), steps=(), strips=())
            )
    return None


def _pays_copy(draft: Draft, stage: Stage, plan: ContractionPlan, vector: StageAccess) -> bool:
    """Whether a copy with steps side by side may be made, an argument's, and serves enough rows."""
    name = vector.buffer.name
    if name in draft.constants:
        return True
    enough = ENOUGH_ROWS if vector.stride(plan.lane) == 1 else 2 * ENOUGH_ROWS
    is_read_often = stage.points >= enough * footprint(stage, vector)
    return is_read_often and any(b.name == name for b in draft.s.kernel.buffers)


def adds_products(stage: Stage) -> bool:
    """Whether each step adds the product of two elements, both widened to the type of the sum, in loops of its own."""
    if stage.op != "+" or stage.is_inside or any(a.guarded for a in stage.reads):
        return False
    store = stage.block.body
    if not isinstance(store, Store) or not isinstance(store.value, Binary) or store.value.op != "+":
        return False
    return any(
        isinstance(e, Binary) and e.op == "*" and all(_is_widened(x, store.buffer) for x in (e.left, e.right))
        for e in (store.value.left, store.value.right)
    )


def _is_widened(e: Expr, sums: Buffer) -> bool:
    return isinstance(e, Cast) and e.dtype == sums.dtype


def _dot(
    draft: Draft, stage: Stage, plan: ContractionPlan, hardware: Hardware, single: StageAccess, vector: StageAccess
) -> Dot | None:
    one, several, sums = hardware.meaning.buffers
    types = (single.buffer.dtype, vector.buffer.dtype, stage.write.buffer.dtype)
    if types != (one.dtype, several.dtype, sums.dtype) or missing_for(hardware, draft.machine):
        return None
    lanes, group = (int(size.value) for size in several.shape if isinstance(size, Const))
    if lanes != draft.lanes(stage) or not (hardware.exact or draft.is_fast):
        return None
    lane = stage.by_name[plan.lane]
    if not lane.exact or lane.count < lanes or vector.subscript_of(plan.lane) is None:
        return None
    for i in stage.reductions:
        whole = i.exact and i.count % group == 0
        if whole and single.stride(i.name) == 1 and vector.subscript_of(i.name) is not None:
            return Dot(hardware.name, i.name, group, lanes)
    return None


def _whole(width: int, lanes: int) -> int:
    """``width`` in whole vectors of an instruction: what of the last one is too much is computed with zeros."""
    return -(-width // lanes) * lanes


def _fitting(draft: Draft, stage: Stage, plan: ContractionPlan, hardware: Hardware) -> ContractionPlan:
    """``plan`` with as many rows as leave registers for what the instruction needs: vectors, the group, a constant."""
    while True:
        c = Contraction(stage, plan, draft.lanes(stage), draft.enough_sums)
        if not plan.rows or c.sums + c.vectors * (1 + hardware.scratch) + 2 <= draft.registers:
            return plan
        name, most = max(plan.rows, key=lambda row: row[1])
        plan = replace(plan, rows=tuple((n, size - (n == name)) for n, size in plan.rows if n != name or most > 1))


def _whole_groups(plan: ContractionPlan) -> ContractionPlan:
    """Pieces of the sum, where it is cut, as long as whole groups."""
    block, dot = plan.blocking, plan.dot
    if block is None or dot is None or block.along != dot.along:
        return plan
    depth = block.depth - block.depth % dot.group
    return replace(plan, blocking=replace(block, depth=depth) if depth else None)


def finish_copy(draft: Draft, c: Contraction, access: StageAccess, load: str) -> None:
    """A copy with steps of a group side by side, from rows of memory where lanes lie along them: in whole vectors."""
    if c.plan.dot is not None and access.stride(c.plan.lane) == 1:
        *_, column, step = draft.stage(load).loops
        draft.s.reorder(step, column)
        draft.s.vectorize(column)
        draft.s.unroll(step)


def finish_dots(draft: Draft, c: Contraction, nest: Nest) -> None:
    """The innermost loops handed to the instruction, after everything else was done to them."""
    assert c.plan.dot is not None
    if c.lane.count % c.plan.dot.lanes:
        _run_beyond(draft, c, nest)
    draft.s.tensorize(nest.of("lanes")[0], c.plan.dot.instruction)
    why = f"{c.plan.dot.group} steps of `{c.plan.dot.along}` at once in each of {c.plan.dot.lanes} lanes"
    draft.decide("vector", c.stage.name, f"by `{c.plan.dot.instruction}`", why)


def _run_beyond(draft: Draft, c: Contraction, nest: Nest) -> None:
    """Lanes that a last vector has too many add up zeros, in registers that nobody reads."""
    lanes, sums = nest.of("lanes")[0], find_block(draft.s.kernel, c.stage.name).writes[0].buffer
    if c.lane.count < c.plan.width:
        draft.s.pad_rows(sums.name, c.plan.width - c.lane.count)
    draft.s.pad(f"{c.stage.name}_init")
    draft.s.pad(c.stage.name, along=lanes)
