"""``merge_axes``: two dimensions that all of a program walks together, one inside the other, as one: dimension
collapsing.

The pixels of an image instead of its rows and columns: ``O[n, f, h, w]`` becomes ``O[n, f, h_w]``, in all blocks that
touch it and in all buffers that these touch with the same iterators. Nothing moves: neighbours in memory stay
neighbours. Schedules can then cut pieces that are no whole rows, and what fetches boxes by itself sees longer rows.
Who only reads one place of the outer dimension goes on to do so: ``G[b, 2, j]`` is ``G[b, 2 * 200 + j]``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.expr import Const, Expr, Load, Var, idx
from weft.ir.nesting import path_to
from weft.ir.stmt import Alloc, Atomic, Block, For, Iter, Kernel, Param, Stmt, Store
from weft.ir.visit import Node, fresh_name, loads, rebuild, rewrite, stores, walk
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import blocks_inside, find_buffer
from weft.schedules.make_blocks import declared_anew
from weft.schedules.redirect import only_plain_accesses
from weft.schedules.rewrite import Rewrite, primitive, remembered, taken_names
from weft.schedules.trace import Numerics


@dataclass(frozen=True, slots=True)
class _Pair:
    """Iterators of a block that are subscripts of neighbouring dimensions, and their loops, one directly in another."""

    block: str
    outer: Iter
    inner: Iter
    loop: For
    inside: For


@dataclass(frozen=True, slots=True)
class _Found:
    """Buffers with the first of the dimensions that become one, and the iterators that run along these, by block; or
    why they cannot."""

    places: dict[str, int]
    pairs: dict[str, _Pair]
    problem: str | None = None


def check_merge_axes(kernel: Kernel, buffer: str, dimension: int, *, numerics: Numerics) -> Verdict:
    """The dimensions must lie in memory as one, and whoever touches them must run through both, one in the other."""
    rank = find_buffer(kernel, buffer).rank
    if isinstance(dimension, bool) or not isinstance(dimension, int) or not 0 <= dimension < rank - 1:
        reason = f"`{buffer}` has {rank} dimensions, counted from 0; none follows dimension {dimension}"
        return refuse(reason, alternatives=lambda: _legal(kernel, buffer))
    problem = _find(kernel, buffer, dimension).problem
    return OK if problem is None else refuse(problem, alternatives=lambda: _legal(kernel, buffer))


def _legal(kernel: Kernel, buffer: str) -> tuple[str, ...]:
    """The calls for other dimensions of ``buffer`` that would do."""
    found = [d for d in range(find_buffer(kernel, buffer).rank - 1) if _find(kernel, buffer, d).problem is None]
    return tuple(f's.merge_axes("{buffer}", {d})' for d in found)


@primitive(check_merge_axes, "cannot merge axes of `{0}`")
def merge_axes(kernel: Kernel, buffer: str, dimension: int) -> Rewrite:
    """Makes ``h_w`` of ``h`` and ``w`` in every block concerned."""
    found, taken = _find(kernel, buffer, dimension), taken_names(kernel)
    merged = {name: _merged(find_buffer(kernel, name), d) for name, d in found.places.items()}
    names, fates = dict[str, str](), dict[str, str]()
    for p in (found.pairs[b.name] for b in blocks_inside(kernel) if b.name in found.pairs):
        names[p.block] = fresh_name(f"{p.loop.var.name}_{p.inside.var.name}", taken)
        fates |= dict.fromkeys((p.loop.var.name, p.inside.var.name), f"was merged into {names[p.block]}")

    def put(n: Node) -> Node | None:
        if not isinstance(n, (Load, Store, Atomic)) or n.buffer.name not in merged:
            return None
        d, i = found.places[n.buffer.name], n.indices
        both = _times(i[d], n.buffer.shape[d + 1]) + i[d + 1] if isinstance(i[d], Const) else i[d]
        return replace(n, buffer=merged[n.buffer.name], indices=(*i[:d], both, *i[d + 2 :]))

    def visit(s: Stmt) -> Stmt:
        for p in found.pairs.values():
            if s is p.loop:
                loop = replace(p.loop, var=Var(names[p.block]), hi=_times(p.loop.hi, p.inside.hi))
                return replace(loop, body=visit(p.inside.body))
        if isinstance(s, Block) and s.name in found.pairs:
            p = found.pairs[s.name]
            longer = replace(p.outer, hi=_times(p.outer.hi, p.inner.hi), binding=Var(names[p.block]))
            iters = tuple(longer if i is p.outer else i for i in s.iters if i is not p.inner)
            init = None if s.init is None else rewrite(s.init, put)
            return declared_anew(replace(s, iters=iters, init=init, body=rewrite(s.body, put)))
        if isinstance(s, Block) and any(name in merged for name, _ in accesses(s)):
            return declared_anew(rewrite(s, put))
        if isinstance(s, Alloc) and s.buffer.name in merged:
            s = replace(s, buffer=merged[s.buffer.name])
        return rebuild(s, lambda n: visit(n) if isinstance(n, Stmt) else n)

    params = tuple(merged.get(p.name, p) if isinstance(p, Buffer) else p for p in kernel.params)
    return Rewrite(replace(kernel, params=params, body=visit(kernel.body)), tuple(names.values()), fates)


def merged_arguments(start: Kernel, kernel: Kernel, args: Sequence[Any]) -> list[Any]:
    """Arguments of ``start`` as ``kernel``, a schedule of it, takes them: arrays whose axes it merged as views with
    those merged, all else as it is."""
    count = len(start.params)
    pairs = zip(start.params, kernel.params, args)
    return [*(_as_merged(old, new, value) for old, new, value in pairs), *args[count:]]


def _as_merged(old: Param, new: Param, value: Any) -> Any:
    if not isinstance(old, Buffer) or not isinstance(new, Buffer) or new.rank == old.rank:
        return value
    given, wanted = ([e.value if isinstance(e, Const) else None for e in b.shape] for b in (old, new))
    return value.reshape(wanted) if list(getattr(value, "shape", ())) == given else value


@remembered
def _find(kernel: Kernel, buffer: str, dimension: int) -> _Found:
    """All that has to change together, starting from two dimensions of ``buffer``."""
    found = _Found({buffer: dimension}, {})
    pending = [buffer]
    for name in pending:
        d = found.places[name]
        touched = [b for b in blocks_inside(kernel) if any(n == name for n, _ in accesses(b))]
        problem = _why_apart(kernel, name, d, touched)
        if problem is not None:
            return replace(found, problem=problem)
        for block in (b for b in touched if not _reads_one_place(b, name, d)):
            pair = _pair(kernel, block, name, d)
            if pair is None or found.pairs.setdefault(block.name, pair) != pair:
                return replace(found, problem=f"`{block.name}` does not run through all of `{name}` along both")
            for other, place in _places(block, pair):
                if found.places.setdefault(other, place) != place:
                    return replace(found, problem=f"`{other}` has these axes in several places")
                pending += [other] if other not in pending else []
    return found


def _reads_one_place(block: Block, name: str, d: int) -> bool:
    """Whether all that ``block`` does with a buffer is to read it at places of dimension ``d`` that are numbers."""
    if any(n.buffer.name == name for p in (block.init, block.body) if p is not None for n in stores(p)):
        return False
    return all(isinstance(indices[d], Const) for other, indices in accesses(block) if other == name)


def accesses(block: Block) -> list[tuple[str, tuple[Expr, ...]]]:
    """The buffers that ``block`` loads from and stores to, with subscripts."""
    parts = [p for p in (block.init, block.body) if p is not None]
    return [(n.buffer.name, n.indices) for p in parts for n in (*loads(p), *stores(p))]


def is_used_in_blocks(kernel: Kernel, name: str, blocks: list[Block]) -> bool:
    """Whether the loads and stores of ``blocks`` are all that is done with a buffer."""
    every = [n for n in (*loads(kernel.body), *stores(kernel.body)) if n.buffer.name == name]
    in_blocks = sum(n == name for b in blocks for n, _ in accesses(b))
    return only_plain_accesses(kernel.body, name) and len(every) == in_blocks


def _why_apart(kernel: Kernel, name: str, d: int, touched: list[Block]) -> str | None:
    """Why dimensions ``d`` and the next of a buffer do not lie in memory as one for all who touch them."""
    buffer = find_buffer(kernel, name)
    numbers = [e.value if isinstance(e, Const) else None for e in (*buffer.shape, *buffer.element_strides())]
    sizes, steps = numbers[: buffer.rank], numbers[buffer.rank :]
    outer, inner, size = steps[d], steps[d + 1], sizes[d + 1]
    if outer is None or inner is None or size is None or sizes[d] is None or outer != inner * size:
        needed = "their sizes must be numbers, and nothing may lie between rows"
        return f"dimensions {d} and {d + 1} of `{name}` do not lie in memory as one: {needed}"
    if not is_used_in_blocks(kernel, name, touched):
        return f"`{name}` is used outside of blocks; only uses in blocks, along iterators, can change"
    return None


def _pair(kernel: Kernel, block: Block, name: str, d: int) -> _Pair | None:
    """The iterators along which ``block`` runs through dimensions ``d`` and the next, wherever it touches the buffer;
    None where it does so in another way, or uses one of them for something else."""
    iters = {i.var: i for i in block.iters}
    found = {indices[d : d + 2] for other, indices in accesses(block) if other == name}
    outer, inner = (iters.get(e) for e in found.pop()) if len(found) == 1 else (None, None)  # type: ignore[call-overload]
    loops = [s for s in path_to(kernel, block)[:-1] if isinstance(s, For)]
    if outer is None or inner is None or outer.kind != inner.kind:
        return None
    around = next(((a, b) for a, b in pairwise(loops) if (a.var, b.var) == (outer.binding, inner.binding)), None)
    if around is None or around[0].body is not around[1] or any(x.kind != "serial" for x in around):
        return None
    if len(blocks_inside(around[0])) > 1:
        return None
    shape = find_buffer(kernel, name).shape[d : d + 2]
    if any((x.lo, x.hi, i.lo, i.hi) != (idx(0), n, idx(0), n) for x, i, n in zip(around, (outer, inner), shape)):
        return None
    pair = _Pair(block.name, outer, inner, *around)
    seen = Counter(n for p in (block.init, block.body) if p is not None for n in walk(p) if isinstance(n, Var))
    bound = Counter(n for n in walk(around[1].body) if isinstance(n, Var))
    alone = bound[around[0].var] == bound[around[1].var] == 1  # two iterators, and no bound or test in between
    count = sum(1 for _ in _places(block, pair))
    return pair if alone and seen[outer.var] == seen[inner.var] == count else None


def _places(block: Block, pair: _Pair) -> Iterator[tuple[str, int]]:
    """Where subscripts are the two iterators."""
    for name, indices in accesses(block):
        yield from ((name, d) for d, both in enumerate(pairwise(indices)) if both == (pair.outer.var, pair.inner.var))


def _merged(buffer: Buffer, d: int) -> Buffer:
    shape = (*buffer.shape[:d], _times(*buffer.shape[d : d + 2]), *buffer.shape[d + 2 :])
    strides = None if buffer.strides is None else (*buffer.strides[:d], *buffer.strides[d + 1 :])
    return replace(buffer, shape=shape, strides=strides)


def _times(a: Expr, b: Expr) -> Expr:
    assert isinstance(a, Const)
    assert isinstance(b, Const)
    return idx(int(a.value) * int(b.value))
