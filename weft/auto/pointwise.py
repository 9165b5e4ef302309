"""Nests without reuse to exploit: the iterator that runs along memory becomes lanes, the outermost runs in parallel."""

from __future__ import annotations

from weft.auto.draft import Draft
from weft.auto.stages import Stage, StageIter
from weft.ir.errors import ScheduleError

#: Vectors worked on at a time, so that one waits for memory while another computes.
VECTORS = 2


def schedule_pointwise(draft: Draft, name: str) -> None:
    """``name``'s nest with its memory-bound iterator in lanes and, if it pays, its outermost loop on threads."""
    stage = draft.stage(name)
    lanes = draft.lanes(stage)
    along = vector_iterator(stage)
    if along is not None and (along.extent is None or along.extent >= lanes):
        loop = stage.loop_of(along.name)
        if stage.loops[-1] != loop:
            draft.s.reorder(*(x for x in stage.loops if x != loop), loop)
        _parallel_chunks(draft, stage, along)
        factor = lanes * VECTORS if along.extent is None or along.extent >= lanes * VECTORS else lanes
        draft.s.vectorize(_inner(draft, name), factor)
        draft.decide("vector", name, f"`{along.name}` in vectors of {lanes}", "most accesses run along memory with it")
    parallel_outermost(draft, name)


def vector_iterator(stage: Stage) -> StageIter | None:
    """The spatial iterator along which most accesses are neighbours in memory, or one element for all."""

    def score(i: StageIter) -> tuple[int, int]:
        near = sum(a.stride(i.name) in (0, 1) for a in stage.reads)
        return (2 * (stage.write.stride(i.name) == 1) + near, i.extent or 0)

    candidates = [i for i in stage.spatial if i.loop is not None and stage.write.stride(i.name) not in (0, None)]
    return max(candidates, key=score, default=None)


def parallel_outermost(draft: Draft, name: str) -> None:
    """The first loop around ``name`` that may run in parallel does, if there is work enough."""
    stage = draft.stage(name)
    if not draft.pays_threads(stage):
        return
    for loop in stage.loops[:-1]:
        if draft.attempt(lambda loop=loop: _parallel(draft, loop)) is None:  # type: ignore[misc]
            draft.decide("parallel", name, f"`{loop}` on {draft.threads} threads", "the outermost loop that may be")
            return


def _parallel(draft: Draft, loop: str) -> None:
    draft.s.parallel(loop)


def _parallel_chunks(draft: Draft, stage: Stage, along: StageIter) -> None:
    """A nest of one loop in chunks, so that there is something to run in parallel."""
    if len(stage.loops) == 1 and draft.pays_threads(stage) and along.extent:
        chunk = -(-along.extent // (4 * draft.threads))
        lanes = draft.lanes(stage) * VECTORS
        draft.s.split(stage.loop_of(along.name), -(-chunk // lanes) * lanes)


def _inner(draft: Draft, name: str) -> str:
    loops = draft.stage(name).loops
    if not loops:
        raise ScheduleError(f"`{name}` has no loops")
    return loops[-1]
