"""The launches of a step as one launch for all steps, where its blocks all run at once and waiting is cheaper."""

from __future__ import annotations

from weft.auto.gpu.draft import GpuDraft
from weft.auto.stages import buffer_bytes
from weft.ir.nesting import inner_statements
from weft.ir.stmt import For, Stmt
from weft.schedules.find import all_allocs, all_loops, find_loop
from weft.schedules.loop_facts import trip_count
from weft.target.cuda.launch_bounds import resident_blocks
from weft.target.cuda.rates import rates_of

#: Registers of a thread that are counted on; the assembler is told how many blocks have to fit.
REGISTERS = 64
#: Blocks of a launch that one of those that stay does in turn, at most: a longer launch is not worth it.
MOST_TURNS = 4


def persist_steps(draft: GpuDraft) -> None:
    """Every loop over steps, the outermost first, whose launches may become one."""
    rates = rates_of(draft.machine.capability)
    for loop in [f.var.name for f in all_loops(draft.s.kernel) if f.var.name in draft.steps]:
        blocks, threads, shared = _demand(find_loop(draft.s.kernel, loop))
        room = draft.machine.sms * resident_blocks(draft.machine, threads, REGISTERS, shared)
        if rates.grid_barrier >= rates.launch or blocks > MOST_TURNS * room or shared > draft.machine.shared_per_block:
            continue
        if draft.attempt(draft.s.persist, loop, room) is None:
            what = f"{min(blocks, room)} blocks stay for all steps and wait for one another"
            why = f"a barrier of the grid takes {rates.grid_barrier * 1e6:.2g} us, a launch {rates.launch * 1e6:.2g} us"
            draft.decide("parallel", loop, what, why)


def _demand(steps: For) -> tuple[int, int, int]:
    """The most blocks and threads of a launch, and the shared memory that all launches use."""
    shared = [a.buffer for a in all_allocs(steps) if a.buffer.scope == "shared"]
    return most_iterations(steps, "block"), most_iterations(steps, "thread"), sum(map(buffer_bytes, shared))


def most_iterations(s: Stmt, kind: str) -> int:
    """The most iterations of loops of ``kind``, one in another; many where that is no number."""
    inside = max((most_iterations(inner, kind) for inner in inner_statements(s)), default=1)
    count = (trip_count(s, {}) or 1 << 30) if isinstance(s, For) and s.kind == kind else 1
    return count * inside
