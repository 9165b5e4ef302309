"""For each primitive the arguments worth a try on a schedule as it stands: all that are small, legal or not.

A new primitive joins by a function in `ARGUMENTS`; a test fails until it has one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft.ir.hardware import HARDWARE
from weft.ir.visit import loads
from weft.schedules.find import all_allocs, all_loops, blocks_inside
from weft.schedules.schedule import Schedule
from weft.schedules.tensorize import _fits

Given = tuple[tuple[Any, ...], dict[str, Any]]
Enumerate = Callable[["Names"], list[Given]]

TAILS = ("guard", "separate", "pad", "clip")
FACTORS = (1, 2, 3, 4, 5, 7)
KINDS = ("parallel", "block", "thread", "unroll", "vector", "serial")
SCOPES = ("global", "shared", "local", "register")


class Names:
    """What there is to name in a schedule."""

    def __init__(self, s: Schedule) -> None:
        self.s, self.kernel = s, s.kernel
        self.blocks = [b.name for b in blocks_inside(s.kernel)]
        self.loops = [loop.var.name for loop in all_loops(s.kernel)]
        made = [a.buffer for a in all_allocs(s.kernel)]
        self.temporaries = [b.name for b in made]
        self.ranks = {b.name: b.rank for b in (*s.kernel.buffers, *made)}
        self.buffers = list(self.ranks)
        self.sizes = list(dict.fromkeys([*(v.name for v in s.kernel.scalars), *s.sizes]))
        self.iterators = {b.name: [i.var.name for i in b.iters] for b in blocks_inside(s.kernel)}
        found = [tuple(str(loop) for loop in s.loops(b)) for b in self.blocks]
        self.nests = [nest for nest in dict.fromkeys(found) if nest]

    @property
    def places(self) -> list[dict[str, str]]:
        return [{}, *({"at": loop} for loop in self.loops)]

    @property
    def one_inside_another(self) -> list[tuple[str, str]]:
        """Two loops of one nest, in either order."""
        return list(dict.fromkeys(p for nest in self.nests for p in itertools.permutations(nest, 2)))

    def neighbours(self, count: int) -> list[tuple[str, ...]]:
        """Loops directly inside one another."""
        runs = [nest[n : n + count] for nest in self.nests for n in range(len(nest) - count + 1)]
        return list(dict.fromkeys(runs))

    def readers(self) -> list[dict[str, Any]]:
        pairs = itertools.combinations(self.blocks, 2)
        return [{}, *({"readers": [b]} for b in self.blocks), *({"readers": list(p)} for p in pairs)]

    def some_iterators(self, most: int, least: int = 1) -> list[tuple[str, ...]]:
        """A block and a few of its iterators."""
        return [
            (block, *some)
            for block, names in self.iterators.items()
            for count in range(least, most + 1)
            for some in itertools.combinations(names, count)
        ]


def plain(*choices: Iterable[Any]) -> list[Given]:
    """Every choice of positional arguments."""
    return [(args, {}) for args in itertools.product(*choices)]


def spread(runs: Iterable[Sequence[Any]], *choices: Iterable[Any], **named: Iterable[Any]) -> list[Given]:
    """Each of ``runs``, then every choice of further arguments, positional and by name."""
    return [
        ((*run, *more[: len(choices)]), dict(zip(named, more[len(choices) :])))
        for run in runs
        for more in itertools.product(*choices, *named.values())
    ]


def with_options(first: list[Given], options: Sequence[dict[str, Any]]) -> list[Given]:
    return [(args, {**kwargs, **more}) for (args, kwargs), more in itertools.product(first, options)]


def permuted(names: Sequence[str], *counts: int) -> list[tuple[str, ...]]:
    return [p for count in counts for p in itertools.permutations(names, count)]


def some_layouts(rank: int) -> list[str]:
    """Orders of dimensions, then some of them in tiles."""
    letters = "ijkl"[:rank]
    orders = [" ".join(p) for p in itertools.permutations(letters)]
    tiled = [f"{w.replace(c, f'{c}/{size}')} {c}%{size}" for w in orders[:2] for c in letters for size in "23"]
    return [*orders, *tiled]


def a_pack(n: Names) -> list[Given]:
    found: list[Given] = []
    for buffer, rank in n.ranks.items():
        found += with_options(spread([(buffer,)], some_layouts(rank), pad=(False, True)), n.places)
        found += spread([(buffer,)], some_layouts(rank)[:3], part=itertools.product(range(rank), (0, 1)))
    return found


def a_marked(n: Names) -> list[Given]:
    return plain(n.loops) + spread(((x,) for x in n.loops), (2, 3, 4), tail=TAILS)


def a_cut(n: Names) -> list[Given]:
    names = (*n.loops, *(v.name for v in n.kernel.scalars))
    return plain(n.loops, (0, 1, 2, 3, 5, *names, *(f"{name} + 1" for name in names)))


def a_specialize(n: Names) -> list[Given]:
    tests = ("{} % 2 == 0", "{} == 3", "{} >= 2 and {} < 4", "not {} == 1")
    return plain(n.loops, [test.replace("{}", size) for test in tests for size in n.sizes or ["N"]])


def an_rfactor(n: Names) -> list[Given]:
    return with_options(
        spread(((x,) for x in n.loops), (None, 2, 3), axis=(0, 1), start=("before", "inside")), n.places
    )


def a_tensorize(n: Names) -> list[Given]:
    """Those intrinsics that fit, and one that does not."""
    fitting = [
        (loop.var.name, h.name) for loop in all_loops(n.kernel) for h in HARDWARE.values() if _fits(n.kernel, loop, h)
    ]
    return [(pair, {}) for pair in fitting] + plain(n.loops[:1], sorted(HARDWARE)[:1])


def a_cache_read(n: Names) -> list[Given]:
    """Mostly what blocks read."""
    read = list(dict.fromkeys(load.buffer.name for b in blocks_inside(n.kernel) for load in loads(b)))
    options = with_options(with_options(plain(read or n.buffers), n.places), n.readers())
    return with_options(options, [{"scope": "global"}, {"scope": "register"}])


def of_dimensions(n: Names, buffers: Iterable[str]) -> list[tuple[str, int]]:
    return [(b, dimension) for b in buffers for dimension in range(n.ranks[b])]


ARGUMENTS: dict[str, Enumerate] = {
    "alternate": lambda n: spread(n.one_inside_another),
    "atomic": lambda n: plain(n.blocks),
    "bind": lambda n: plain(n.loops, ("block", "thread")),
    "cache_read": a_cache_read,
    "cache_write": lambda n: with_options(
        with_options(plain(dict.fromkeys((*n.buffers, *n.blocks))), n.places),
        [{"scope": "global"}, {"scope": "register"}],
    ),
    "clear_masks": lambda n: plain(n.blocks),
    "compensate": lambda n: plain(n.blocks, n.buffers),
    "compute_at": lambda n: plain(n.blocks, n.loops),
    "compute_inline": lambda n: plain(n.blocks),
    "compute_root": lambda n: plain(n.blocks),
    "cut": a_cut,
    "decompose_reduction": lambda n: plain(n.blocks, n.loops),
    "double_buffer": lambda n: plain(n.temporaries),
    "expand_storage": lambda n: plain(n.temporaries),
    "fission": lambda n: plain(n.loops, (*n.blocks, *n.loops)),
    "fold_storage": lambda n: spread(of_dimensions(n, n.temporaries), (1, 2, 3, 4, 6)),
    "fuse": lambda n: spread((*n.neighbours(2), *n.neighbours(3))),
    "fuse_loops": lambda n: spread(permuted(n.loops, 2), by=("count", "value")),
    "in_parts": lambda n: spread(permuted(n.blocks, 1, 2, 3), size=(1, 2, 3)),
    "merge_axes": lambda n: [((b, d), {}) for b, d in of_dimensions(n, n.buffers) if d + 1 < n.ranks[b]],
    "narrow": lambda n: plain(n.temporaries, ("bfloat16", "float16")),
    "online": lambda n: spread(permuted(n.loops, 2, 3)),
    "pack": a_pack,
    "pad": lambda n: with_options(plain(n.blocks), [{}, *({"along": loop} for loop in n.loops)]),
    "pad_rows": lambda n: spread(((b,) for b in n.temporaries), (1, 3), strided=(False, True)),
    "parallel": lambda n: plain(n.loops),
    "part_sum": lambda n: spread(n.some_iterators(1), (0, 1, 2)),
    "peel": lambda n: spread(((x,) for x in n.loops), (1, 2, 4), end=("first", "last")),
    "persist": lambda n: plain(n.loops, (None, 1, 2)),
    "pipeline": lambda n: spread(((b,) for b in n.temporaries), stages=(2, 3, 4)),
    "precompute": lambda n: spread(n.some_iterators(3, least=0)),
    "prefetch": lambda n: plain(n.buffers, n.loops, (1, 3)),
    "privatize": lambda n: plain(n.blocks, n.loops),
    "recompute": lambda n: [((b, *c), {}) for b in n.blocks for r in (1, 2) for c in permuted(n.blocks, r)],
    "regroup": lambda n: spread(n.some_iterators(3)),
    "reorder": lambda n: spread(dict.fromkeys(p for nest in n.nests for p in permuted(nest, 2, 3, 4))),
    "reverse_compute_at": lambda n: plain(n.blocks, n.loops),
    "rfactor": an_rfactor,
    "run_as": lambda n: [((kind, *run), {}) for kind in KINDS for count in (1, 2) for run in n.neighbours(count)],
    "scan": lambda n: plain(n.loops, (1, 2, 3, 4)),
    "serial": lambda n: plain(n.loops),
    "set_aside": lambda n: plain(n.blocks),
    "set_scope": lambda n: plain(n.temporaries, SCOPES),
    "shift": lambda n: plain(n.loops, (-2, -1, 1, 3)),
    "skew": lambda n: spread(n.one_inside_another, (-1, 1, 2)),
    "skip_masked": lambda n: plain(n.loops),
    "specialize": a_specialize,
    "split": lambda n: spread(((x,) for x in n.loops), FACTORS, tail=TAILS),
    "split_axis": lambda n: spread(of_dimensions(n, n.buffers), (1, 2, 3, 4)),
    "store_at": lambda n: plain(n.temporaries) + plain(n.temporaries, n.loops),
    "stream": lambda n: plain(n.buffers),
    "stride_sum": lambda n: spread(n.some_iterators(1)),
    "subdivide": lambda n: [
        ((x, *f), {}) for x in n.loops for f in ((2,), (2, 1), (2, 2), (3, 2), (4, 2), (6, 3))
    ],
    "surround": lambda n: with_options(with_options(plain(n.buffers), n.places), n.readers()[: 1 + len(n.blocks)]),
    "surround_storage": lambda n: plain(n.temporaries),
    "swap": lambda n: spread(permuted((*n.blocks, *n.loops), 2)),
    "tensorize": a_tensorize,
    "tile": lambda n: [
        ((*pair, *sizes), {"tail": tail})
        for pair in n.one_inside_another
        for sizes in ((2, 2), (3, 2), (1, 4), (5, 3))
        for tail in TAILS
    ],
    "trim": lambda n: plain(n.loops),
    "unfold": lambda n: spread(
        [(b, *p) for b, names in n.iterators.items() for p in permuted(names, 1, 2, 3)], multiple=(1, 2, 4)
    ),
    "unroll": a_marked,
    "unscale": lambda n: plain(n.blocks),
    "vectorize": a_marked,
    "widen": lambda n: spread(n.one_inside_another),
    "wrap": lambda n: plain((*n.blocks, *n.loops), (0, 1, *n.loops)),
    "write_out": lambda n: plain(n.loops),
}  # fmt: skip


def arguments_for(s: Schedule, name: str) -> list[Given]:
    """All arguments for primitive ``name`` that are worth a try."""
    return ARGUMENTS[name](Names(s))
