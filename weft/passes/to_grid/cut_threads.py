"""Thread loops that run as often as sizes say, which only a call knows, in pieces of a fixed number of threads.

>>> thread t in 0:n { a }                                          # becomes
>>> for t_o in 0:ceil(n / 256) { thread t in 0:256 { if t_o * 256 + t < n { a } } }
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.ir.expr import Compare, Expr, Load, Var, idx
from weft.ir.interval import Interval, bounds
from weft.ir.nesting import around, perfect_nest
from weft.ir.simplify import simplify
from weft.ir.stmt import For, If, Stmt
from weft.ir.visit import free_vars, rebuild, substitute, walk
from weft.passes.analysis.loop_ranges import Ranges, loop_range

#: Threads of a block whose number the program does not say.
THREADS = 256


def cut_threads(s: Stmt, ranges: Ranges, fresh: Callable[[str], str]) -> Stmt:
    """``s``, whose thread nests are perfect, with thread loops of known extents only."""
    if isinstance(s, For) and s.kind == "thread":
        return _cut_nest(s, ranges, fresh)
    inside = {**ranges, s.var.name: loop_range(s, ranges)} if isinstance(s, For) else ranges
    return rebuild(s, lambda n: cut_threads(n, inside, fresh) if isinstance(n, Stmt) else n)


def _cut_nest(s: For, ranges: Ranges, fresh: Callable[[str], str]) -> Stmt:
    nest, body = perfect_nest(s, "thread")
    loops = list(nest)
    sizes: list[int | None] = []
    inner_ranges: dict[str, Interval] = dict(ranges)
    for loop in loops:
        sizes.append(bounds(simplify(loop.hi - loop.lo, inner_ranges), inner_ranges).hi)
        inner_ranges[loop.var.name] = loop_range(loop, inner_ranges)
    if None not in sizes:
        return s
    piece = THREADS
    for size in sizes:
        piece = piece if size is None else max(1, piece // max(size, 1))
    kept: list[For] = []
    outer: list[For] = []
    for position, (loop, size) in enumerate(zip(loops, sizes)):
        if size is not None:
            kept.append(loop)
        elif _depends(loop, kept):
            rest = [replace(inner, kind="serial") for inner in loops[position:]]
            return around([*outer, *kept], around(rest, body))
        else:
            around_pieces, inner, place = _cut(loop, piece, fresh)
            outer.append(around_pieces)
            kept.append(inner)
            body = substitute(If(Compare("<", loop.var, loop.hi), body), {loop.var: place})
            loops[position + 1 :] = [_moved(later, loop.var, place) for later in loops[position + 1 :]]
            piece = 1
    return around([*outer, *kept], body)


def _depends(loop: For, threads: list[For]) -> bool:
    names = {t.var.name for t in threads}
    ends = (loop.lo, loop.hi)
    return any(names & free_vars(e).keys() or any(isinstance(n, Load) for n in walk(e)) for e in ends)


def _cut(loop: For, piece: int, fresh: Callable[[str], str]) -> tuple[For, For, Expr]:
    """The loop over pieces, the one over the threads of a piece, and what the variable was in terms of both."""
    turn = Var(fresh(f"{loop.var.name}_o"))
    count = simplify((loop.hi - loop.lo + idx(piece - 1)) // idx(piece))
    place = simplify(loop.lo + turn * idx(piece) + loop.var)
    return replace(loop, var=turn, lo=idx(0), hi=count, kind="serial"), replace(loop, lo=idx(0), hi=idx(piece)), place


def _moved(loop: For, var: Var, place: Expr) -> For:
    return replace(loop, lo=substitute(loop.lo, {var: place}), hi=substitute(loop.hi, {var: place}))
