"""Random arguments for steps that cut, wrap, swap, widen and trim loops."""

from __future__ import annotations

import itertools
from typing import Any

from draw_names import a_block, a_loop
from hypothesis import strategies as st

from weft.ir import dtype as dt
from weft.ir.nesting import statements
from weft.ir.stmt import If, Seq
from weft.ir.visit import free_vars
from weft.schedules.find import all_loops, blocks_inside, find_loop, loops_around
from weft.schedules.schedule import Schedule

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def a_value(draw: Any, s: Schedule, loop: str) -> int | str:
    """A value for a loop: a number, or a text over the loops around ``loop`` and sizes."""
    around = [f.var.name for f in loops_around(s.kernel, find_loop(s.kernel, loop))] if loop != "none" else []
    names = [*around, *(v.name for v in s.kernel.scalars if v.dtype == dt.index)]
    if not names or draw(st.booleans()):
        return int(draw(st.integers(-1, 9)))
    return str(draw(st.sampled_from(["{}", "{} + 1", "{} // 2", "3 - {}"]))).replace("{}", draw(st.sampled_from(names)))


def make_cut(draw: Any, s: Schedule) -> Arguments:
    loop = a_loop(draw, s)
    return (loop, a_value(draw, s, loop)), {}


def make_wrap(draw: Any, s: Schedule) -> Arguments:
    loop = a_loop(draw, s)
    return (a_block(draw, s) if draw(st.booleans()) else loop, a_value(draw, s, loop)), {}


def make_swap(draw: Any, s: Schedule) -> Arguments:
    """Mostly what follows one another in a sequence, by a block in it."""
    sequences = [n.body for n in statements(s.kernel.body) if isinstance(n, Seq)]
    pairs = [(blocks_inside(a), blocks_inside(b)) for parts in sequences for a, b in itertools.pairwise(parts)]
    named = [(a[0].name, b[0].name) for a, b in pairs if a and b]
    if named and draw(st.integers(0, 4)):
        return draw(st.sampled_from(named)), {}
    return (a_block(draw, s), a_block(draw, s)), {}


def make_widen(draw: Any, s: Schedule) -> Arguments:
    """Mostly a loop whose range depends on one around it."""
    loops = all_loops(s.kernel)
    names = {f.var.name for f in loops}
    found = [(f.var.name, n) for f in loops for n in {*free_vars(f.lo), *free_vars(f.hi)} & names]
    if found and draw(st.integers(0, 4)):
        return draw(st.sampled_from(sorted(found))), {}
    return (a_loop(draw, s), a_loop(draw, s)), {}


def make_trim(draw: Any, s: Schedule) -> Arguments:
    """Mostly a loop with a test directly in it."""
    tested = [f.var.name for f in all_loops(s.kernel) if isinstance(f.body, If)]
    return ((draw(st.sampled_from(tested)) if tested and draw(st.integers(0, 4)) else a_loop(draw, s)),), {}
