"""``split_axis``: a dimension that a program walks as groups of equal size, as two: which
group, and which of it (dimension splitting).

The heads of attention of which four share keys: ``Q[b, h, s, d]`` and ``K[b, h // 4, t, d]`` become
``Q[b, g, r, s, d]`` and ``K[b, g, t, d]``, in all blocks that walk along these heads and in all buffers that they touch
with that iterator. Nothing moves: it is the reverse of `merge_axes`. What one group has in common is then a subscript
like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.ir.buffer import Buffer
from weft.ir.expr import Const, Expr, Load, Var, idx
from weft.ir.interval import Interval
from weft.ir.nesting import path_to
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Atomic, Block, For, Iter, Kernel, Stmt, Store
from weft.ir.visit import Node, fresh_name, rebuild, rewrite, substitute
from weft.poly.verdict import Verdict, refuse
from weft.schedules.find import blocks_inside, find_buffer
from weft.schedules.loop_facts import check_number, check_valid
from weft.schedules.make_blocks import declared_anew
from weft.schedules.merge_axes import accesses, is_used_in_blocks
from weft.schedules.rewrite import Rewrite, primitive, remembered, taken_names
from weft.schedules.trace import Numerics


@dataclass(frozen=True, slots=True)
class _Found:
    """Buffers with the dimension that is split, the iterator along it of each block, and its loop; or why not."""

    places: dict[str, int]
    along: dict[str, tuple[Iter, For]]
    problem: str | None = None


def check_split_axis(kernel: Kernel, buffer: str, dimension: int, size: int, *, numerics: Numerics) -> Verdict:
    """The dimension must be groups of ``size``, and whoever touches it must run through all of it by an iterator."""
    wrong = check_number("size", size, 1)
    if not wrong.ok:
        return wrong
    rank = find_buffer(kernel, buffer).rank
    if isinstance(dimension, bool) or not isinstance(dimension, int) or not 0 <= dimension < rank:
        return refuse(f"`{buffer}` has {rank} dimensions, counted from 0; {dimension} is none")
    count = find_buffer(kernel, buffer).shape[dimension]
    if not isinstance(count, Const) or int(count.value) % size:
        return refuse(f"dimension {dimension} of `{buffer}` is not groups of {size}")
    problem = _find(kernel, buffer, dimension).problem
    return check_valid(split_axis(kernel, buffer, dimension, size).kernel) if problem is None else refuse(problem)


@primitive(check_split_axis, "cannot split an axis of `{0}`")
def split_axis(kernel: Kernel, buffer: str, dimension: int, size: int) -> Rewrite:
    """Makes ``h_o`` and ``h_i`` of ``h`` in every block concerned."""
    found, taken = _find(kernel, buffer, dimension), taken_names(kernel)
    split = {name: _split(find_buffer(kernel, name), d, size) for name, d in found.places.items()}
    names = {name: tuple(fresh_name(f"{x.var.name}_{w}", taken) for w in "oi") for name, (_, x) in found.along.items()}
    fates = {x.var.name: f"was split into {', '.join(names[name])}" for name, (_, x) in found.along.items()}

    def visit(s: Stmt) -> Stmt:
        for name, (_, loop) in found.along.items():
            if s is loop:
                outer, inner = (Var(n) for n in names[name])
                body = For(inner, idx(0), idx(size), loop.kind, visit(loop.body), span=loop.span)
                return replace(loop, var=outer, hi=_over(loop.hi, size), body=body)
        if isinstance(s, Block) and s.name in found.along:
            return _in_groups(s, found.along[s.name][0], size, names[s.name], found.places, split, taken)
        if isinstance(s, Alloc) and s.buffer.name in split:
            s = replace(s, buffer=split[s.buffer.name])
        return rebuild(s, lambda n: visit(n) if isinstance(n, Stmt) else n)

    params = tuple(split.get(p.name, p) if isinstance(p, Buffer) else p for p in kernel.params)
    made = tuple(n for pair in names.values() for n in pair)
    return Rewrite(replace(kernel, params=params, body=visit(kernel.body)), made, fates)


def _in_groups(
    block: Block,
    old: Iter,
    size: int,
    loops: tuple[str, ...],
    places: dict[str, int],
    split: dict[str, Buffer],
    taken: set[str],
) -> Block:
    """``block`` with an iterator through groups and one through what is in each."""
    outer, inner = (Var(fresh_name(f"{old.var.name}_{w}", taken)) for w in "oi")
    iters: list[Iter] = []
    for i in block.iters:
        parts = ((outer, _over(old.hi, size), loops[0]), (inner, idx(size), loops[1]))
        iters += [Iter(v, idx(0), hi, old.kind, Var(n)) for v, hi, n in parts] if i is old else [i]

    def put(n: Node) -> Node | None:
        if not isinstance(n, (Load, Store, Atomic)) or n.buffer.name not in split:
            return None
        d = places[n.buffer.name]
        return replace(n, buffer=split[n.buffer.name], indices=(*n.indices[:d], outer, inner, *n.indices[d + 1 :]))

    ranges = {outer.name: Interval(0, int(old.hi.value) // size - 1), inner.name: Interval(0, size - 1)}  # type: ignore[attr-defined]
    whole: dict[Var, Expr] = {old.var: outer * size + inner}
    init, body = (
        None if part is None else simplify(substitute(rewrite(part, put), whole), ranges)
        for part in (block.init, block.body)
    )
    assert body is not None
    return declared_anew(replace(block, iters=tuple(iters), init=init, body=body))


@remembered
def _find(kernel: Kernel, buffer: str, dimension: int) -> _Found:
    """All that has to change together, starting from a dimension of ``buffer``."""
    found = _Found({buffer: dimension}, {})
    pending = [buffer]
    for name in pending:
        d = found.places[name]
        touched = [b for b in blocks_inside(kernel) if any(n == name for n, _ in accesses(b))]
        if not is_used_in_blocks(kernel, name, touched):
            return replace(found, problem=f"`{name}` is used outside of blocks; only uses along iterators can change")
        for block in touched:
            along = _along(kernel, block, name, d)
            if along is None or found.along.setdefault(block.name, along) != along:
                return replace(found, problem=f"`{block.name}` does not run through all of `{name}` by one iterator")
            for other, place in _places(block, along[0].var):
                if found.places.setdefault(other, place) != place:
                    return replace(found, problem=f"`{other}` has this axis in several places")
                pending += [other] if other not in pending else []
    return found


def _along(kernel: Kernel, block: Block, name: str, d: int) -> tuple[Iter, For] | None:
    """The iterator along which ``block`` runs through dimension ``d``, wherever it touches the buffer, and its loop."""
    iters = {i.var: i for i in block.iters}
    subscripts = {indices[d] for other, indices in accesses(block) if other == name}
    (first,) = subscripts if len(subscripts) == 1 else (None,)
    own = iters.get(first) if isinstance(first, Var) else None
    if own is None:
        return None
    loop = next((s for s in path_to(kernel, block) if isinstance(s, For) and s.var == own.binding), None)
    if loop is None or loop.kind != "serial" or len(blocks_inside(loop)) > 1:
        return None
    size = find_buffer(kernel, name).shape[d]
    return (own, loop) if (loop.lo, loop.hi, own.lo, own.hi) == (idx(0), size, idx(0), size) else None


def _places(block: Block, var: Var) -> Iterator[tuple[str, int]]:
    """Where subscripts are that iterator."""
    for name, indices in accesses(block):
        yield from ((name, d) for d, e in enumerate(indices) if e == var)


def _split(buffer: Buffer, d: int, size: int) -> Buffer:
    shape = (*buffer.shape[:d], _over(buffer.shape[d], size), idx(size), *buffer.shape[d + 1 :])
    strides = buffer.strides
    if strides is not None:
        strides = (*strides[:d], simplify(strides[d] * size), *strides[d:])
    return replace(buffer, shape=shape, strides=strides)


def _over(count: Expr, size: int) -> Expr:
    assert isinstance(count, Const)
    return idx(int(count.value) // size)
