"""Nests without reuse to exploit: iterators that run along memory become lanes, the outermost runs on threads.

Dimensions that lie one behind the other in all operands are walked through as one, so that short ones fill vectors
too: an image of 7 by 7 elements is a row of 49.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from weft.auto.draft import Draft
from weft.auto.parallel_loops import parallel_outermost
from weft.auto.stages import Stage, StageIter, buffer_bytes
from weft.ir.expr import Var
from weft.ir.stmt import Atomic, Store
from weft.ir.visit import loads, walk

#: Vectors worked on at a time, so that one waits for memory while another computes.
VECTORS = 2
#: Chunks per thread of a nest that is one loop.
CHUNKS = 4
#: Bytes of a cache line.
LINE = 64
#: Vectors' worth of iterations from which on a loop is long enough by itself: what is left over hardly counts.
LONG = 16
#: What goes by, in sizes of the last cache, from which on results go past it; below, the part that stays is worth more.
STREAMED = 1.5


def schedule_pointwise(draft: Draft, name: str) -> None:
    """``name``'s nest with what runs along memory in lanes and, if it pays, its outermost loop on threads."""
    stage = draft.stage(name)
    in_parallel = draft.pays_threads(stage)
    along = None if stage.reductions else vector_iterator(stage)
    if along is not None:
        _vectorize(draft, stage, along, in_parallel)
    if in_parallel:
        parallel_outermost(draft, name)
    if along is not None:
        stream_large_result(draft, stage)


def _vectorize(draft: Draft, stage: Stage, along: StageIter, in_parallel: bool) -> None:
    lanes = draft.lanes(stage)
    run = contiguous_run(stage, along, LONG * lanes)
    count = prod(i.count for i in run)
    if count < lanes:
        return
    loops = [i.loop for i in run if i.loop is not None]
    order = [x for x in stage.loops if x not in loops] + loops
    if order != list(stage.loops):
        draft.s.reorder(*order)
    loop = str(draft.s.fuse(*loops)) if len(loops) > 1 else loops[0]
    factor = lanes * _vectors_at_a_time(count, lanes)
    if in_parallel and len(order) == len(loops):
        chunk = -(-count // (CHUNKS * draft.threads))
        loop = str(draft.s.split(loop, -(-chunk // factor) * factor)[1])
    draft.s.vectorize(loop, factor)
    names = " and ".join(f"`{i.name}`" for i in run)
    why = f"{count} elements along memory" if len(run) == 1 else f"together {count} elements along memory"
    draft.decide("vector", stage.name, f"{names} in {factor // lanes} vectors of {lanes} at a time", why)


def _vectors_at_a_time(count: int, lanes: int) -> int:
    """`VECTORS`, but one where a short loop then comes out even and otherwise would not."""
    uneven = count % (lanes * VECTORS) != 0
    return 1 if uneven and (count < lanes * VECTORS or (count % lanes == 0 and count < LONG * lanes)) else VECTORS


def vector_iterator(stage: Stage) -> StageIter | None:
    """The spatial iterator along which most accesses are neighbours in memory, or one element for all."""

    def score(i: StageIter) -> tuple[int, int]:
        near = sum(a.stride(i.name) in (0, 1) for a in stage.reads)
        return (2 * (stage.write.stride(i.name) == 1) + near, i.extent or 0)

    candidates = [i for i in stage.spatial if i.loop is not None and stage.write.stride(i.name) not in (0, None)]
    return max(candidates, key=score, default=None)


def contiguous_run(
    stage: Stage, along: StageIter, enough: int, among: Sequence[StageIter] | None = None
) -> list[StageIter]:
    """``along``, and in front of it iterators that continue it in memory in all accesses, up to ``enough`` elements.

    Those are iterators of the result, unless it is said ``among`` which to choose.
    """
    run, among = [along], stage.spatial if among is None else among
    used_as_values = _used_as_values(stage)
    while True:
        count = prod(i.count for i in run)
        if count >= enough or any(i.extent is None or i.name in used_as_values for i in run):
            return run
        left = [i for i in among if i not in run and i.loop is not None and i.extent is not None]
        next_one = (i for i in left if i.name not in used_as_values and _continues(stage, i, along, count))
        found = next(next_one, None)
        if found is None:
            return run
        run.insert(0, found)


def _continues(stage: Stage, i: StageIter, along: StageIter, count: int) -> bool:
    """Whether a step of ``i`` is, in all accesses, as far as ``count`` steps of ``along``."""
    for a in stage.accesses:
        step, unit = a.stride(i.name), a.stride(along.name)
        if step is None or unit is None or step != unit * count:
            return False
    return True


def _used_as_values(stage: Stage) -> set[str]:
    """Iterators of which the block uses more than the elements they subscript: they are best left alone."""
    body = stage.block.body
    accesses = [*loads(body), *(n for n in walk(body) if isinstance(n, (Store, Atomic)))]
    in_subscripts = sum(isinstance(n, Var) for a in accesses for e in a.indices for n in walk(e))
    names = {i.name for i in stage.iters}
    everywhere = [n.name for n in walk(body) if isinstance(n, Var) and n.name in names]
    return set() if len(everywhere) <= in_subscripts else set(everywhere)


def stream_large_result(draft: Draft, stage: Stage) -> None:
    """A result so large that, with what it is made from, little of it would stay in the last cache goes past it."""
    stages = draft.stages
    if not stages.is_output(stage) or stages.consumers(stage) or stage.op != "=":
        return
    size = sum(buffer_bytes(b) for b in {access.buffer for access in stage.accesses})
    if size > STREAMED * draft.cache("L3") and _writes_whole_lines(draft, stage):
        draft.s.stream(stage.write.buffer.name)
        why = f"{size >> 20} MiB go by, of a last cache of {draft.cache('L3') >> 20} MiB"
        draft.decide("storage", stage.name, "stored past the caches", why)


def _writes_whole_lines(draft: Draft, stage: Stage) -> bool:
    """Whether rows end where cache lines do: a line of which only a part goes past the caches costs more."""
    along = vector_iterator(stage)
    if along is None:
        return False
    run = contiguous_run(stage, along, LONG * draft.lanes(stage))
    count = prod(i.count for i in run)
    is_whole = len(run) == len(stage.loops) and not stage.outer
    return is_whole or count * stage.write.buffer.dtype.itemsize % LINE == 0
