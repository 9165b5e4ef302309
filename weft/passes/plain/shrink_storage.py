"""Temporaries get no more memory than is touched while they exist.

This is array contraction, by the liveness that nesting gives.

A temporary made inside a loop keeps the subscripts of its definition; here it is cut to the box that one
iteration touches, and subscripts are counted from the start of that box. Blocks must be lowered first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.expr import Const, Expr, Load, Var, idx
from weft.ir.interval import Interval
from weft.ir.nesting import inner_statements, statements
from weft.ir.simplify_expr import ExprSimplifier
from weft.ir.stmt import Alloc, Atomic, For, Kernel, Stmt, Store
from weft.ir.visit import loads, mentions, rebuild, stores
from weft.poly.infer_spans import Span, clip, infer_spans, knowing_loops, upper_bound

#: Elements that a register file can hold.
MOST_IN_REGISTERS = 1024


@dataclass(frozen=True, slots=True)
class Cut:
    """``new`` holds what ``old`` held from ``starts`` on."""

    old: Buffer
    new: Buffer
    starts: tuple[Expr, ...]


def shrink_storage(kernel: Kernel) -> Kernel:
    """``kernel`` with every temporary cut to what is touched of it."""
    sizes = {e.name: Interval(0, None) for b in kernel.buffers for e in b.shape if isinstance(e, Var)}
    cuts: dict[int, Cut] = {}
    _find_cuts(kernel.body, kernel, (), sizes, cuts)
    return replace(kernel, body=_apply(kernel.body, cuts, {})) if cuts else kernel


def _find_cuts(
    s: Stmt, kernel: Kernel, loops: tuple[For, ...], sizes: dict[str, Interval], cuts: dict[int, Cut]
) -> None:
    if isinstance(s, For):
        loops = (*loops, s)
    if isinstance(s, Alloc):
        cut = _infer_cut(s, kernel, loops, sizes)
        if cut is not None:
            cuts[id(s)] = cut
    for inner in inner_statements(s):
        _find_cuts(inner, kernel, loops, sizes, cuts)


def _infer_cut(alloc: Alloc, kernel: Kernel, loops: tuple[For, ...], sizes: dict[str, Interval]) -> Cut | None:
    old = alloc.buffer
    if not loops:  # made once for the whole program: what is touched of it is what it was made for
        return None
    count = old.element_count() if old.scope == "register" else None
    if count is not None and count <= MOST_IN_REGISTERS:  # cutting a tile below its vectors would cost masks
        return None
    if old.strides is not None or old.name in mentions(alloc.body).reached:
        return None
    if _is_touched_throughout(old, alloc.body):
        return None
    raw = infer_spans(kernel, old, alloc, len(loops))
    if raw is None:
        return None
    with knowing_loops(loops, sizes) as simple:
        exact = clip(raw, old, simple)
        sides = [_side(whole, span, within, simple) for whole, span, within in zip(old.shape, raw, exact)]
    if all(start == idx(0) and size == whole for (start, size), whole in zip(sides, old.shape)):
        return None
    return Cut(old, replace(old, shape=tuple(size for _, size in sides)), tuple(start for start, _ in sides))


def _is_touched_throughout(buffer: Buffer, body: Stmt) -> bool:
    """Whether one access runs through all of a temporary, by loops inside that count from 0 to its sizes: a kernel with
    many values that cross barriers has dozens of such, and nothing of them can be cut."""
    touching = [n.indices for n in (*loads(body), *stores(body)) if n.buffer.name == buffer.name]
    plain = [
        names for indices in touching if len(names := [i.name for i in indices if isinstance(i, Var)]) == buffer.rank
    ]
    if not plain:
        return False
    runs = {n.var.name: n.hi for n in statements(body) if isinstance(n, For) and n.lo == idx(0)}
    return any(all(runs.get(name) == size for name, size in zip(names, buffer.shape)) for names in plain)


def _side(whole: Expr, raw: Span, within: Span, simple: ExprSimplifier) -> tuple[Expr, Expr]:
    """Where a dimension starts and how many elements it keeps: a number smaller than the whole, or all of it."""
    ends = [(raw[0], raw[1] + idx(1)), within]
    widths = [(width, start) for start, end in ends if (width := upper_bound(end - start, simple.ranges)) is not None]
    if not widths:
        return idx(0), whole
    width, start = min(widths, key=lambda k: k[0])
    if isinstance(whole, Const) and width >= int(whole.value):
        return idx(0), whole
    return start, idx(max(width, 0))


def _apply(node: Any, cuts: dict[int, Cut], active: dict[str, Cut]) -> Any:
    if isinstance(node, Buffer):
        return node
    if isinstance(node, Alloc):
        cut = cuts.get(id(node))
        here = {name: c for name, c in active.items() if name != node.buffer.name}
        if cut is not None:
            here[node.buffer.name] = cut
        body = _apply(node.body, cuts, here)
        return replace(node, buffer=node.buffer if cut is None else cut.new, body=body)
    rebuilt = rebuild(node, lambda n: _apply(n, cuts, active))
    if isinstance(rebuilt, (Load, Store, Atomic)) and rebuilt.buffer.name in active:
        cut = active[rebuilt.buffer.name]
        indices = tuple(i if s == idx(0) else i - s for i, s in zip(rebuilt.indices, cut.starts))
        return replace(rebuilt, buffer=cut.new, indices=indices)
    return rebuilt
