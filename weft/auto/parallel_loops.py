"""Which loops run on threads: enough iterations for all, and about as many for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from math import ceil, prod

from weft.auto.draft import Draft
from weft.auto.stages import Stage

#: Part of the time that may be lost to threads that wait for others before more loops are taken in.
IMBALANCE = 0.1


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


def idle_part(iterations: float, threads: int) -> float:
    """The part of the time that a thread waits, on average, when so many full iterations are dealt out."""
    return 1 - iterations / (max(1, ceil(iterations / threads)) * threads)
