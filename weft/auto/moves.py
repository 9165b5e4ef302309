"""Transposes and other moves: what is read along memory by one iterator is written along memory by another.

Squares of both iterators turn in registers: each side is touched a whole vector at a time.
"""

from __future__ import annotations

from weft.auto.draft import Draft
from weft.auto.parallel_loops import parallel_outermost
from weft.auto.pointwise import LONG, contiguous_run, stream_large_result
from weft.auto.stages import Stage, StageIter


def fits_moves(draft: Draft, stage: Stage) -> bool:
    lanes = draft.lanes(stage)
    pair = turned_iterators(stage)
    return pair is not None and all(i.extent is None or i.extent >= lanes for i in pair) and lanes > 1


def turned_iterators(stage: Stage) -> tuple[StageIter, StageIter] | None:
    """The iterator along which the result is written, and another along which most of what differs is read."""
    if stage.op != "=" or stage.reductions or stage.reads_target or not stage.write.is_affine:
        return None
    own = [i for i in stage.spatial if i.loop in stage.loops]
    written = next((i for i in own if stage.write.stride(i.name) == 1), None)
    if written is None:
        return None
    across = [a for a in stage.reads if a.is_affine and a.stride(written.name) not in (0, 1, None)]
    read = [i for i in own if i is not written and any(a.stride(i.name) == 1 for a in across)]
    if not across or not read:
        return None
    return written, max(read, key=lambda i: sum(a.stride(i.name) == 1 for a in across))


def schedule_moves(draft: Draft, name: str) -> None:
    stage = draft.stage(name)
    pair = turned_iterators(stage)
    assert pair is not None
    lanes = draft.lanes(stage)
    run, read = contiguous_run(stage, pair[0], LONG * lanes), stage.loop_of(pair[1].name)
    along = [stage.loop_of(i.name) for i in run]
    others = [x for x in stage.loops if x not in (read, *along)]
    if len(along) > 1:
        draft.s.reorder(*others, read, *along)
        along = [str(draft.s.fuse(*along))]
    _turn_squares(draft, name, pair, others, along[0], read)
    if draft.pays_threads(stage):
        parallel_outermost(draft, name)
    stream_large_result(draft, stage)


def turn_copy(draft: Draft, name: str) -> None:
    """Squares of block ``name``, a copy inside the loops of what reads it, turn in registers, if it is such a move."""
    stage = draft.stage(name)
    pair = turned_iterators(stage) if fits_moves(draft, stage) else None
    if pair is not None:
        along, read = (stage.loop_of(i.name) for i in pair)
        others = [x for x in stage.loops if x not in (read, along)]
        draft.attempt(_turn_squares, draft, name, pair, others, along, read)


def _turn_squares(
    draft: Draft, name: str, pair: tuple[StageIter, StageIter], others: list[str], along: str, read: str
) -> None:
    lanes = draft.lanes(draft.stage(name))
    read_outer, read_inner = draft.s.split(read, lanes)
    written_outer, written_inner = draft.s.split(along, lanes)
    # Squares along the rows of what is read: streams of stores stand more of a jump than streams of loads.
    draft.s.reorder(*others, written_outer, read_outer, read_inner, written_inner)
    draft.s.vectorize(written_inner)
    draft.s.unroll(read_inner)
    what = f"squares of {lanes} by {lanes} of `{pair[0].name}` and `{pair[1].name}` turn in registers"
    draft.decide("tiling", name, what, f"written along `{pair[0].name}`, read along `{pair[1].name}`")
