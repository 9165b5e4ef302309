"""Sums of which a test lets every m-th step pass, over these alone: strided transposed convolutions, as ordinary ones.

``S[y] += (y - p + 1) % 2 == 0 ? X[(y - p + 1) // 2] * V[p] : 0``, as the gradient of an image under a window of stride
2, multiplies half of what it walks through. Results become groups of m (`split_axis`): the taps that reach them are the
same in all groups, and `stride_sum` leaves those. Where some of a group are reached by more taps than others, as by a
window of three with stride 2, each of a group becomes a sum of its own (`write_out`), with what is done with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.auto.draft import AnyDraft
from weft.auto.stages import Stage
from weft.ir.visit import free_vars
from weft.schedules.stride_sum import Passing, is_even, passing_steps


def stride_sums(draft: AnyDraft) -> None:
    """Every sum with such a test."""
    for name in [s.name for s in draft.stages if s.op == "+"]:
        if passing_steps(draft.stage(name).block) and draft.attempt(_in_groups, draft, name) is not None:
            draft.attempt(_stride, draft, [name], passing_steps(draft.stage(name).block))


def _in_groups(draft: AnyDraft, name: str) -> None:
    found = passing_steps(draft.stage(name).block)
    for passing in found:
        _split_results(draft, name, passing)
    every = [name]
    if not all(is_even(draft.s.kernel, name, passing.iterator) for passing in found):
        every = _apart(draft, name)
    _stride(draft, every, found)


def _stride(draft: AnyDraft, blocks: Sequence[str], found: Sequence[Passing]) -> None:
    for name in blocks:
        for passing in found:
            draft.s.stride_sum(name, passing.iterator)
    steps = " and ".join(f"every {passing.every}. step of `{passing.iterator}`" for passing in found)
    draft.decide("tiling", blocks[0], f"{steps} alone", "a test lets no other pass")


def _split_results(draft: AnyDraft, name: str, passing: Passing) -> None:
    """Axes of results that the test is about, in groups in which it is the same."""
    stage = draft.stage(name)
    for iterator in free_vars(passing.test):
        d = _dimension(stage, iterator)
        if d is not None and stage.by_name[iterator].count > passing.every:
            draft.s.split_axis(stage.write.buffer.name, d, passing.every)


def _dimension(stage: Stage, iterator: str) -> int | None:
    """The axis of results that ``iterator`` goes along, where it is one of these."""
    return stage.write.subscript_of(iterator) if iterator in {i.name for i in stage.spatial} else None


def _apart(draft: AnyDraft, name: str) -> list[str]:
    """Each of a group of results as a sum of its own, with what is done with it alone; all these blocks."""
    s, stage = draft.s, draft.stage(name)
    tested = {iterator for passing in passing_steps(stage.block) for iterator in free_vars(passing.test)}
    short = [i for i in stage.spatial if i.name in tested and _dimension(stage, i.name) is not None]
    reader = draft.only_reader(stage)
    groups = [stage.loop_of(i.name) for i in short]
    _outermost(draft, stage, groups)
    if reader is not None:
        pairs = {row: i for i in short if (row := _dimension(stage, i.name)) is not None}
        along = {d: n for a in reader.reads if a.buffer == stage.write.buffer for n in reader.by_name
                 if (d := a.subscript_of(n)) is not None}  # fmt: skip
        theirs = [reader.loop_of(along[d]) for d in pairs]
        _outermost(draft, reader, theirs)
        for ours, other in zip(groups, theirs):
            s.fuse_loops(ours, other)
        s.store_at(stage.write.buffer.name, groups[-1])
    every = [name]
    for loop in reversed(groups):
        made = map(str, s.write_out(loop))
        every = [m for m in made if passing_steps(draft.stage(m).block)]
    for each in every if reader is not None else ():  # storage of its own has one place for each group
        for i in short:
            s.fold_storage(draft.stage(each).write.buffer.name, _dimension(stage, i.name) or 0, 1)
    draft.decide(
        "tiling", name, f"{len(every)} sums of results that different steps reach", "each walks through its own"
    )
    return every


def _outermost(draft: AnyDraft, stage: Stage, loops: list[str]) -> None:
    draft.s.reorder(*loops, *(x for x in stage.loops if x not in loops))
