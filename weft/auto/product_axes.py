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


def merge_product_axes(draft: AnyDraft, is_worth_it: Callable[[Stage, str], bool] = lambda *_: True) -> None:
    """Rows, columns and the depth of every product, as long as they can be; a batch stays as it is.

    ``is_worth_it`` is asked about the inner one of two axes.
    """
    for name in [s.name for s in draft.stages]:
        while _merge(draft, draft.stage(name), is_worth_it):
            pass


def merge_odd_rows(draft: Draft) -> None:
    """Only where rows of the result end with a part of a vector: whole ones are tiled as well by themselves."""

    def is_odd(stage: Stage, name: str) -> bool:
        count, rows = stage.by_name[name].count, stage.write.rows
        return bool(rows) and _own(rows[-1]) == name and count > 1 and count % draft.lanes(stage) > 0

    merge_product_axes(draft, is_odd)


def _merge(draft: AnyDraft, stage: Stage, is_worth_it: Callable[[Stage, str], bool]) -> bool:
    """Whether there were two axes to merge."""
    if stage.op != "+" or stage.is_inside or len(stage.distinct_reads) != 2 or not is_contraction(stage):
        return False
    for access in (stage.write, *stage.distinct_reads):
        for d, (first, second) in enumerate(pairwise(map(_own, access.rows or ()))):
            if first is None or second is None or not _is_pair(stage, first, second) or not is_worth_it(stage, second):
                continue
            buffer = access.buffer.name
            if draft.attempt(draft.s.merge_axes, buffer, d) is None:
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
