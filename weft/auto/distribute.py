"""Statements of a recurrence that need no step before them, computed for all steps at once: loop distribution.

In an LSTM the products of the input, ``X(t,b,i) * W(g,j,i)``, wait for nothing: taken out of the steps they are one
large product, whose weights are read once and not once for each step. What it costs is that its results are kept for
all steps. Which of both is more is the time model's to say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from weft.auto.draft import AnyDraft
from weft.auto.recurrence import find_steps
from weft.auto.stages import Stage, buffer_bytes
from weft.ir.errors import ScheduleError
from weft.ir.nesting import statements_in_turn
from weft.schedules.find import all_allocs, blocks_inside, find_loop

D = TypeVar("D", bound=AnyDraft)
#: How many times the memory of all arguments and results may be taken for what is kept for all steps.
MOST_MEMORY = 4


def distribute_steps(draft: D, seconds: Callable[[D, list[Stage]], float]) -> None:
    """Reductions that steps hand nothing to, with what they are made from, taken out of the steps where that pays."""
    for name in [s.name for s in draft.stages if s.outer and s.steps == len(s.outer) and s.op != "="]:
        stage = draft.stage(name)
        if not stage.outer or (group := _independent(draft, stage)) is None:
            continue
        inside = seconds(draft, group)
        refusal = draft.attempt(_take_out, draft, group, inside, seconds)
        if refusal is not None and refusal.why:
            draft.decide("fusion", name, f"computed in each step of `{stage.outer[-1]}`", refusal.why)


def _independent(draft: AnyDraft, stage: Stage) -> list[Stage] | None:
    """``stage`` and those of its steps that it is computed from, in order; None where they wait for another step."""
    stages = draft.stages
    group, left = {stage.name: stage}, [stage]
    while left:
        reader = left.pop()
        for buffer in {a.buffer.name for a in reader.accesses}:
            for writer in stages.writers(buffer):
                if writer.outer[: len(stage.outer)] != stage.outer or writer.name in group:
                    continue
                is_before = writer.position < reader.position
                if writer.outer != stage.outer or (not is_before and buffer not in _made_inside(draft, stage)):
                    return None  # a value of the step before, or steps in steps
                if is_before:
                    group[writer.name] = writer
                    left.append(writer)
    return sorted(group.values(), key=lambda s: s.position)


def _made_inside(draft: AnyDraft, stage: Stage) -> set[str]:
    """Temporaries that each step makes anew."""
    return {a.buffer.name for a in all_allocs(find_loop(draft.s.kernel, stage.outer[-1]))}


def _take_out(draft: D, group: list[Stage], inside: float, seconds: Callable[[D, list[Stage]], float]) -> None:
    """Each of ``group`` in a loop of its own over the steps, before them."""
    steps = group[0].outer[-1]
    for name in {s.write.buffer.name for s in group} & _made_inside(draft, group[0]):
        draft.s.expand_storage(name)
    kept = sum(buffer_bytes(a.buffer) for a in all_allocs(draft.s.kernel))
    if kept > MOST_MEMORY * sum(map(buffer_bytes, draft.s.kernel.buffers)):
        raise ScheduleError("too large", why=f"{kept >> 20} MiB would be kept for all steps")
    for stage in group:
        _move_to_front(draft, steps, stage.name)
        steps = str(draft.s.fission(steps, stage.name))
    draft.s.settled = find_steps(draft.s.kernel)
    once = seconds(draft, [draft.stage(s.name) for s in group])
    if once >= inside:
        raise ScheduleError("slower", why=f"{inside * 1e3:.3g} ms expected; {once * 1e3:.3g} ms for all steps at once")
    for stage in group:
        why = f"no step waits for it; {once * 1e3:.3g} ms expected, {inside * 1e3:.3g} ms step by step"
        draft.decide("fusion", stage.name, f"computed for all steps of `{steps}` at once", why)


def _move_to_front(draft: AnyDraft, loop: str, block: str) -> None:
    """The statement that holds ``block`` exchanged with those before it in ``loop``."""
    parts = [[b.name for b in blocks_inside(s)] for s in statements_in_turn(find_loop(draft.s.kernel, loop).body)]
    position = next(n for n, names in enumerate(parts) if block in names)
    for names in reversed(parts[:position]):
        draft.s.swap(names[0], block)
