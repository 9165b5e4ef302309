"""Random steps of a schedule: for each primitive, a maker of arguments that may or may not be legal.

A new primitive joins by a function in `MAKERS` that draws its arguments for a schedule as it stands.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

from draw_names import a_block, a_buffer, a_loop, a_nest, block_names, loop_names
from hypothesis import strategies as st
from random_loop_steps import make_cut, make_swap, make_trim, make_widen, make_wrap
from random_recipes import RECIPES, Step

from weft.ir.errors import ScheduleError
from weft.ir.expr import Select
from weft.ir.hardware import HARDWARE
from weft.ir.nesting import statements
from weft.ir.stmt import For, Seq
from weft.ir.visit import loads, walk
from weft.schedules.find import all_allocs, all_loops, blocks_inside
from weft.schedules.fission import body_parts
from weft.schedules.precompute import parts_of, used_iters
from weft.schedules.schedule import Schedule
from weft.schedules.tensorize import _fits

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Maker = Callable[[Any, Schedule], Arguments]
FACTORS = st.sampled_from([1, 2, 2, 3, 4, 5, 8, 16])
TAILS = st.sampled_from(["guard", "guard", "separate", "pad", "clip"])


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


def a_body_to_break(s: Schedule) -> list[tuple[str, str]]:
    """Loops over several statements, each with a block in one that is not the last."""
    found = []
    for loop in all_loops(s.kernel):
        parts = body_parts(loop.body) or ()
        found += [(loop.var.name, b.name) for part in parts[:-1] for b in blocks_inside(part)[-1:]]
    return found


def make_fission(draw: Any, s: Schedule) -> Arguments:
    found = a_body_to_break(s)
    if found and draw(st.integers(0, 4)):
        return draw(st.sampled_from(found)), {}
    return (a_loop(draw, s), a_block(draw, s)), {}


def neighbours(s: Schedule) -> list[tuple[str, str]]:
    """Loops that follow one another."""
    sequences = [n.body for n in statements(s.kernel.body) if isinstance(n, Seq)]
    pairs = [(a, b) for parts in sequences for a, b in itertools.pairwise(parts) if isinstance(a, For)]
    return [(a.var.name, b.var.name) for a, b in pairs if isinstance(b, For)]


def make_fuse_loops(draw: Any, s: Schedule) -> Arguments:
    found = neighbours(s)
    by = {"by": "value"} if not draw(st.integers(0, 3)) else {}
    if found and draw(st.integers(0, 4)):
        return draw(st.sampled_from(found)), by
    return (a_loop(draw, s), a_loop(draw, s)), by


def make_skew(draw: Any, s: Schedule) -> Arguments:
    """Mostly a loop and one around it."""
    nest = a_nest(draw, s)
    if len(nest) > 1 and draw(st.integers(0, 4)):
        inner = draw(st.integers(1, len(nest) - 1))
        return (nest[inner], nest[draw(st.integers(0, inner - 1))], draw(st.integers(-2, 2))), {}
    return (a_loop(draw, s), a_loop(draw, s), draw(st.integers(-2, 2))), {}


def make_alternate(draw: Any, s: Schedule) -> Arguments:
    """Mostly a loop and one around it."""
    (inner, outer, _), _ = make_skew(draw, s)
    return (inner, outer), {}


def make_prefetch(draw: Any, s: Schedule) -> Arguments:
    """Mostly what a block reads, in a loop around it."""
    blocks = [b for b in blocks_inside(s.kernel) if b.reads and s.loops(b.name)]
    ahead = draw(st.integers(1, 9))
    if not blocks or not draw(st.integers(0, 4)):
        return (a_buffer(draw, s), a_loop(draw, s), ahead), {}
    block = draw(st.sampled_from(blocks))
    place = draw(st.sampled_from([loop.name for loop in s.loops(block.name)]))
    return (draw(st.sampled_from([r.buffer.name for r in block.reads])), place, ahead), {}


def make_specialize(draw: Any, s: Schedule) -> Arguments:
    scalars = [v.name for v in s.kernel.scalars] or list(s.sizes) or ["N"]
    size = draw(st.sampled_from(scalars))
    test = draw(st.sampled_from(["{} % 4 == 0", "{} == 3", "{} >= 4 and {} < 100", "not {} == 1"]))
    return (a_loop(draw, s), test.replace("{}", size)), {}


SCOPES = st.sampled_from(["global", "global", "local", "register"])


def a_place(draw: Any, s: Schedule) -> str | None:
    return draw(st.sampled_from([None, *loop_names(s)]))  # type: ignore[no-any-return]


def make_cache(draw: Any, s: Schedule) -> Arguments:
    return (a_buffer(draw, s),), {"at": a_place(draw, s), "scope": draw(SCOPES)}


def make_cache_read(draw: Any, s: Schedule) -> Arguments:
    args, kwargs = make_cache(draw, s)
    readers = draw(st.lists(st.sampled_from(block_names(s)), max_size=2)) if not draw(st.integers(0, 3)) else None
    return args, {**kwargs, "readers": readers}


def make_pack(draw: Any, s: Schedule) -> Arguments:
    name = a_buffer(draw, s)
    found = [b for b in (*s.kernel.buffers, *(a.buffer for a in all_allocs(s.kernel))) if b.name == name]
    words = []
    for letter in "ijklmn"[: found[0].rank]:
        tile = draw(st.sampled_from([None, 2, 3, 4]))
        words += [letter] if tile is None else [f"{letter}/{tile}", f"{letter}%{tile}"]
    layout = " ".join(draw(st.permutations(words)))
    return (name, layout), {"at": a_place(draw, s), "pad": draw(st.booleans())}


def make_surround(draw: Any, s: Schedule) -> Arguments:
    """Mostly a buffer of which some read is one of two values."""
    choices = [e for b in blocks_inside(s.kernel) for e in walk(b.body) if isinstance(e, Select)]
    names = sorted({load.buffer.name for e in choices for load in loads(e.then)})
    found = draw(st.sampled_from(names)) if names and draw(st.integers(0, 4)) else a_buffer(draw, s)
    return (found,), {"at": a_place(draw, s) if not draw(st.integers(0, 2)) else None}


def a_producer(draw: Any, s: Schedule) -> str:
    """Mostly a block that writes a temporary, sometimes any."""
    temporaries = {a.buffer.name for a in all_allocs(s.kernel)}
    found = [b.name for b in blocks_inside(s.kernel) if any(w.buffer.name in temporaries for w in b.writes)]
    return str(draw(st.sampled_from(found))) if found and draw(st.integers(0, 5)) else a_block(draw, s)


def a_stage(draw: Any, s: Schedule) -> tuple[str, str]:
    """A block and a loop, often one around a block that reads what the first writes."""
    block = a_producer(draw, s)
    written = {r.buffer.name for b in blocks_inside(s.kernel) if b.name == block for r in b.writes}
    readers = [b.name for b in blocks_inside(s.kernel) if any(r.buffer.name in written for r in b.reads)]
    around = [loop.name for reader in readers if reader != block for loop in s.loops(reader)]
    return block, draw(st.sampled_from(around)) if around and draw(st.integers(0, 4)) else a_loop(draw, s)


def make_reverse_compute_at(draw: Any, s: Schedule) -> Arguments:
    """Often a block and a loop around one that writes what it reads."""
    written = {w.buffer.name for b in blocks_inside(s.kernel) for w in b.writes}
    consumers = [
        b.name
        for b in blocks_inside(s.kernel)
        if {r.buffer.name for r in b.reads} & (written - {b.writes[0].buffer.name})
    ]
    block = draw(st.sampled_from(consumers)) if consumers and draw(st.integers(0, 5)) else a_block(draw, s)
    read = {r.buffer.name for b in blocks_inside(s.kernel) if b.name == block for r in b.reads}
    writers = [b.name for b in blocks_inside(s.kernel) if any(r.buffer.name in read for r in b.writes)]
    around = [loop.name for writer in writers if writer != block for loop in s.loops(writer)]
    return (block, draw(st.sampled_from(around)) if around and draw(st.integers(0, 4)) else a_loop(draw, s)), {}


def a_temporary(draw: Any, s: Schedule) -> str:
    """Mostly an allocated buffer, sometimes any."""
    temporaries = [a.buffer.name for a in all_allocs(s.kernel)]
    return str(draw(st.sampled_from(temporaries))) if temporaries and draw(st.integers(0, 9)) else a_buffer(draw, s)


def make_store_at(draw: Any, s: Schedule) -> Arguments:
    place = a_place(draw, s)
    return ((a_temporary(draw, s),) if place is None else (a_temporary(draw, s), place)), {}


def make_tensorize(draw: Any, s: Schedule) -> Arguments:
    """Often an intrinsic that fits a loop, where there is one."""
    fitting = [(f.var.name, h.name) for f in all_loops(s.kernel) for h in HARDWARE.values() if _fits(s.kernel, f, h)]
    if fitting and draw(st.integers(0, 4)):
        return draw(st.sampled_from(fitting)), {}
    return (a_loop(draw, s), draw(st.sampled_from(sorted(HARDWARE)))), {}


def make_cache_write(draw: Any, s: Schedule) -> Arguments:
    """Often what a block writes, kept in a loop around the block."""
    block = a_block(draw, s)
    written = [r.buffer.name for b in blocks_inside(s.kernel) if b.name == block for r in b.writes]
    if not written or not draw(st.integers(0, 3)):
        return make_cache(draw, s)
    place = draw(st.sampled_from([None, *(loop.name for loop in s.loops(block))]))
    return (written[0],), {"at": place, "scope": draw(SCOPES)}


def make_decompose_reduction(draw: Any, s: Schedule) -> Arguments:
    """Mostly a block that initializes and a loop around it."""
    blocks = [b.name for b in blocks_inside(s.kernel) if b.init is not None] or block_names(s)
    block = draw(st.sampled_from(blocks))
    around = [loop.name for loop in s.loops(block)] if blocks_inside(s.kernel) else []
    return (block, draw(st.sampled_from(around)) if around and draw(st.integers(0, 4)) else a_loop(draw, s)), {}


def make_precompute(draw: Any, s: Schedule) -> Arguments:
    """Mostly iterators that a part of the block's formula uses."""
    blocks = blocks_inside(s.kernel)
    if not blocks:
        return (a_block(draw, s),), {}
    block = draw(st.sampled_from(blocks))
    used = [used_iters(e, block) for inner in statements(block.body) for e in parts_of(inner)]
    if used and draw(st.integers(0, 4)):
        return (block.name, *sorted(draw(st.sampled_from(used)))), {}
    names = [i.var.name for i in block.iters]
    return (block.name, *(draw(st.lists(st.sampled_from(names), unique=True)) if names else [])), {}


ALL_SCOPES = st.sampled_from(["global", "shared", "local", "register", "constant"])
MAKERS: dict[str, Maker] = {
    "compute_at": lambda draw, s: (a_stage(draw, s), {}),
    "compute_root": lambda draw, s: ((a_producer(draw, s),), {}),
    "compute_inline": lambda draw, s: ((a_producer(draw, s),), {}),
    "precompute": make_precompute,
    "reverse_compute_at": make_reverse_compute_at,
    "store_at": make_store_at,
    "fold_storage": lambda draw, s: (
        (a_temporary(draw, s), draw(st.sampled_from([0, 0, 1, 2])), draw(st.integers(0, 6))),
        {},
    ),
    "expand_storage": lambda draw, s: ((a_temporary(draw, s),), {}),
    "set_scope": lambda draw, s: ((a_temporary(draw, s), draw(ALL_SCOPES)), {}),
    "bind": lambda draw, s: ((a_loop(draw, s), draw(st.sampled_from(["block", "thread"]))), {}),
    "tensorize": make_tensorize,
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
    "skew": make_skew,
    "alternate": make_alternate,
    "cut": make_cut,
    "wrap": make_wrap,
    "swap": make_swap,
    "widen": make_widen,
    "trim": make_trim,
    "surround": make_surround,
    "surround_storage": lambda draw, s: ((a_temporary(draw, s),), {}),
    "stream": lambda draw, s: ((a_buffer(draw, s),), {}),
    "fission": make_fission,
    "fuse_loops": make_fuse_loops,
    "specialize": make_specialize,
    "cache_read": make_cache_read,
    "cache_write": make_cache_write,
    "pad": lambda draw, s: ((a_producer(draw, s),), {}),
    "double_buffer": lambda draw, s: ((a_temporary(draw, s),), {}),
    "pipeline": lambda draw, s: ((a_temporary(draw, s),), {"stages": draw(st.integers(2, 4))}),
    "pad_rows": lambda draw, s: ((a_temporary(draw, s), draw(st.integers(1, 3))), {}),
    "prefetch": make_prefetch,
    "pack": make_pack,
    "decompose_reduction": make_decompose_reduction,
    "rfactor": lambda draw, s: (
        (a_loop(draw, s), draw(st.sampled_from([None, 2, 4]))),
        {"axis": draw(st.integers(0, 1))},
    ),
}


#: Stages move often: their steps are what later ones have to live with.
OFTEN = ("compute_at", "reverse_compute_at", "compute_inline", "store_at", "fold_storage", "split", "reorder")
NAMES = (*sorted(MAKERS), *OFTEN)


#: What comes one after another in schedules by hand.
SEQUENCES = (
    ("compute_at", "store_at", "fold_storage"),
    ("split", "compute_at", "store_at", "fold_storage"),
    ("tile", "compute_at", "reverse_compute_at"),
    ("tile", "reorder", "cache_write", "pack", "pack", "pad", "vectorize"),
    ("cache_read", "set_scope", "double_buffer"),
    ("rfactor", "reverse_compute_at", "vectorize"),
    ("compute_inline", "split", "cache_write", "unroll"),
)


def random_steps(draw: Any, s: Schedule, most: int = 8) -> list[ScheduleError]:
    """Up to ``most`` steps tried on ``s``, besides those of a recipe; the refusals among them."""
    refusals: list[ScheduleError] = []
    # Few primitives at a time meet one another more often than all of them would.
    palette = draw(st.sampled_from([NAMES, draw(st.lists(st.sampled_from(NAMES), min_size=3, max_size=6))]))
    names = [draw(st.sampled_from(palette)) for _ in range(draw(st.integers(0, most)))]
    before = draw(st.integers(0, len(names)))
    for name in names[:before]:
        attempt(s, (name, *MAKERS[name](draw, s)), refusals)
    if draw(st.integers(0, 3)):
        for step in draw(st.sampled_from(RECIPES))(draw, s):
            attempt(s, step, refusals)
    else:
        names[before:before] = draw(st.sampled_from(SEQUENCES))
    for name in names[before:]:
        attempt(s, (name, *MAKERS[name](draw, s)), refusals)
    return refusals


def attempt(s: Schedule, step: Step, refusals: list[ScheduleError]) -> None:
    """One step; a refusal leaves no mark, and what it offers instead is legal."""
    name, args, kwargs = step
    before, twin = s.kernel, s.copy()
    try:
        getattr(s, name)(*args, **kwargs)
    except ScheduleError as error:
        assert s.kernel is before, "a refused step left its mark"
        error.kernel, error.step, error.arguments = before, name, (args, kwargs)  # type: ignore[attr-defined]
        assert_legal(twin, error)
        refusals.append(error)


def assert_legal(s: Schedule, error: ScheduleError) -> None:
    """The steps on ``s`` that a refusal offers instead are accepted."""
    for label, text in error.notes:
        if label != "legal":
            continue
        for name, arguments, freer in re.findall(r"\bs\.(\w+)\(([^()]*)\)( first with)?", text):
            if "..." in arguments or freer:
                continue
            try:
                s.copy().apply(f"{name}({arguments})")
            except ScheduleError as refused:
                raise AssertionError(f"offered, but refused: {name}({arguments})\n{error}\n{refused}") from refused
