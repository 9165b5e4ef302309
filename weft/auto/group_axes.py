"""Groups of results that are made of different things, as an axis: convolutions in groups, heads side by side in a row.

``S[f] += X[f // 8 * 8 + c] * W[f, c]`` reads by groups of ``f``, which is no plain subscript. With ``f`` as two axes,
which group and which of it, all subscripts are plain, and schedules see a batch of small products.

So it is with ``Y[s, f] = O[f // 64, s, f % 64]``, which joins the heads of attention: by one axis for heads and one for
what is in each, it goes along with all that computes a head, and is computed with it.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial

from weft.auto.contraction_plan import is_contraction
from weft.auto.draft import Draft
from weft.auto.stages import Stage
from weft.ir.expr import Binary, Const
from weft.ir.stmt import Store
from weft.ir.visit import loads, walk


def split_groups(draft: Draft) -> None:
    """Of all sums of products, and of what puts results of such groups side by side."""
    for name in [s.name for s in draft.stages if s.op == "+" and len(s.distinct_reads) == 2]:
        _split_all(draft, name, _groups, "each is a sum of channels of its own")
    for name in [s.name for s in draft.stages if s.op == "="]:
        _split_all(draft, name, partial(_joined_groups, draft), "each is computed by itself before")


def _split_all(draft: Draft, name: str, groups: Callable[[Stage], list[tuple[int, int]]], why: str) -> None:
    """All ``groups`` of block ``name`` that may become axes, one after another: dimensions move on behind each."""
    while any(_split(draft, name, place, size, why) for place, size in groups(draft.stage(name))):
        pass


def _split(draft: Draft, name: str, place: int, size: int, why: str) -> bool:
    buffer = draft.stage(name).write.buffer.name
    if draft.attempt(draft.s.split_axis, buffer, place, size) is not None:
        return False
    draft.decide("tiling", name, f"groups of {size} along dimension {place} are an axis", why)
    return True


def _joined_groups(draft: Draft, stage: Stage) -> list[tuple[int, int]]:
    """Of those by which it reads something, the ones by which it reads what is made of sums before it."""
    made = {p.write.buffer.name for p in draft.stages.producers(stage) if _follows_sums(draft, p)}
    return _groups(stage, made) if made else []


def _follows_sums(draft: Draft, stage: Stage) -> bool:
    """Whether it is a sum of products, or a formula of such sums."""
    return any(is_contraction(s) for s in (stage, *draft.stages.producers(stage)))


def _groups(stage: Stage, of: Container[str] | None = None) -> list[tuple[int, int]]:
    """Dimensions of what is written that something, or one ``of`` some, is read by groups of, and their sizes."""
    written = stage.block.body
    if not isinstance(written, Store):
        return []
    found: dict[tuple[int, int], None] = {}
    for subscript in (e for x in loads(written.value) if of is None or x.buffer.name in of for e in x.indices):
        for e in walk(subscript):
            match e:
                case Binary(op="//", left=left, right=Const(value=size)) if left in written.indices and int(size) > 1:
                    found[written.indices.index(left), int(size)] = None
    return list(found)
