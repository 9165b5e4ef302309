"""Neighbouring axes of a product that all of the program walks together, as one: the pixels of an image, all images.

A convolution with a window of one pixel is then a product of matrices, whatever the layout; rows of a batch become rows
of one matrix, and tiles need not end where one axis does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from weft.auto.contraction_plan import is_contraction
from weft.auto.draft import AnyDraft, Draft
from weft.auto.stages import Stage, StageAccess
from weft.ir.errors import ScheduleError

#: The part of its time that a product must take at most with its axes merged, where the time model decides.
GAIN = 0.9
_Step = Callable[[str, str, int], object]


def merge_product_axes(draft: AnyDraft) -> None:
    """Rows, columns and the depth of every product, as long as they can be; a batch stays as it is.

    So does what others read in parts, side by side: the gates of a unit, which one thread then has.
    """
    _merge_all(draft, lambda _, buffer, d: draft.s.merge_axes(buffer, d), lambda s, _: not _is_read_in_parts(draft, s))


def _is_read_in_parts(draft: AnyDraft, stage: Stage) -> bool:
    """Whether someone reads what ``stage`` writes at a place that is a number, along one of its iterators."""
    axes = [d for d, row in enumerate(stage.write.rows or ()) if _own(row) is not None]
    read = [a for s in draft.stages.consumers(stage) for a in s.reads if a.buffer.name == stage.write.buffer.name]
    return any(not any((a.rows or ({},) * (d + 1))[d].values()) for a in read for d in axes)


def merge_odd_rows(draft: Draft, seconds: Callable[[Draft, list[Stage]], float]) -> None:
    """Rows of results that end with a part of a vector, where the time model, ``seconds``, says that it pays."""

    def is_odd(stage: Stage, name: str) -> bool:
        count, (*_, last) = stage.by_name[name].count, stage.write.rows or ({},)
        return _own(last) == name and count > 1 and count % draft.lanes(stage) > 0

    def step(name: str, buffer: str, d: int) -> None:
        before = seconds(draft, [draft.stage(name)])
        draft.s.merge_axes(buffer, d)
        after = seconds(draft, [draft.stage(name)])
        if after > GAIN * before:
            raise ScheduleError("slower", why=f"{after * 1e3:.3g} ms expected; {before * 1e3:.3g} ms as it is")

    _merge_all(draft, step, is_odd)


def _merge_all(draft: AnyDraft, step: _Step, is_worth_it: Callable[[Stage, str], bool]) -> None:
    """By ``step``, given a block, a buffer and its dimension; ``is_worth_it`` is asked about the inner axis before."""
    for name in [s.name for s in draft.stages]:
        while _merge(draft, draft.stage(name), step, is_worth_it):
            pass


def _merge(draft: AnyDraft, stage: Stage, step: _Step, is_worth_it: Callable[[Stage, str], bool]) -> bool:
    """Whether there were two axes to merge."""
    if stage.op != "+" or stage.is_inside or len(stage.distinct_reads) != 2 or not is_contraction(stage):
        return False
    refused: set[tuple[str, str]] = set()
    for access in (stage.write, *stage.distinct_reads):
        for d, (first, second) in enumerate(pairwise(map(_own, access.rows or ()))):
            if first is None or second is None or (first, second) in refused or not _is_pair(stage, first, second):
                continue
            refused.add((first, second))
            if not is_worth_it(stage, second):
                continue
            buffer = access.buffer.name
            if draft.attempt(step, stage.name, buffer, d) is None:
                what = f"`{first}` and `{second}` are one axis"
                draft.decide("tiling", stage.name, what, "they lie side by side in all that is read and written")
                return True
    return False


def _own(row: Mapping[str, int]) -> str | None:
    """The iterator that a subscript is."""
    used = [(name, n) for name, n in row.items() if n]
    return used[0][0] if len(used) == 1 and used[0][1] == 1 else None


def _is_pair(stage: Stage, first: str, second: str) -> bool:
    """Whether both are used by the same accesses, side by side, and not by all of them: that is a batch."""
    if not all(stage.by_name[i].loop is not None for i in (first, second)):
        return False
    every = (stage.write, *stage.distinct_reads)
    using = [a for a in every if a.uses(first) or a.uses(second)]
    return len(using) < len(every) and all(_neighbours(a, first, second) for a in using)


def _neighbours(access: StageAccess, first: str, second: str) -> bool:
    return (first, second) in pairwise(map(_own, access.rows or ()))
