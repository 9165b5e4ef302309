"""Steps that belong together: what a primitive needs before it is legal.

A recipe is a generator: it yields a step and, once that was tried, looks at the schedule again for the next one. The
schedule is that of ``at.s``, which changes with each step that is accepted.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import random_recipes  # noqa: F401  declares small intrinsics that machines run as loops
from primitive_arguments import Names, arguments_for

from weft.ir.hardware import HARDWARE  # noqa: F401
from weft.schedules.find import all_allocs, blocks_inside
from weft.schedules.schedule import Schedule

Step = tuple[str, tuple[Any, ...], dict[str, Any]]


class Here:
    """The schedule that a recipe is at, and what it draws from."""

    def __init__(self, rng: random.Random, s: Schedule) -> None:
        self.rng, self.s = rng, s

    @property
    def names(self) -> Names:
        return Names(self.s)

    def loops(self, block: str) -> list[str]:
        return [str(loop) for loop in self.s.loops(block)] if block in self.names.blocks else []

    def has(self, part: float) -> bool:
        return self.rng.random() < part

    def any_of(self, name: str, count: int = 1) -> Iterator[Step]:
        """Up to ``count`` steps of a primitive with arguments drawn from all."""
        for _ in range(count):
            options = arguments_for(self.s, name)
            if options:
                yield (name, *self.rng.choice(options))


Recipe = Callable[[Here], Iterator[Step]]


def two_copies(at: Here) -> Iterator[Step]:
    """A statement that stands twice: its first or last iterations apart, or those of some sizes."""
    for name in at.rng.sample(("peel", "cut", "split", "specialize", "unroll"), at.rng.choice((1, 1, 2))):
        options = [o for o in arguments_for(at.s, name) if o[1].get("tail", "separate") == "separate"]
        if options:
            yield (name, *at.rng.choice(options))


def anything(at: Here) -> Iterator[Step]:
    for name in at.rng.choices(("split", "reorder", "fuse", "compute_at", "fuse_loops", "cache_read", "widen"), k=3):
        yield from at.any_of(name)


def shared_bodies(at: Here) -> Iterator[Step]:
    """Loops over several statements."""
    for _ in range(6):
        yield from at.any_of("fuse_loops")
    yield from at.any_of("expand_storage", 2)


def inlined(at: Here) -> Iterator[Step]:
    for block in at.names.blocks:
        if at.has(0.6):
            yield "compute_inline", (block,), {}
    for block in at.names.blocks:
        if at.has(0.3):
            yield "clear_masks", (block,), {}


def reductions(at: Here) -> list[str]:
    return [b for b in at.names.blocks if len(at.loops(b)) > 1 and not b.endswith("_init")]


def tiles(at: Here) -> Iterator[Step]:
    """Rows and steps of reductions in tiles, the nests in one: what `online` and `skip_masked` are for."""
    yield from inlined(at)
    rows, steps, heads = at.rng.choice((1, 2, 3)), at.rng.choice((1, 2, 3)), list[tuple[str, str]]()
    for block in reductions(at):
        row, *_, step = at.loops(block)
        yield "split", (row, rows), {}
        yield "split", (step, steps), {}
        now, first = at.loops(block), (f"{row}_o", f"{step}_o", f"{row}_i")
        if all(x in now for x in first):
            yield "reorder", (*first, *(x for x in now if x not in first)), {}
            yield "decompose_reduction", (block, first[1]), {}
            heads.append(first[:2])
    for row, _ in heads[1:]:
        yield "fuse_loops", (heads[0][0], row), {}
    if at.has(0.5) and len(heads) > 1:
        yield "fuse_loops", (heads[0][1], heads[1][1]), {}
        for buffer in at.names.temporaries:
            yield "store_at", (buffer, heads[0][1]), {}
        return
    for count in range(len(heads), 1, -1):
        yield "online", tuple(step for _, step in heads[:count]), {}


def masked(at: Here) -> Iterator[Step]:
    """Sums that start elsewhere, in a loop that masks leave little of."""
    yield from inlined(at)
    for block in reductions(at):
        yield "decompose_reduction", (block, at.rng.choice(at.loops(block))), {}
        if at.has(0.4):
            yield (
                "split",
                (at.rng.choice(at.loops(block)), at.rng.choice((2, 3))),
                {"tail": at.rng.choice(("guard", "separate"))},
            )


def launches(at: Here) -> Iterator[Step]:
    """Grids in each iteration of a loop."""
    for block in at.names.blocks:
        for loop, level in zip(at.loops(block)[1:], ("block", "thread")):
            yield "bind", (loop, level), {}


def copies(at: Here) -> Iterator[Step]:
    """What an iteration reads, in storage that it fills."""
    if at.has(0.5):
        yield from at.any_of("split")
    for _ in range(3):
        options = [o for o in arguments_for(at.s, "cache_read") if "at" in o[1]]
        if options:
            yield ("cache_read", *at.rng.choice(options))


def padded(at: Here) -> Iterator[Step]:
    """Uneven tiles in storage of their own."""
    block = at.rng.choice(at.names.blocks)
    for loop in at.loops(block)[:2]:
        yield "split", (loop, at.rng.choice((2, 3, 4))), {}
    now = at.loops(block)
    outer = [x for x in now if x.endswith("_o")]
    if outer:
        yield "reorder", (*outer, *(x for x in now if x not in outer)), {}
        written = [w.buffer.name for b in blocks_inside(at.s.kernel) if b.name == block for w in b.writes]
        yield "cache_write", (written[0] if written else block,), {"at": outer[-1]}
    if at.has(0.5):
        for buffer in at.names.buffers:
            yield "pack", (buffer, " ".join("ijkl"[: at.names.ranks[buffer]])), {"pad": True}


def moved(at: Here) -> Iterator[Step]:
    """Temporaries computed where they are read."""
    made = [a.buffer.name for a in all_allocs(at.s.kernel)]
    for block in at.names.blocks:
        if made and at.has(0.6):
            for loop in at.rng.sample(at.names.loops, len(at.names.loops)):
                yield "compute_at", (block, loop), {}


def window(at: Here) -> Iterator[Step]:
    yield from moved(at)
    yield from at.any_of("store_at", 3)


def factored(at: Here) -> Iterator[Step]:
    """Partial results, factors outside of sums."""
    yield from at.any_of("rfactor", 4)
    for block in at.names.blocks:
        yield "unscale", (block,), {}


def ranges(at: Here) -> Iterator[Step]:
    """Loops whose ranges depend on one another, tests directly in them."""
    for name in at.rng.sample(("split", "widen", "trim", "skew", "widen", "cut"), 4):
        yield from at.any_of(name, 2)


def quarters(at: Here) -> Iterator[Step]:
    """Innermost loops of four iterations, with nothing but an update in them: what small intrinsics do."""
    for block in at.names.blocks:
        around = at.loops(block)
        if not around:
            continue
        yield "decompose_reduction", (block, at.rng.choice(around)), {}
        loop = at.rng.choice(around)
        yield "reorder", (*(x for x in around if x != loop), loop), {}
        if at.has(0.7):
            yield "split", (loop, 4), {"tail": at.rng.choice(("separate", "guard"))}
    yield from at.any_of("cache_read")


def pairs(at: Here) -> Iterator[Step]:
    """Producers in the loops of their consumers and the other way around."""
    for first, second in itertools.islice(itertools.permutations(at.names.blocks, 2), 6):
        for loop in at.loops(second)[:1]:
            if at.has(0.4):
                yield "reverse_compute_at", (first, loop), {}


#: Recipes that any primitive is tried after.
COMMON: tuple[Recipe, ...] = (two_copies, two_copies, anything, ranges, factored, moved, copies)
#: What leads to primitives that are seldom legal otherwise.
BEFORE: dict[str, tuple[Recipe, ...]] = {
    "clear_masks": (inlined,),
    "double_buffer": (copies,),
    "expand_storage": (moved, copies),
    "fission": (shared_bodies,),
    "fold_storage": (window,),
    "in_parts": (inlined,),
    "online": (tiles,),
    "pad": (padded,),
    "pad_rows": (copies,),
    "persist": (launches,),
    "pipeline": (copies,),
    "precompute": (inlined, moved),
    "reverse_compute_at": (anything, pairs),
    "set_scope": (copies, moved),
    "skip_masked": (tiles, masked),
    "store_at": (window, tiles),
    "tensorize": (quarters,),
    "trim": (ranges,),
    "widen": (ranges,),
}
#: Topics of ``listed.weft`` with programs that these are for.
TOPICS: dict[str, tuple[str, ...]] = {
    "clear_masks": ("mask",),
    "compensate": ("narrow",),
    "compute_inline": ("stages", "softmax"),
    "in_parts": ("softmax",),
    "merge_axes": ("stages", "rest"),
    "narrow": ("narrow",),
    "online": ("softmax",),
    "pad": ("factor", "stages", "domain"),
    "part_sum": ("factor", "rest"),
    "persist": ("recurrence",),
    "privatize": ("scatter", "overlap"),
    "regroup": ("factor",),
    "scan": ("recurrence",),
    "skip_masked": ("mask", "softmax", "outside"),
    "stride_sum": ("outside",),
    "surround": ("outside", "halo"),
    "surround_storage": ("halo",),
    "tensorize": ("rest", "factor"),
    "unfold": ("factor", "outside"),
    "unscale": ("factor", "softmax", "stages"),
}
#: Primitives that are seldom legal under strict numerics, or never.
FAST = {"clear_masks", "in_parts", "narrow", "online", "regroup", "skip_masked", "stride_sum", "unscale"}
