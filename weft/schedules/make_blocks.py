"""Blocks for a program that was written without: every store in plain loops gets one, so that schedules can name it.

>>> kernel = make_blocks(parse_kernel("kernel f(out A: float32[9]) { for i in 1:9 { A[i] = A[i - 1] } }"))
>>> Schedule(kernel).loops("A")                  # a block is called like the buffer it writes
[i]

What blocks read and write is declared anew after their bodies have changed (`declare_accesses`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from weft.ir.buffer import Buffer
from weft.ir.expr import Expr, Var, idx
from weft.ir.interval import Interval, loop_range
from weft.ir.stmt import Alloc, Block, For, Iter, IterKind, Kernel, Region, Stmt, Store
from weft.ir.visit import bound_names, free_vars, fresh_name, loads, rebuild, rewrite, stores, substitute, walk
from weft.schedules.find import size_ranges
from weft.schedules.rewrite import taken_names, unique_names


def make_blocks(kernel: Kernel) -> Kernel:
    """``kernel`` with a block around every store that is in none."""
    kernel = unique_names(kernel)
    return replace(kernel, body=_visit(kernel.body, (), size_ranges(kernel), taken_names(kernel), set()))


def _visit(s: Stmt, around: tuple[For, ...], ranges: Mapping[str, Interval], taken: set[str], blocks: set[str]) -> Stmt:
    if isinstance(s, Block):
        return s
    if isinstance(s, Store):
        return _block(s, around, ranges, taken, fresh_name(s.buffer.name, blocks))
    if isinstance(s, For):
        ranges = {**ranges, s.var.name: loop_range(s, ranges)}
        around = (*around, s)
    return rebuild(s, lambda n: _visit(n, around, ranges, taken, blocks) if isinstance(n, Stmt) else n)


def _block(store: Store, around: tuple[For, ...], ranges: Mapping[str, Interval], taken: set[str], name: str) -> Block:
    """The store in terms of one iterator a loop; those it does not write along only repeat it."""
    taken = set(taken)  # blocks may have iterators of one name
    written = {n for index in store.indices for n in free_vars(index)}
    iters = []
    values: dict[Var, Expr] = {}
    for loop in around:
        var = Var(fresh_name(f"v{loop.var.name}", taken), span=loop.var.span)
        kind: IterKind = "spatial" if loop.var.name in written else "reduce"
        lo, hi = _ends(loop, around, ranges)
        iters.append(Iter(var, lo, hi, kind, loop.var))
        values[loop.var] = var
    return declared_anew(Block(name, tuple(iters), (), (), None, substitute(store, values), span=store.span))


def _ends(loop: For, around: tuple[For, ...], ranges: Mapping[str, Interval]) -> tuple[Expr, Expr]:
    """The range of a loop, or the widest it can have where that depends on others."""
    loops = {other.var.name for other in around}
    span = ranges[loop.var.name]
    depends = loops & {*free_vars(loop.lo), *free_vars(loop.hi)}
    if not depends or span.lo is None or span.hi is None:
        return loop.lo, loop.hi
    return idx(span.lo), idx(span.hi + 1)


def declare_accesses(root: Stmt, changed: Iterable[str]) -> Stmt:
    """``root`` with the regions of blocks that declare one of the buffers ``changed`` made anew."""
    names = set(changed)

    def new(n: object) -> Block | None:
        if isinstance(n, Block) and any(r.buffer.name in names for r in (*n.reads, *n.writes)):
            return declared_anew(n)
        return None

    return rewrite(root, new, naming=names)


def declared_anew(block: Block) -> Block:
    parts = [p for p in (block.init, block.body) if p is not None]
    inner = {name for p in parts for n in walk(p) for name in bound_names(n)}
    own = {n.buffer.name for p in parts for n in walk(p) if isinstance(n, Alloc)}
    read = dict.fromkeys(element_region(n.buffer, n.indices, inner) for p in parts for n in loads(p))
    written = dict.fromkeys(element_region(n.buffer, n.indices, inner) for p in parts for n in stores(p))
    kept = [[r for r in regions if r.buffer.name not in own] for regions in (read, written)]
    return replace(block, reads=tuple(kept[0]), writes=tuple(kept[1]))


def element_region(buffer: Buffer, indices: tuple[Expr, ...], inner: set[str]) -> Region:
    """One element; where it depends on more than the iterators, the whole buffer."""
    if any(loads(i) or inner & free_vars(i).keys() for i in indices):
        return Region(buffer, tuple(idx(0) for _ in indices), buffer.shape)
    return Region(buffer, indices, tuple(idx(1) for _ in indices))
