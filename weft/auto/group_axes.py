"""Groups of results that are sums of different channels, as an axis: convolutions in groups.

``S[f] += X[f // 8 * 8 + c] * W[f, c]`` reads by groups of ``f``, which is no plain subscript. With ``f`` as two axes,
which group and which of it, all subscripts are plain, and schedules see a batch of small products.
"""

from __future__ import annotations

from weft.auto.draft import Draft
from weft.auto.stages import Stage
from weft.ir.expr import Binary, Const
from weft.ir.stmt import Store
from weft.ir.visit import loads, walk


def split_groups(draft: Draft) -> None:
    """Of all sums of products."""
    for name in [s.name for s in draft.stages if s.op == "+" and len(s.distinct_reads) == 2]:
        for place, size in _groups(draft.stage(name)):
            if draft.attempt(draft.s.split_axis, draft.stage(name).write.buffer.name, place, size) is None:
                what = f"groups of {size} along dimension {place} are an axis"
                draft.decide("tiling", name, what, "each is a sum of channels of its own")
                break


def _groups(stage: Stage) -> list[tuple[int, int]]:
    """Dimensions of what is written that something is read by groups of, and how large these are."""
    written = stage.block.body
    if not isinstance(written, Store):
        return []
    found: dict[tuple[int, int], None] = {}
    for subscript in (e for x in loads(written.value) for e in x.indices):
        for e in walk(subscript):
            match e:
                case Binary(op="//", left=left, right=Const(value=size)) if left in written.indices and int(size) > 1:
                    found[written.indices.index(left), int(size)] = None
    return list(found)
