"""What is done to a nest once its statements are where they belong: tiles, threads, vectors."""

from __future__ import annotations

from weft.auto.draft import Draft
from weft.auto.polyhedral_cut import cut_apart
from weft.auto.polyhedral_interleave import interleave
from weft.auto.polyhedral_nest import Nest, is_work, is_work_inside
from weft.ir.expr import Const
from weft.ir.stmt import If
from weft.poly.domain import touch_of
from weft.poly.leaves import leaves, loops_inside
from weft.schedules.find import blocks_inside, find_loop, loops_around, ranges_at
from weft.schedules.fission import body_parts
from weft.schedules.loop_facts import trip_count

#: Strips for threads are multiples of this many iterations: whole vectors, whole lines of cache.
STRIP = 64


def finish_nest(draft: Draft, nest: Nest) -> None:
    """Tiles ``nest``, spreads it over threads and gives its innermost loops vectors."""
    s = draft.s
    before = {b.name for b in blocks_inside(s.kernel)} - set(nest.blocks)
    if nest.tiles:
        _tile(draft, nest)
    elif draft.threads > 1 and nest.loops:
        _spread(draft, nest)
    for loop in _innermost(draft, before | draft.scheduled):
        _finish_inner(draft, loop)
    draft.scheduled.update(b.name for b in blocks_inside(s.kernel) if b.name not in before)


def _innermost(draft: Draft, others: set[str]) -> list[str]:
    """The innermost loops around blocks that are not ``others``."""
    kernel = draft.s.kernel
    found = (loops_around(kernel, b.name)[-1:] for b in blocks_inside(kernel) if b.name not in others)
    inner = {loop.var.name: loop for loops in found for loop in loops}
    return [name for name, loop in inner.items() if not loops_inside(loop)]


# Tiles and threads


def _tile(draft: Draft, nest: Nest) -> None:
    """Tiles of the outermost loops; the tiles that do not wait for one another run at once."""
    s, count = draft.s, len(nest.tiles)
    made = [_split(draft, loop, side) for loop, side in zip(nest.loops, nest.tiles)]
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
        return
    free = next((n for n, coincident in enumerate(nest.coincident[:count]) if coincident), None)
    if free is not None:
        if free:
            s.reorder(outer[free], *outer[:free])
        s.parallel(outer[free])
    else:
        _waves(draft, nest, outer)


def _split(draft: Draft, loop: str, side: int) -> tuple[str, str]:
    """Tiles at the same places whatever the loops around do; of a loop that does not depend on them, from its start."""
    loop_node = find_loop(draft.s.kernel, loop)
    fixed = isinstance(loop_node.lo, Const) and isinstance(loop_node.hi, Const)
    outer, inner = draft.s.split(loop, side, tail="guard" if fixed else "clip")
    return str(outer), str(inner)


def _waves(draft: Draft, nest: Nest, outer: list[str]) -> None:
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


def _spread(draft: Draft, nest: Nest) -> None:
    """The first loop that carries nothing over the threads: its iterations, or strips of it if it is an inner one."""
    free = next((n for n, coincident in enumerate(nest.coincident) if coincident), None)
    if nest.level or not is_work(nest, draft):
        if nest.level and is_work_inside(nest, draft) and (free == 0 or free is None):
            _spread_inside(draft, nest, free)
        return
    if free is None:
        return
    loop, blocks = nest.loops[free], ", ".join(nest.blocks)
    if free == 0:
        draft.s.parallel(loop)
        draft.decide("parallel", blocks, f"`{loop}` over the threads", "no iteration waits for another")
    else:
        _strips(draft, nest, free)


def _spread_inside(draft: Draft, nest: Nest, free: int | None) -> None:
    """The same for a nest inside other loops, whose every run is work enough; perhaps all but one iteration of it."""
    loop, blocks = nest.loops[0], ", ".join(nest.blocks)
    if free == 0:
        draft.s.parallel(loop)
        draft.decide("parallel", blocks, f"`{loop}` over the threads", "no iteration waits for another")
    elif cut_apart(draft, loop, draft.s.parallel):
        draft.decide("parallel", blocks, f"`{loop}` but for one iteration over the threads", "others wait for that one")


def _strips(draft: Draft, nest: Nest, free: int) -> None:
    s, loop = draft.s, nest.loops[free]
    loop_node = find_loop(s.kernel, loop)
    length = trip_count(loop_node, ranges_at(s.kernel, loop_node))
    if length is None:
        return
    strip = -(-length // (draft.threads * STRIP)) * STRIP
    strips, inside = map(str, s.split(loop, strip, tail="guard" if length % strip == 0 else "clip"))
    s.reorder(strips, *nest.loops[:free])
    s.parallel(strips)
    nest.loops[free] = inside
    why = f"`{nest.loops[0]}` carries sums from one iteration to the next, `{loop}` does not"
    draft.decide("parallel", ", ".join(nest.blocks), f"strips of {strip} of `{loop}` over the threads", why)


# Inside


def _finish_inner(draft: Draft, loop: str) -> None:
    """Vectors for an innermost loop; statements that run over different ranges get loops of their own first."""
    body = find_loop(draft.s.kernel, loop).body
    parts = body_parts(body) or ()
    ranged = any(isinstance(p, If) for p in parts)
    if not ranged and _vectorize(draft, loop):
        return
    if len(parts) > 1:
        for piece in _fission_all(draft, loop):
            draft.attempt(draft.s.trim, piece)
            _vectorize(draft, piece)
    elif not _cut_for_vectors(draft, loop):
        interleave(draft, loop)


def _cut_for_vectors(draft: Draft, loop: str) -> bool:
    if not _is_contiguous(draft, loop) or not cut_apart(draft, loop, draft.s.vectorize):
        return False
    blocks = ", ".join(b.name for b in blocks_inside(find_loop(draft.s.kernel, loop)))
    draft.decide("vector", blocks, f"`{loop}` but for one iteration", "others read what that one writes")
    return True


def _fission_all(draft: Draft, loop: str) -> list[str]:
    """``loop`` once for each statement in it, as far as that is legal."""
    parts = body_parts(find_loop(draft.s.kernel, loop).body) or ()
    names = [[b.name for b in blocks_inside(p)] for p in parts]
    pieces, rest = [loop], loop
    for here in names[:-1]:
        if here and draft.attempt(draft.s.fission, rest, here[-1]) is None:
            rest = draft.s.trace.steps[-1].made[0]
            pieces.append(rest)
    return pieces


def _vectorize(draft: Draft, loop: str) -> bool:
    if not _is_contiguous(draft, loop):
        return False
    return draft.attempt(draft.s.vectorize, loop) is None


def _is_contiguous(draft: Draft, loop: str) -> bool:
    """Whether all that is stored in the innermost ``loop`` is stored side by side, and most that is read."""
    kernel = draft.s.kernel
    jumps = 0
    for leaf in leaves(kernel, find_loop(kernel, loop)):
        for access in leaf.accesses if loop in leaf.loop_names else ():
            step = touch_of(leaf, access).step(loop)
            if access.writes and step != 1:
                return False
            jumps += step not in (0, 1)
    return jumps <= 1
