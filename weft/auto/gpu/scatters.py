"""Updates at places that data or reductions choose: every one by a thread of its own, in one step at memory.

Where many updates meet in few elements, every block updates a copy of them in shared memory, added up in the end::

    block
      thread: the copy starts
      thread: rounds of a few updates each, of the copy
      thread: the copy added to memory
"""

from __future__ import annotations

from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.grid import as_one, choose_shape, spread
from weft.auto.rows import may_reorder
from weft.auto.stages import Stage, buffer_bytes
from weft.auto.strategy import Strategy, one_way
from weft.ir.expr import Load
from weft.ir.visit import free_vars, stores, walk

#: Bytes that an update reads, about.
UPDATE = 4
#: Copies of what is updated on a multiprocessor, threads that share one, and updates of a thread that are under way.
COPIES, COPY_THREADS, ROUND = 2, 1024, 8
#: Updates of an element by each copy, from which on a copy is worth it.
OFTEN = 4


def fits_scatters(draft: GpuDraft, stage: Stage) -> bool:
    if stage.op == "=" or stage.is_inside or not stage.is_plain or not may_reorder(draft, stage):
        return False
    return not stage.write.is_affine or any(stage.write.uses(i.name) for i in stage.reductions)


def schedule_scatters(draft: GpuDraft, name: str) -> None:
    stage = draft.stage(name)
    last = _along(stage)
    order = [x for x in stage.loops if x not in last] + last
    if order != list(stage.loops):
        draft.s.reorder(*order)
    if _meet_often(draft, stage) and draft.attempt(_in_copies, draft, stage, order) is None:
        return
    shape = choose_shape(draft, None if any(i.extent is None for i in stage.iters) else stage.points, UPDATE)
    draft.s.atomic(name)
    spread(draft, as_one(draft, order), shape)
    why = "threads may update one element, in any order"
    draft.decide(
        "parallel", name, f"each update in one step, blocks of {shape.threads} threads, {shape.each} updates each", why
    )


def _meet_often(draft: GpuDraft, stage: Stage) -> bool:
    """Whether a block has room for a copy of all elements, and each element far more updates than there are copies."""
    if any(i.extent is None for i in stage.iters) or stage.write.buffer.element_count() is None:
        return False
    room = draft.machine.shared_per_block // COPIES
    elements = stage.write.buffer.element_count() or 0
    return buffer_bytes(stage.write.buffer) <= room and stage.points >= OFTEN * COPIES * draft.machine.sms * elements


def _in_copies(draft: GpuDraft, stage: Stage, order: list[str]) -> None:
    s, name, machine = draft.s, stage.name, draft.machine
    share = COPY_THREADS * ROUND
    length = -(-stage.points // (COPIES * machine.sms * share)) * share
    block, inside = map(str, s.split(as_one(draft, order), length))
    start, total, own = map(str, s.privatize(name, block, "shared"))
    for update in (name, total):
        s.atomic(update)
    rounds, each = map(str, s.split(inside, share))
    each, thread = map(str, s.split(each, COPY_THREADS))
    s.reorder(thread, rounds, each)
    s.unroll(each)
    s.bind(thread, "thread")
    for around in (start, total):
        turns, thread = map(str, s.split(as_one(draft, [str(x) for x in s.loops(around)][1:]), COPY_THREADS))
        s.reorder(thread, turns)
        s.bind(thread, "thread")
    s.bind(block, "block")
    draft.scheduled |= {start, total}
    what = f"blocks of {COPY_THREADS} threads update `{own}` in shared memory, added to memory in the end"
    draft.decide(
        "parallel", name, what, f"{stage.points // (stage.write.buffer.element_count() or 1)} updates an element"
    )


def _along(stage: Stage) -> list[str]:
    """Loops that decide the last subscript of what is written, where data do not: they go along memory."""
    *_, last = stores(stage.block.body)[0].indices
    if any(isinstance(n, Load) for n in walk(last)):
        return []
    names = free_vars(last)
    return [i.loop for i in stage.iters if i.name in names and i.loop is not None]


SCATTERS: Strategy[GpuDraft] = one_way("scatters", fits_scatters, schedule_scatters)
