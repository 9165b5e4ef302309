"""Random steps of a schedule: for each primitive, a maker of arguments that may or may not be legal.

A new primitive joins by a function in `MAKERS` that draws its arguments for a schedule as it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from weft.ir.errors import ScheduleError
from weft.schedules.rewrite import all_allocs, all_loops, blocks_inside
from weft.schedules.schedule import Schedule

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Maker = Callable[[Any, Schedule], Arguments]
FACTORS = st.sampled_from([1, 2, 2, 3, 4, 5, 8, 16])
TAILS = st.sampled_from(["guard", "guard", "separate", "pad"])


def loop_names(s: Schedule) -> list[str]:
    return [loop.var.name for loop in all_loops(s.kernel)] or ["none"]


def block_names(s: Schedule) -> list[str]:
    return [block.name for block in blocks_inside(s.kernel)] or ["none"]


def buffer_names(s: Schedule) -> list[str]:
    return [b.name for b in s.kernel.buffers] + [a.buffer.name for a in all_allocs(s.kernel)]


def a_loop(draw: Any, s: Schedule) -> str:
    return str(draw(st.sampled_from(loop_names(s))))


def a_block(draw: Any, s: Schedule) -> str:
    return str(draw(st.sampled_from(block_names(s))))


def a_buffer(draw: Any, s: Schedule) -> str:
    return str(draw(st.sampled_from(buffer_names(s))))


def a_nest(draw: Any, s: Schedule) -> list[str]:
    """The loops around a block, outermost first."""
    return [loop.name for loop in s.loops(a_block(draw, s))] if blocks_inside(s.kernel) else []


def make_split(draw: Any, s: Schedule) -> Arguments:
    return (a_loop(draw, s), draw(FACTORS)), {"tail": draw(TAILS)}


def make_tile(draw: Any, s: Schedule) -> Arguments:
    nest = a_nest(draw, s)
    start = draw(st.integers(0, max(0, len(nest) - 2)))
    i, j = [*nest, "none", "none"][start : start + 2]
    return (i, j, draw(FACTORS), draw(FACTORS)), {"tail": draw(TAILS)}


def make_reorder(draw: Any, s: Schedule) -> Arguments:
    nest = a_nest(draw, s)
    count = draw(st.integers(min(2, len(nest)), len(nest)))
    return tuple(draw(st.permutations(nest))[:count]) or ("none",), {}


def make_fuse(draw: Any, s: Schedule) -> Arguments:
    nest = a_nest(draw, s)
    start = draw(st.integers(0, max(0, len(nest) - 2)))
    return tuple(nest[start : start + draw(st.integers(2, 3))]), {}


def make_marked(draw: Any, s: Schedule) -> Arguments:
    lanes = draw(st.sampled_from([None, 2, 4, 8, 16]))
    if lanes is None:
        return (a_loop(draw, s),), {}
    return (a_loop(draw, s), lanes), {"tail": draw(TAILS)}


def make_fission(draw: Any, s: Schedule) -> Arguments:
    return (a_loop(draw, s), a_block(draw, s)), {}


def make_fuse_loops(draw: Any, s: Schedule) -> Arguments:
    """Often two loops that follow one another."""
    names = loop_names(s)
    first = draw(st.integers(0, len(names) - 1))
    return (names[first], names[draw(st.integers(0, len(names) - 1))]), {}


def make_specialize(draw: Any, s: Schedule) -> Arguments:
    scalars = [v.name for v in s.kernel.scalars] or ["N"]
    size = draw(st.sampled_from(scalars))
    test = draw(st.sampled_from(["{} % 4 == 0", "{} == 3", "{} >= 4 and {} < 100", "not {} == 1"]))
    return (a_loop(draw, s), test.replace("{}", size)), {}


SCOPES = st.sampled_from(["global", "global", "local", "register"])


def a_place(draw: Any, s: Schedule) -> str | None:
    return draw(st.sampled_from([None, *loop_names(s)]))  # type: ignore[no-any-return]


def make_cache(draw: Any, s: Schedule) -> Arguments:
    return (a_buffer(draw, s),), {"at": a_place(draw, s), "scope": draw(SCOPES)}


def make_pack(draw: Any, s: Schedule) -> Arguments:
    name = a_buffer(draw, s)
    found = [b for b in (*s.kernel.buffers, *(a.buffer for a in all_allocs(s.kernel))) if b.name == name]
    words = []
    for letter in "ijklmn"[: found[0].rank]:
        tile = draw(st.sampled_from([None, 2, 3, 4]))
        words += [letter] if tile is None else [f"{letter}/{tile}", f"{letter}%{tile}"]
    layout = " ".join(draw(st.permutations(words)))
    return (name, layout), {"at": a_place(draw, s), "pad": draw(st.booleans())}


MAKERS: dict[str, Maker] = {
    "split": make_split,
    "tile": make_tile,
    "reorder": make_reorder,
    "fuse": make_fuse,
    "unroll": make_marked,
    "vectorize": make_marked,
    "parallel": lambda draw, s: ((a_loop(draw, s),), {}),
    "serial": lambda draw, s: ((a_loop(draw, s),), {}),
    "peel": lambda draw, s: (
        (a_loop(draw, s), draw(st.integers(1, 3))),
        {"end": draw(st.sampled_from(["first", "last"]))},
    ),
    "shift": lambda draw, s: ((a_loop(draw, s), draw(st.integers(-3, 3))), {}),
    "skew": lambda draw, s: ((a_loop(draw, s), a_loop(draw, s), draw(st.integers(-2, 2))), {}),
    "fission": make_fission,
    "fuse_loops": make_fuse_loops,
    "specialize": make_specialize,
    "cache_read": make_cache,
    "cache_write": make_cache,
    "pad": lambda draw, s: ((a_block(draw, s),), {}),
    "double_buffer": lambda draw, s: ((a_buffer(draw, s),), {}),
    "prefetch": lambda draw, s: ((a_buffer(draw, s), a_loop(draw, s), draw(st.integers(1, 9))), {}),
    "pack": make_pack,
    "decompose_reduction": lambda draw, s: ((a_block(draw, s), a_loop(draw, s)), {}),
    "rfactor": lambda draw, s: (
        (a_loop(draw, s), draw(st.sampled_from([None, 2, 4]))),
        {"axis": draw(st.integers(0, 1))},
    ),
}


def random_steps(draw: Any, s: Schedule, most: int = 6) -> list[ScheduleError]:
    """Up to ``most`` steps tried on ``s``; the refusals among them."""
    refusals = []
    for _ in range(draw(st.integers(1, most))):
        name = draw(st.sampled_from(sorted(MAKERS)))
        args, kwargs = MAKERS[name](draw, s)
        before = s.kernel
        try:
            getattr(s, name)(*args, **kwargs)
        except ScheduleError as error:
            assert s.kernel is before, "a refused step left its mark"
            error.kernel = before  # type: ignore[attr-defined]
            refusals.append(error)
    return refusals
