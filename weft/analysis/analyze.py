"""`weft.analyze`: what a program touches in memory, found without running it on data."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from weft.analysis.caches import CacheLevel, LevelCount, simulate
from weft.analysis.duplication import WIDTHS, Duplication
from weft.analysis.matrix_read import matrix_reads
from weft.analysis.reuse import Reuse, watch_distances
from weft.analysis.touches import Touches
from weft.ir.errors import ArgumentError
from weft.ir.shown import Shown
from weft.ir.stmt import Kernel
from weft.operators.loop_kernel import LoopKernel
from weft.operators.operator import Operator
from weft.report.tables import aligned, format_size
from weft.runtime.machine_model import machine_model

#: Accesses from which on only one line in `SAMPLED` is watched.
LONG = 1_000_000_000
SAMPLED = 64


class Duplications(Mapping[str, Duplication]):
    """By tensor. What one alone has is asked for directly where a single read is lowered: its elements have copies."""

    def __init__(self, found: Mapping[str, Duplication]) -> None:
        self._found = found

    def __getitem__(self, name: str) -> Duplication:
        if name not in self._found:
            raise ArgumentError(f"there is no read of `{name}`", why=f"tensors that are read: {self._names()}")
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def _names(self) -> str:
        return ", ".join(self._found) or "none"

    @property
    def lowered(self) -> Duplication:
        """That of the one read that has copies."""
        having = [d for d in self._found.values() if d.accesses > d.unique]
        if len(having) != 1:
            count = "no read" if not having else f"{len(having)} reads"
            raise ArgumentError(
                f"{count} of the program would have copies in a lowered matrix",
                why=f"tensors that are read: {self._names()}",
                help='say which: r.duplication["NAME"]',
            )
        return having[0]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.lowered, name)


class Analysis:
    """What `weft.analyze` found; each part is found when it is first asked for."""

    def __init__(self, kernel: Kernel, unscheduled: Kernel, levels: Sequence[CacheLevel]) -> None:
        self._unscheduled, self._levels = unscheduled, tuple(levels)
        self._touches = Touches(kernel)

    @cached_property
    def accesses(self) -> Mapping[str, int]:
        """Accesses of each buffer in memory by the scheduled program, at most: tests are taken to hold."""
        return self._touches.by_buffer

    @cached_property
    def duplication(self) -> Duplications:
        """Copies in the matrix of each read: rows are outputs, columns what is summed."""
        return Duplications({n: Duplication(n, r) for n, r in matrix_reads(self._unscheduled).items()})

    @cached_property
    def reuse(self) -> Reuse:
        """Reuse distances of lines in the scheduled program: the misses of every cache size."""
        line = self._levels[0].line
        rate = SAMPLED if self._touches.most > LONG else 1
        program = self._touches.program
        return watch_distances(lambda touch: program(line, touch), -(-self._touches.size // line), line, rate)

    @cached_property
    def caches(self) -> list[LevelCount]:
        """What the scheduled program does in the machine's caches on one core, from empty ones on."""
        return simulate(self._touches, self._levels)

    def sweep(self, least: int, most: int) -> list[tuple[int, int]]:
        """(bytes, misses) of fully associative caches, each twice the size of the one before it."""
        if not 0 < least <= most:
            raise ArgumentError(
                f"no cache sizes lie between {least} and {most} bytes", help="give the smaller one first"
            )
        sizes = [least << k for k in range(int(math.log2(most // least)) + 1)]
        return [(size, self.reuse.misses(size // self.reuse.line)) for size in sizes]

    def facts(self) -> dict[str, Any]:
        """All of it, as numbers and texts."""
        return {
            "accesses": dict(self.accesses),
            "duplication": [d.json() for d in self.duplication.values()],
            "reuse": self.reuse.json(),
            "caches": [level.json() for level in self.caches],
        }

    def json(self) -> str:
        return json.dumps(self.facts(), indent=2)

    def __str__(self) -> str:
        return Shown("\n".join([*self._copies_table(), "", *self._caches_table(), "", *self._reuse_table()]) + "\n")

    def _copies_table(self) -> list[str]:
        if not self.duplication:
            return ["no read of a parameter is a matrix"]
        heading = ["read", "rows", "columns", "expansion", "copies", *(f"{w} B" for w in WIDTHS), "found by"]
        rows = [
            [name, *map(str, d.shape), f"{d.expansion:.2f}", *(f"{n:.2f}" for n in (d.copies, *d.by_section.values())),
             d.method]
            for name, d in self.duplication.items()
        ]  # fmt: skip
        return [
            "copies in the lowered matrix of each read, by elements and by sections of rows",
            *aligned([heading, *rows]),
        ]

    def _caches_table(self) -> list[str]:
        heading = ["cache", "size", "ways", "accesses", "misses", "ratio"]
        rows = [
            [c.level.name, format_size(c.level.size), str(c.level.ways), str(c.accesses), str(c.misses),
             f"{c.miss_ratio:.4f}"]
            for c in self.caches
        ]  # fmt: skip
        return ["caches of one core, empty at first (simulation)", *aligned([heading, *rows])]

    def _reuse_table(self) -> list[str]:
        reuse = self.reuse
        rows = [[f"< {edge}", str(count)] for edge, count in reuse.histogram() if count]
        rows.append(["first", str(reuse.rate * reuse.first)])
        title = f"touches by reuse distance, in lines of {reuse.line} bytes ({reuse.method})"
        return [title, *aligned([["distance", "touches"], *rows])]


def analyze(target: Any, /, *args: Any, levels: Sequence[CacheLevel] | None = None, **named: Any) -> Analysis:
    """What ``target`` touches in memory with these arguments (arrays or shapes): copies, reuse, misses.

    >>> r = weft.analyze(weft.ops.conv2d, (1, 64, 56, 56), (64, 64, 3, 3))
    >>> r.duplication.copies, r.reuse.misses(512), r.caches[0].miss_ratio
    """
    chosen = machine_levels() if levels is None else tuple(levels)
    if not chosen:
        raise ArgumentError("there is no cache to simulate", help="give at least one level, or leave levels= out")
    if isinstance(target, Operator):
        kernel = target.schedule(*args, target="cpu", **named).kernel
        return Analysis(kernel, target.with_schedule("naive").schedule(*args, target="cpu", **named).kernel, chosen)
    if isinstance(target, LoopKernel):
        if args or named:
            raise ArgumentError(f"{target.name} takes no arguments to be analyzed", why="its sizes are in its text")
        return Analysis(target.kernel, target.kernel, chosen)
    raise ArgumentError(
        f"analyze takes an operator or a loop program, not {type(target).__name__}",
        help="weft.analyze(weft.ops.matmul, (64, 64), (64, 64))",
    )


def machine_levels() -> tuple[CacheLevel, ...]:
    """The caches of the machine that schedules are made for."""
    return tuple(_level(x.name, x.size, x.ways, x.line) for x in machine_model().levels[:-1])


def _level(name: str, size: int, ways: int, line: int) -> CacheLevel:
    """Where the ways are not known, or do not go with the size, 16; the size is rounded to whole sets."""
    ways = ways or 16
    return CacheLevel(name, max(size // (ways * line), 1) * ways * line, ways, line)
