"""Triangles as rectangles with a test, for strategies that tile: the test matters in the tiles on the edge alone."""

from __future__ import annotations

from weft.auto.draft import Draft
from weft.ir.visit import free_vars
from weft.schedules.find import find_loop


def straighten(draft: Draft, name: str) -> None:
    """No loop of the nest of block ``name`` has a range that depends on another loop of the nest."""
    own = draft.stage(name).loops
    for n, inner in enumerate(own):
        for outer in reversed(own[:n]):
            loop = find_loop(draft.s.kernel, inner)
            if outer in {*free_vars(loop.lo), *free_vars(loop.hi)}:
                draft.s.widen(inner, outer)
                draft.decide("tiling", name, f"`{inner}` does not stop early", f"its range depends on `{outer}`")
