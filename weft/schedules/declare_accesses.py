"""What a block reads and writes, declared anew after its body has changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from weft.ir.buffer import Buffer
from weft.ir.expr import Expr, idx
from weft.ir.stmt import Alloc, Block, Region, Stmt
from weft.ir.visit import bound_names, free_vars, loads, rewrite, stores, walk


def declare_accesses(root: Stmt, changed: Iterable[str]) -> Stmt:
    """``root`` with the regions of blocks that declare one of the buffers ``changed`` made anew."""
    names = set(changed)

    def new(n: object) -> Block | None:
        if not isinstance(n, Block):
            return None
        declared = {r.buffer.name for r in (*n.reads, *n.writes)}
        return declared_anew(n) if names & declared else None

    return rewrite(root, new)


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
