"""Loops that run to and fro (serpentine order): what was read last is still in a cache when it is read again first.

Where an iteration of a loop reads again what the one before read (the weights of a recurrence, the rows of a product
for the next panel), and that is a little larger than a cache, going round and round finds none of it there. To and fro,
as much is found as the cache holds. Pieces change their places and each is read forward, as processors foresee it.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.auto.draft import Draft
from weft.auto.estimate import estimate
from weft.auto.estimate_traffic import KEPT, TrafficModel
from weft.auto.estimate_vectors import choose_vectors
from weft.ir.errors import ScheduleError
from weft.schedules.footprint import Touch
from weft.schedules.nests import Leaf, Nest, read_nests

#: Bytes in one piece, within which a processor fetches ahead.
PIECE = 4096
#: Of what an iteration reads, the part that must be read again for any of it to matter.
WORTH_TURNING = 0.25
#: The share of the time that is to be saved.
GAIN = 0.02


def turn_loops(draft: Draft) -> None:
    """Lets loops run to and fro inside steps that read the same again, where the time model expects that to pay.

    Steps of recurrences alone: nothing else was seen to gain (ResNet-18 14.36 ms with loops of convolutions too, 14.28
    without; MobileNetV2 2.82 and 2.84), and looking at all loops of every program takes time.
    """
    if not draft.steps:
        return
    program = read_nests(draft.s.kernel, draft.s.sizes)
    outer = [n for n in program.root.nests() if n.name in draft.steps and n.kind == "serial" and n.trips > 1]
    traffic = TrafficModel(program, draft.model.line, choose_vectors(program.root, draft.model, draft.is_fast))
    for nest in outer:
        loops = list(dict.fromkeys(_to_turn(draft, traffic, nest)))
        if loops:
            _turn(draft, loops, nest.name)


def _to_turn(draft: Draft, traffic: TrafficModel, outer: Nest) -> Iterator[str]:
    """The loops inside ``outer`` that go through what its iterations all read, pieces of some size at a time."""
    need = traffic.needs.get(outer, 0.0)
    if not any(need > KEPT * level.usable for level in draft.model.levels[:-1]):
        return
    for leaf in outer.below():
        for touch in traffic.touches[leaf]:
            if touch.reads and _is_read_again(touch, leaf, outer, need):
                yield from _in_pieces(touch, leaf, outer)


def _is_read_again(touch: Touch, leaf: Leaf, outer: Nest, need: float) -> bool:
    at = leaf.nests.index(outer)
    moves = any(a.moves_with(outer.name) for a in touch.accesses)
    return not moves and touch.touched[at + 1] > WORTH_TURNING * need


def _in_pieces(touch: Touch, leaf: Leaf, outer: Nest) -> Iterator[str]:
    for depth in range(leaf.nests.index(outer) + 1, len(leaf.nests)):
        nest = leaf.nests[depth]
        moves = any(a.moves_with(nest.name) for a in touch.accesses)
        if moves and nest.kind == "serial" and nest.trips > 1 and touch.touched[depth + 1] >= PIECE:
            yield nest.name


def _turn(draft: Draft, loops: list[str], outer: str) -> None:
    """All of ``loops`` that may run to and fro in ``outer``, if that saves time; else none."""

    def steps() -> None:
        before = _seconds(draft)
        turned = [loop for loop in loops if draft.attempt(draft.s.alternate, loop, outer) is None]
        saved = 1 - _seconds(draft) / before if turned else 0.0
        if saved < GAIN:
            raise ScheduleError(f"running to and fro in `{outer}` saves no time")
        what = f"to and fro in `{outer}`: part of what that reads again is still in a cache"
        draft.decide("order", ", ".join(turned), what, f"{saved:.0%} less time expected")

    draft.attempt(steps)


def _seconds(draft: Draft) -> float:
    return estimate(draft.s.kernel, draft.model, draft.threads, fast=draft.is_fast, sizes=draft.s.sizes).seconds
