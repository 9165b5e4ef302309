"""The shape of a launch: block loops, what a block has of its own, thread loops, and the body of a thread."""

from __future__ import annotations

from dataclasses import dataclass

from weft.ir.buffer import Buffer
from weft.ir.errors import TargetError
from weft.ir.expr import Const, Expr, idx
from weft.ir.nesting import strip
from weft.ir.stmt import Alloc, For, Let, Stmt
from weft.passes.analysis.loop_ranges import extent
from weft.target.cuda.machine import MAX_BLOCK, MAX_GRID, GpuMachine
from weft.target.cuda.program import is_host_size


@dataclass(frozen=True, slots=True)
class Grid:
    """A launch taken apart. ``inner`` is what stands between blocks and threads, outermost first."""

    blocks: tuple[For, ...]
    inner: tuple[Alloc | Let, ...]
    threads: tuple[For, ...]
    body: Stmt

    @property
    def shared(self) -> tuple[Buffer, ...]:
        """What the threads of a block have together."""
        return tuple(s.buffer for s in self.inner if isinstance(s, Alloc))


def read_grid(s: Stmt, scalars: frozenset[str]) -> Grid:
    """``s`` as a launch. Loops that do not fit the shape are left in the body, for each thread to run."""
    blocks: list[For] = []
    s = strip(s)
    while isinstance(s, For) and s.kind in ("block", "parallel") and is_host_size(extent(s), scalars):
        blocks.append(s)
        s = strip(s.body)
    whole, inner = s, list[Alloc | Let]()
    while isinstance(s, (Alloc, Let)):
        inner.append(s)
        s = strip(s.body)
    threads: list[For] = []
    while isinstance(s, For) and s.kind == "thread" and isinstance(extent(s), Const):
        threads.append(s)
        s = strip(s.body)
    if not threads:
        return Grid(tuple(blocks), (), (), whole)
    return Grid(tuple(blocks), tuple(inner), tuple(threads), s)


def extents(loops: tuple[For, ...]) -> tuple[Expr, ...]:
    """How often each loop runs."""
    return tuple(map(extent, loops))


def thread_counts(grid: Grid) -> tuple[int, ...]:
    """The constant extents of the thread loops, outermost first."""
    return tuple(int(e.value) for e in extents(grid.threads) if isinstance(e, Const))


def block_shape(counts: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Threads along x, y and z: the innermost loop is x; None where the loops do not fit three dimensions."""
    shape = (*reversed(counts), 1, 1, 1)[: max(3, len(counts))]
    if len(shape) > 3 or any(n > most for n, most in zip(shape, MAX_BLOCK)):
        return None
    return shape[0], shape[1], shape[2]


def grid_shape(sizes: tuple[Expr, ...]) -> tuple[Expr, Expr, Expr] | None:
    """Blocks along x, y and z; None where they have to be counted along x alone."""
    shape = (*reversed(sizes), idx(1), idx(1), idx(1))[: max(3, len(sizes))]
    if len(shape) > 3 or not all(_is_below(n, most) for n, most in zip(shape[1:], MAX_GRID[1:])):
        return None
    if isinstance(shape[0], Const) and int(shape[0].value) > MAX_GRID[0]:
        return None
    return shape[0], shape[1], shape[2]


def _is_below(e: Expr, most: int) -> bool:
    return isinstance(e, Const) and int(e.value) <= most


def check_threads(grid: Grid, machine: GpuMachine, kernel: str) -> None:
    """Refuses more threads in a block than the machine runs."""
    total = 1
    for n in thread_counts(grid):
        total *= n
    if total > machine.max_threads_per_block:
        counts = " x ".join(map(str, thread_counts(grid)))
        raise TargetError(
            f"a block of `{kernel}` has {total} threads; {machine.name} runs at most {machine.max_threads_per_block}",
            span=grid.threads[0].span,
            why=f"its thread loops have {counts} iterations" if len(grid.threads) > 1 else None,
            help="split a thread loop and make the outer part a block loop or the inner part serial",
        )
