"""Loops cut where one iteration is unlike the others.

``for j: D[i, j] = min(D[i, j], D[i, k] + D[k, j])`` cannot be vectors: iteration ``j = k`` writes what all others read.
Before it and behind it nothing does, so the loop is cut there in three.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.auto.draft import Draft
from weft.auto.polyhedral_follow import sum_text
from weft.ir.solve import Form, combine
from weft.poly.domain import touch_of
from weft.poly.leaves import leaves
from weft.schedules.find import find_loop, loops_around


def cut_apart(draft: Draft, loop: str, step: Callable[[str], object]) -> bool:
    """``loop`` cut around one iteration so that ``step`` can be done with both parts; whether there is such a cut."""
    return any(draft.attempt(_steps, draft, loop, at, step) is None for at in _cut_points(draft, loop))


def _steps(draft: Draft, loop: str, at: Form, step: Callable[[str], object]) -> None:
    s = draft.s
    middle = s.cut(loop, sum_text(at))
    last = s.cut(middle, sum_text(combine(at, {"": 1})))
    step(loop)
    step(str(last))


def _cut_points(draft: Draft, loop: str) -> list[Form]:
    """Values of ``loop`` at which an element is written that other iterations read too."""
    kernel = draft.s.kernel
    loop_node = find_loop(kernel, loop)
    around = {f.var.name for f in loops_around(kernel, loop_node)}
    points: list[Form] = []
    for leaf in leaves(kernel, loop_node):
        touches = [(a, touch_of(leaf, a).indices) for a in leaf.accesses]
        for write, written in touches:
            for read, elements in touches:
                if not write.writes or read.buffer.name != write.buffer.name or any(f.get(loop) for f in elements):
                    continue
                points += [p for w, r in zip(written, elements) if (p := _meeting(w, r, loop)) is not None]
    known = [p for p in points if {n for n in p if n} <= around]
    return [p for n, p in enumerate(known) if p not in known[:n]]


def _meeting(written: Form, read: Form, loop: str) -> Form | None:
    """The value of ``loop`` at which the two subscripts are equal."""
    if written.get(loop) != 1:
        return None
    return combine(read, {n: c for n, c in written.items() if n != loop}, -1)
