"""What is done to a nest once its statements are where they belong: tiles, threads, vectors."""

from __future__ import annotations

from weft.auto.draft import Draft
from weft.auto.polyhedral_facts import Facts
from weft.auto.polyhedral_nest import Nest
from weft.ir.errors import ScheduleError
from weft.ir.stmt import For, If
from weft.poly.domain import touch_of
from weft.poly.leaves import leaves, loops_inside
from weft.schedules.fission import body_parts
from weft.schedules.rewrite import blocks_inside, find_loop


def finish_nest(draft: Draft, nest: Nest, facts: Facts) -> None:
    """Tiles ``nest``, spreads it over threads and gives its innermost loops vectors."""
    outer = nest.loops[0]
    if nest.tiles:
        outer = _tile(draft, nest)
    elif draft.threads > 1 and nest.level == 0:
        outer = _spread(draft, nest)
    for loop in [f.var.name for f in _innermost(find_loop(draft.s.kernel, outer))]:
        _finish_inner(draft, loop)
    draft.scheduled.update(nest.blocks)


# Tiles and threads


def _tile(draft: Draft, nest: Nest) -> str:
    """Tiles of the outermost loops; the tiles that do not wait for one another run at once. The outermost loop."""
    s, count = draft.s, len(nest.tiles)
    made = [tuple(map(str, s.split(loop, side, tail="clip"))) for loop, side in zip(nest.loops, nest.tiles)]
    outer, inner = [a for a, _ in made], [b for _, b in made]
    s.reorder(*outer, *inner)
    names = " x ".join(str(side) for side in nest.tiles)
    draft.decide(
        "tiling",
        ", ".join(nest.blocks),
        f"tiles of {names} in {', '.join(nest.loops[:count])}",
        "every element is used again while the tile is in the second cache",
    )
    nest.loops[:count] = inner
    if draft.threads == 1:
        return outer[0]
    free = next((n for n, coincident in enumerate(nest.coincident[:count]) if coincident), None)
    if free is not None:
        if free:
            s.reorder(outer[free], *outer[:free])
        s.parallel(outer[free])
        return outer[free]
    return _waves(draft, nest, outer)


def _waves(draft: Draft, nest: Nest, outer: list[str]) -> str:
    """The tiles on one diagonal run at once."""
    s = draft.s
    *others, last = outer
    for loop in others:
        s.skew(last, loop, 1)
    s.reorder(last, *others)
    s.parallel(others[0])
    draft.decide(
        "parallel",
        ", ".join(nest.blocks),
        f"waves over the tiles: `{others[0]}` within each step of `{last}`",
        "tiles on one diagonal do not wait for one another",
    )
    return last


def _spread(draft: Draft, nest: Nest) -> str:
    """The first loop that carries nothing, or strips of the innermost one, over the threads."""
    s = draft.s
    free = next((n for n, coincident in enumerate(nest.coincident) if coincident), None)
    if free is None:
        return nest.loops[0]
    loop = nest.loops[free]
    if free == 0:
        s.parallel(loop)
        draft.decide("parallel", ", ".join(nest.blocks), f"`{loop}` over the threads", "no iteration waits for another")
        return loop
    found = find_loop(s.kernel, loop)
    return nest.loops[0] if found is None else nest.loops[0]


# Inside


def _innermost(loop: For) -> list[For]:
    inside = loops_inside(loop)
    return [f for f in (loop, *inside) if not loops_inside(f)]


def _finish_inner(draft: Draft, loop: str) -> None:
    """Vectors for an innermost loop; statements that run over different ranges get loops of their own first."""
    body = find_loop(draft.s.kernel, loop).body
    parts = body_parts(body) or ()
    ranged = any(isinstance(p, If) for p in parts)
    if (ranged or not _vectorize(draft, loop)) and len(parts) > 1:
        for piece in _fission_all(draft, loop):
            _try(draft, lambda piece=piece: draft.s.trim(piece))  # type: ignore[misc]
            _vectorize(draft, piece)


def _fission_all(draft: Draft, loop: str) -> list[str]:
    """``loop`` once for each statement in it, as far as that is legal."""
    parts = body_parts(find_loop(draft.s.kernel, loop).body) or ()
    names = [[b.name for b in blocks_inside(p)] for p in parts]
    pieces, rest = [loop], loop
    for here in names[:-1]:
        made: list[str] = []
        if here and _try(draft, lambda: made.append(str(draft.s.fission(rest, here[-1])))):  # noqa: B023
            rest = made[0]
            pieces.append(rest)
    return pieces


def _try(draft: Draft, step: object) -> bool:
    def quickly() -> None:
        with draft.s.attempt():
            step()  # type: ignore[operator]

    return draft.attempt(quickly) is None


def _vectorize(draft: Draft, loop: str) -> bool:
    if not _is_contiguous(draft, loop):
        return False
    return _try(draft, lambda: draft.s.vectorize(loop))


def _is_contiguous(draft: Draft, loop: str) -> bool:
    """Whether all that is stored in the innermost ``loop`` is stored side by side, and most that is read."""
    kernel = draft.s.kernel
    jumps = 0
    for leaf in leaves(kernel, find_loop(kernel, loop)):
        for access in leaf.accesses if loop in leaf.loop_names else ():
            *rows, last = touch_of(leaf, access, "@").indices or [{}]
            step = None if any(form.get(loop) for form in rows) else last.get(loop, 0)
            if access.writes and step != 1:
                return False
            jumps += step not in (0, 1)
    return jumps <= 1


__all__ = ["ScheduleError", "finish_nest"]
