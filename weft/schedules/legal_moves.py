"""Where else a block could be computed: the legal alternatives that a refused move names, found by trying."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from weft.ir.errors import ScheduleError
from weft.ir.stmt import Kernel
from weft.ir.visit import loads, stores
from weft.poly.verdict import Verdict
from weft.schedules.compute_at import check_compute_at
from weft.schedules.compute_inline import check_compute_inline
from weft.schedules.find import blocks_inside, find_block, loops_around
from weft.schedules.infer_stage import Stage, infer_stage
from weft.schedules.reverse_compute_at import check_reverse_compute_at
from weft.schedules.trace import Numerics

#: More suggestions than this do not help.
_MOST = 4


def suggesting(check: Callable[..., Verdict]) -> Callable[..., Verdict]:
    """``check`` of a move of a block, whose refusals say which moves of that block are legal."""

    def checked(kernel: Kernel, block: str, *args: Any, numerics: Numerics) -> Verdict:
        verdict = check(kernel, block, *args, numerics=numerics)
        if verdict.ok or verdict.offers:
            return verdict
        return replace(verdict, offers=lambda: legal_moves(kernel, block, numerics))

    return checked


def legal_moves(kernel: Kernel, block: str, numerics: Numerics) -> tuple[str, ...]:
    """The calls that would move ``block``."""
    try:
        stage = infer_stage(kernel, block, outputs=True)
    except ScheduleError:
        return ()
    names = [] if isinstance(stage, Verdict) else _to_readers(kernel, block, stage, numerics)
    names += [
        f's.reverse_compute_at("{block}", "{name}")'
        for name in _producer_loops(kernel, block)
        if check_reverse_compute_at(kernel, block, name, numerics=numerics).ok
    ]
    return tuple(names[:_MOST])


def _to_readers(kernel: Kernel, block: str, stage: Stage, numerics: Numerics) -> list[str]:
    readers = stage.readers(kernel)
    common = [name for name in readers[0].loop_names if all(name in r.loop_names for r in readers)] if readers else []
    legal = [name for name in common if check_compute_at(kernel, block, name, numerics=numerics).ok]
    offers = [f's.compute_at("{block}", "{name}")' for name in legal]
    if check_compute_inline(kernel, block, numerics=numerics).ok:
        offers.append(f's.compute_inline("{block}")')
    return offers


def _producer_loops(kernel: Kernel, block: str) -> list[str]:
    """The loops in which something that ``block`` reads is computed."""
    own = find_block(kernel, block)
    read = {load.buffer.name for load in loads(own.body)}
    producers = [b for b in blocks_inside(kernel) if b is not own and any(s.buffer.name in read for s in stores(b))]
    return list(dict.fromkeys(loop.var.name for b in producers for loop in loops_around(kernel, b)))
