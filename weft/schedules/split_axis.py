"""``split_axis``: a dimension that a program walks as groups of equal size, as two: which
group, and which of it (dimension splitting).

The heads of attention of which four share keys: ``Q[b, h, s, d]`` and ``K[b, h // 4, t, d]`` become
``Q[b, g, r, s, d]`` and ``K[b, g, t, d]``, in all blocks that walk along these heads and in all buffers that they touch
with that iterator. Blocks that walk groups already, ``Q[b, g * 4 + r, s, d]``, keep their iterators. Nothing moves: it
is the reverse of `merge_axes`. What one group has in common is then a subscript like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.ir.affine import linear_form
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
class _Along:
    """How a block runs through the dimension: its ``subscript``, and the iterator and the loop that become two; none
    where it has a subscript through ``groups`` already."""

    subscript: Expr
    old: Iter | None = None
    loop: For | None = None
    groups: tuple[Var, ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    """Buffers with the dimension that is split, and how each block runs through it; or why not."""

    places: dict[str, int]
    along: dict[str, _Along]
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
    problem = _find(kernel, buffer, dimension, size).problem
    return check_valid(split_axis(kernel, buffer, dimension, size).kernel) if problem is None else refuse(problem)


@primitive(check_split_axis, "cannot split an axis of `{0}`")
def split_axis(kernel: Kernel, buffer: str, dimension: int, size: int) -> Rewrite:
    """Makes ``h_o`` and ``h_i`` of ``h`` in every block concerned."""
    found, taken = _find(kernel, buffer, dimension, size), taken_names(kernel)
    split = {name: _split(find_buffer(kernel, name), d, size) for name, d in found.places.items()}
    loops = {name: x.loop for name, x in found.along.items() if x.loop is not None}
    names = {name: tuple(fresh_name(f"{x.var.name}_{w}", taken) for w in "oi") for name, x in loops.items()}
    fates = {x.var.name: f"was split into {', '.join(names[name])}" for name, x in loops.items()}

    def visit(s: Stmt) -> Stmt:
        for name, loop in loops.items():
            if s is loop:
                outer, inner = (Var(n) for n in names[name])
                body = For(inner, idx(0), idx(size), loop.kind, visit(loop.body), span=loop.span)
                return replace(loop, var=outer, hi=_over(loop.hi, size), body=body)
        if isinstance(s, Block) and s.name in found.along:
            along = found.along[s.name]
            if along.old is None:
                init, rest = _put(s, along.groups, found.places, split)
                return declared_anew(replace(s, init=init, body=rest))
            return _in_groups(s, along.old, size, names[s.name], found.places, split, taken)
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

    ranges = {outer.name: Interval(0, int(old.hi.value) // size - 1), inner.name: Interval(0, size - 1)}  # type: ignore[attr-defined]
    whole: dict[Var, Expr] = {old.var: outer * size + inner}
    init, body = (
        None if part is None else simplify(substitute(part, whole), ranges)
        for part in _put(block, (outer, inner), places, split)
    )
    assert body is not None
    return declared_anew(replace(block, iters=tuple(iters), init=init, body=body))


def _put(
    block: Block, groups: tuple[Var, ...], places: dict[str, int], split: dict[str, Buffer]
) -> tuple[Stmt | None, Stmt]:
    """How ``block`` starts and its body, with subscripts ``groups`` in place of one."""

    def put(n: Node) -> Node | None:
        if not isinstance(n, (Load, Store, Atomic)) or n.buffer.name not in split:
            return None
        d = places[n.buffer.name]
        return replace(n, buffer=split[n.buffer.name], indices=(*n.indices[:d], *groups, *n.indices[d + 1 :]))

    return None if block.init is None else rewrite(block.init, put), rewrite(block.body, put)


@remembered
def _find(kernel: Kernel, buffer: str, dimension: int, size: int) -> _Found:
    """All that has to change together, starting from a dimension of ``buffer``."""
    found = _Found({buffer: dimension}, {})
    pending = [buffer]
    for name in pending:
        d = found.places[name]
        touched = [b for b in blocks_inside(kernel) if any(n == name for n, _ in accesses(b))]
        if not is_used_in_blocks(kernel, name, touched):
            return replace(found, problem=f"`{name}` is used outside of blocks; only uses along iterators can change")
        for block in touched:
            along = _along(kernel, block, name, d, size)
            if along is None or found.along.setdefault(block.name, along) != along:
                return replace(found, problem=f"`{block.name}` does not run through all of `{name}` by one iterator")
            for other, place in _places(block, along.subscript):
                if found.places.setdefault(other, place) != place:
                    return replace(found, problem=f"`{other}` has this axis in several places")
                pending += [other] if other not in pending else []
    return found


def _along(kernel: Kernel, block: Block, name: str, d: int, size: int) -> _Along | None:
    """How ``block`` runs through dimension ``d`` wherever it touches the buffer; None where it is not by one iterator
    through all of it, nor by one through groups and one through each."""
    iters = {i.var: i for i in block.iters}
    subscripts = {indices[d] for other, indices in accesses(block) if other == name}
    (first,) = subscripts if len(subscripts) == 1 else (None,)
    count = find_buffer(kernel, name).shape[d]
    if not isinstance(first, Var):
        groups = () if first is None else _groups(first, iters, count, size)
        return None if first is None or not groups else _Along(first, groups=groups)
    own = iters.get(first)
    loop = next((s for s in path_to(kernel, block) if isinstance(s, For) and own and s.var == own.binding), None)
    if own is None or loop is None or loop.kind != "serial" or len(blocks_inside(loop)) > 1:
        return None
    is_whole = (loop.lo, loop.hi, own.lo, own.hi) == (idx(0), count, idx(0), count)
    return _Along(first, own, loop) if is_whole else None


def _groups(subscript: Expr, iters: dict[Var, Iter], count: Expr, size: int) -> tuple[Var, ...]:
    """The iterators through groups and through each, where ``subscript`` is made of them; none where it is not."""
    form = linear_form(subscript)
    by_factor = {factor: atom for atom, factor in form.terms.items()}
    outer, inner = by_factor.get(size), by_factor.get(1)
    if len(form.terms) != 2 or form.constant != 0 or not isinstance(outer, Var) or not isinstance(inner, Var):
        return ()
    if outer not in iters or inner not in iters:
        return ()
    ranges = [(iters[v].lo, iters[v].hi) for v in (outer, inner)]
    return (outer, inner) if ranges == [(idx(0), _over(count, size)), (idx(0), idx(size))] else ()


def _places(block: Block, subscript: Expr) -> Iterator[tuple[str, int]]:
    """Where subscripts are that one."""
    for name, indices in accesses(block):
        yield from ((name, d) for d, e in enumerate(indices) if e == subscript)


def _split(buffer: Buffer, d: int, size: int) -> Buffer:
    shape = (*buffer.shape[:d], _over(buffer.shape[d], size), idx(size), *buffer.shape[d + 1 :])
    strides = buffer.strides
    if strides is not None:
        strides = (*strides[:d], simplify(strides[d] * size), *strides[d:])
    return replace(buffer, shape=shape, strides=strides)


def _over(count: Expr, size: int) -> Expr:
    assert isinstance(count, Const)
    return idx(int(count.value) // size)
