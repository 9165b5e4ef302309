"""Which launches a kernel becomes: one for each nest outside of which nothing is concurrent; and the shape of each.

Storage made outside all block loops is device memory for the length of a call. A test of sizes around nests
decides before a launch whether it takes place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from weft.ir.buffer import Buffer
from weft.ir.errors import TargetError
from weft.ir.expr import Binary, Const, Expr, Unary, idx
from weft.ir.nesting import statements_in, strip
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Alloc, Assert, For, If, Kernel, Let, Param, Seq, Stmt
from weft.ir.visit import mentions, substitute, walk
from weft.passes.analysis.loop_ranges import extent
from weft.passes.plain.shorten_lets import mentioned_names
from weft.target.cuda.machine import MAX_BLOCK, MAX_GRID, GpuMachine
from weft.target.cuda.program import Steps, is_host_size

#: Storage of a launch that runs in a single thread is device memory from this many elements on.
_SMALL = 64


@dataclass(frozen=True, slots=True)
class Nest:
    """What one launch runs, if ``condition`` holds."""

    body: Stmt
    condition: Expr | None = None
    steps: tuple[Steps, ...] = ()

    @property
    def has_assert(self) -> bool:
        return any(isinstance(n, Assert) for n in walk(self.body))


@dataclass(slots=True)
class Parts:
    """The launches in order, and the device memory they need."""

    nests: list[Nest] = field(default_factory=list)
    temporaries: list[Buffer] = field(default_factory=list)
    #: how many loops of the host there are
    loops: int = 0


def read_launches(kernel: Kernel) -> Parts:
    """``kernel`` taken apart."""
    parts = Parts()
    scalars = frozenset(v.name for v in kernel.scalars if not v.dtype.is_float)
    _split(kernel.body, Nest(kernel.body), scalars, parts)
    return parts


def _split(s: Stmt, around: Nest, scalars: frozenset[str], parts: Parts) -> None:
    """The launches of ``s``, under the condition and in the steps of ``around``."""
    match s:
        case Seq():
            for child in s.body:
                _split(child, around, scalars, parts)
        case Alloc() if _has_host_size(s.buffer, scalars):
            parts.temporaries.append(replace(s.buffer, scope="global"))
            _split(s.body, around, scalars, parts)
        case Let() if is_host_size(s.value, scalars) and s.var.name not in assigned_names(s.body):
            _split(substitute(s.body, {s.var: s.value}), around, scalars, parts)
        case If() if is_host_size(s.condition, scalars) and has_concurrency(s):
            _split(s.then, _under(around, s.condition), scalars, parts)
            if s.otherwise is not None:
                _split(s.otherwise, _under(around, Unary("!", s.condition)), scalars, parts)
        case For(kind="serial") if has_concurrency(s) and all(is_host_size(e, scalars) for e in (s.lo, s.hi)):
            steps = Steps(s.var.name, s.lo, s.hi, parts.loops)
            parts.loops += 1
            _split(s.body, replace(around, steps=(*around.steps, steps)), scalars | {s.var.name}, parts)
        case _:
            if not has_concurrency(s):
                s = _without_large_storage(s, scalars, parts)
            parts.nests.append(replace(around, body=s))


def _under(around: Nest, test: Expr) -> Nest:
    return replace(around, condition=test if around.condition is None else Binary("&&", around.condition, test))


def has_concurrency(s: Stmt) -> bool:
    """Whether a block, thread or parallel loop is in ``s``."""
    return any(n.kind in ("block", "thread", "parallel") for n in statements_in(s, For))


def _has_host_size(buffer: Buffer, scalars: frozenset[str]) -> bool:
    return all(is_host_size(e, scalars) for e in (*buffer.shape, *buffer.element_strides()))


def _without_large_storage(s: Stmt, scalars: frozenset[str], parts: Parts) -> Stmt:
    """A single thread's large arrays as device memory."""
    for n in walk(s):
        if isinstance(n, Alloc) and _has_host_size(n.buffer, scalars):
            count = n.buffer.element_count()
            if count is not None and count <= _SMALL:
                continue
            parts.temporaries.append(replace(n.buffer, scope="global"))
    return s


def used_params(body: Stmt, params: Iterable[Param]) -> Iterator[Param]:
    """Those of ``params`` that ``body`` mentions, in their order."""
    names = mentioned_names(body)
    for p in params:
        if p.name in names:
            yield p


def written_names(body: Stmt) -> frozenset[str]:
    """Buffers that ``body`` may write; one whose address is given to a call counts."""
    return mentions(body).stored | mentions(body).addressed


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
