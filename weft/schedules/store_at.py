"""``store_at``: a temporary lives longer than it takes to compute and use a part of it.

Its storage moves out to the body of an outer loop (or to the top), while it is still computed where it was. In
loops in between that run in order, a window that moves onward is slid: each element is computed once. Together
with `fold_storage` only the window itself is kept.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.stmt import Alloc, Kernel
from weft.poly.leaves import CONCURRENT
from weft.poly.verdict import Verdict, refuse
from weft.schedules.compute_at import check_place
from weft.schedules.infer_stage import Stage, stage_of
from weft.schedules.loop_facts import check_valid
from weft.schedules.place_stage import (
    Place,
    emit_stage,
    find_place,
    free_names,
    needed_spans,
    put_stage,
    without_stage,
)
from weft.schedules.rewrite import Rewrite, find_alloc, find_loop, loops_around, replace_stmt, sequence
from weft.schedules.sliding_window import slide
from weft.schedules.trace import Numerics


def check_store_at(kernel: Kernel, buffer: str, loop: str | None = None, *, numerics: Numerics) -> Verdict:
    """Storage moves outwards only, and not across loops whose iterations would then share it."""
    alloc = find_alloc(kernel, buffer)
    around = loops_around(kernel, alloc)
    names = [f.var.name for f in around]
    if loop is not None:
        find_loop(kernel, loop)
        if loop not in names:
            return refuse(
                f"`{buffer}` is not stored inside loop `{loop}`; its storage can move outwards",
                alternatives=tuple(f's.store_at("{buffer}", "{n}")' for n in names[:-1]),
            )
    crossed = around if loop is None else around[names.index(loop) + 1 :]
    for f in crossed:
        if f.kind in CONCURRENT:
            return refuse(f"the iterations of `{f.var.name}` run concurrently and would share `{buffer}`")
    if not crossed:
        return refuse(f"`{buffer}` is stored there already")
    return check_valid(store_at(kernel, buffer, loop).kernel)


def store_at(kernel: Kernel, buffer: str, loop: str | None = None) -> Rewrite:
    """The storage of ``buffer`` in the body of ``loop``, or around everything."""
    alloc = find_alloc(kernel, buffer)
    outer = 0 if loop is None else len(loops_around(kernel, find_loop(kernel, loop))) + 1
    stage = stage_of(kernel, alloc.buffer)
    slid = _slide(kernel, stage, outer) if isinstance(stage, Stage) else None
    if slid is None:
        slid = replace_stmt(kernel, alloc, alloc.body)
    return Rewrite(with_storage(slid, alloc, loop))


def _slide(kernel: Kernel, stage: Stage, outer: int) -> Kernel | None:
    """The program with the stage's window slid and its storage taken away, where that is legal."""
    around = loops_around(kernel, stage.roots[0])
    at = around[-1].var.name if around else None
    if not check_place(kernel, stage.members[0].block.name, at, numerics="strict").ok:
        return None
    place = find_place(without_stage(kernel, stage), stage.buffer, at)
    spans, along = slide(stage, needed_spans(place, stage.buffer), place, outer)
    if not along:
        return None
    return put_stage(stage, place, emit_stage(stage, spans, place, free_names(kernel, stage)), alloc=False)


def with_storage(kernel: Kernel, alloc: Alloc, loop: str | None) -> Kernel:
    """``alloc`` around all that touches its buffer in the body of ``loop``, or in the program."""
    place: Place = find_place(kernel, alloc.buffer, loop)
    before, after = place.children[: place.first], place.children[place.last + 1 :]
    inner = replace(alloc, body=sequence(place.readers))
    return replace_stmt(kernel, place.parent, sequence([*before, inner, *after]))
