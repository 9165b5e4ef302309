"""Which loops run on threads: enough iterations for all, and about as many for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from math import ceil, prod

from weft.auto.draft import Draft
from weft.auto.stages import Stage
from weft.schedules.find import find_loop
from weft.schedules.loop_facts import trip_count
from weft.target.cpu.machine_model import MachineModel

#: Part of the time that may be lost to threads that wait for others before more loops are taken in.
IMBALANCE = 0.1
#: Iterations of a loop of which the number is not known.
MANY = 1 << 20
#: Bytes a second that a thread reads of what another wrote, or writes where another has read: each line is asked for
#: there first. 7e9 were measured on a Zen 4, at times a fourth of that.
EXCHANGE = 8e9


def parallel_prefix(
    draft: Draft, stage: Stage, loops: Sequence[str], counts: Mapping[str, int], full: Mapping[str, float] | None = None
) -> list[str]:
    """The first of ``loops`` that together run on threads as one; none where threads do not pay.

    As few as give every thread about the same work; of those that never do, those that come nearest. ``full`` says how
    many full iterations those of a loop are worth, where the last one is less.
    """
    worth = {**counts, **(full or {})}
    if not draft.pays_threads(stage):
        return []
    taken = list(takewhile(lambda loop: counts[loop] == 1, loops))
    best: list[str] = []
    lost = 1.0
    for n in range(len(taken) + 1, len(loops) + 1):
        found = idle_part(prod(worth[loop] for loop in loops[:n]), draft.threads)
        if found < lost - IMBALANCE / 2:
            best, lost = list(loops[len(taken) : n]), found
        if lost <= IMBALANCE:
            break
    return best if best and prod(counts[loop] for loop in best) > 1 else []


def parallel_outermost(draft: Draft, name: str, among: Sequence[str] | None = None) -> None:
    """The first loop around ``name`` that may run in parallel does, with those inside it that make the work even.

    All loops but the innermost come into question, or those ``among`` which to choose.
    """
    loops = list(draft.stage(name).loops[:-1]) if among is None else list(among)
    counts = {loop: trip_count(find_loop(draft.s.kernel, loop), {}) for loop in loops}
    loops = [loop for loop in loops if counts[loop] != 1]
    for first in range(len(loops)):
        for together in _evenest_first(draft, loops[first:], counts):
            if draft.attempt(_run_parallel, draft, name, together) is None:
                return


def _evenest_first(draft: Draft, loops: Sequence[str], counts: Mapping[str, int | None]) -> list[list[str]]:
    """Those of the first of ``loops`` that give threads even work, as few as do; then the first by itself."""
    done, taken = 1.0, []
    for loop in loops:
        taken.append(loop)
        done *= counts[loop] or MANY
        if idle_part(done, draft.threads) <= IMBALANCE:
            break
    return [taken, taken[:1]] if len(taken) > 1 else [taken]


def _run_parallel(draft: Draft, name: str, together: list[str]) -> None:
    loop = str(draft.s.fuse(*together)) if len(together) > 1 else together[0]
    draft.s.parallel(loop)
    draft.decide("parallel", name, f"`{loop}` on {draft.threads} threads", "the outermost loop that may be")


def idle_part(iterations: float, threads: int) -> float:
    """The part of the time that a thread waits, on average, when so many full iterations are dealt out."""
    return 1 - iterations / (max(1, ceil(iterations / threads)) * threads)


def exchange_seconds(model: MachineModel, threads: int, read: int, written: int) -> float:
    """What a thread waits for the caches of others where work is not shared out along the rows that each has.

    It reads all of ``read`` bytes, of which each thread wrote a part, and writes its part of ``written``, all of which
    others have read. What these caches do not hold is in one that all share.
    """
    if threads == 1:
        return 0.0
    held = threads * model.levels[1].usable
    return (min(read, held) * (threads - 1) + min(written, held)) / threads / EXCHANGE
