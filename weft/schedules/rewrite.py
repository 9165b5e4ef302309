"""Finding and replacing parts of a kernel: what every primitive is written with.

Loops, blocks and allocated buffers are known by name, so `unique_names` gives each a name of its
own first, and primitives keep it so: new names come from `taken_names` and `fresh_name`, and a
second copy of a statement from `fresh_copy`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from weft.ir.buffer import Buffer
from weft.ir.errors import InternalError, ScheduleError, did_you_mean
from weft.ir.expr import Expr, Reduce, Var
from weft.ir.interval import Interval, bounds, half_open
from weft.ir.nesting import find_path, inner_statements, sequence
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Block, For, If, Iter, Kernel, Let, Seq, Stmt, Store, Tensorized
from weft.ir.visit import fact, fresh_name, rebuild, replace_buffers, substitute, used_names, walk

S = TypeVar("S", bound=Stmt)
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What a primitive did: the new program, the names it made, and what became of names that are gone.

    ``made`` has loops, blocks and buffers in the order the `Schedule` method returns them; a fate
    completes the sentence "loop `m` ...": ``{"m": "was split into m_o and m_i"}``.
    """

    kernel: Kernel
    made: tuple[str, ...] = ()
    fates: Mapping[str, str] = field(default_factory=dict)


_KEPT = 16


def remembered(primitive: Callable[Concatenate[Kernel, P], Rewrite]) -> Callable[Concatenate[Kernel, P], Rewrite]:
    """``primitive`` keeping its last few answers: a check looks at the outcome just before it is wanted."""
    kept: dict[tuple[object, ...], tuple[Kernel, Rewrite]] = {}

    @wraps(primitive)
    def answer(kernel: Kernel, /, *args: P.args, **kwargs: P.kwargs) -> Rewrite:
        key = (id(kernel), *(a if isinstance(a, Buffer) else repr(a) for a in args), repr(kwargs))
        entry = kept.get(key)
        if entry is not None and entry[0] is kernel:
            return entry[1]
        done = primitive(kernel, *args, **kwargs)
        while len(kept) >= _KEPT:
            kept.pop(next(iter(kept)), None)
        kept[key] = (kernel, done)
        return done

    return answer


# Finding


def statements(root: Kernel | Stmt) -> Iterator[Stmt]:
    """Every statement of ``root``, parents first, in program order."""
    pending = [root.body if isinstance(root, Kernel) else root]
    while pending:
        stmt = pending.pop()
        yield stmt
        if isinstance(stmt, For):  # the common case, for speed
            pending.append(stmt.body)
        elif not isinstance(stmt, Store):
            pending.extend(reversed(inner_statements(stmt)))


@dataclass(frozen=True, slots=True)
class Listed:
    """The statements of some kinds in a statement, parents first, in program order."""

    loops: tuple[For, ...]
    blocks: tuple[Block, ...]
    allocs: tuple[Alloc, ...]
    tensorized: tuple[Tensorized, ...]


@fact
def _named(root: Stmt) -> tuple[Stmt, ...]:
    """The statements of those kinds, put together from the parts of ``root``."""
    inner = tuple(itertools.chain.from_iterable(map(_named, inner_statements(root))))
    return (root, *inner) if isinstance(root, (For, Block, Alloc, Tensorized)) else inner


@fact
def _listed(root: Stmt) -> Listed:
    """What is in ``root``: asked over and over of the same program."""
    named = _named(root)
    return Listed(
        tuple(s for s in named if isinstance(s, For)),
        tuple(s for s in named if isinstance(s, Block)),
        tuple(s for s in named if isinstance(s, Alloc)),
        tuple(s for s in named if isinstance(s, Tensorized)),
    )


def listed(root: Kernel | Stmt) -> Listed:
    return _listed(root.body if isinstance(root, Kernel) else root)


def all_loops(root: Kernel | Stmt) -> list[For]:
    return list(listed(root).loops)


def blocks_inside(root: Kernel | Stmt) -> list[Block]:
    """The blocks of ``root`` in program order; blocks inside blocks come after the outer one."""
    return list(listed(root).blocks)


def all_allocs(root: Kernel | Stmt) -> list[Alloc]:
    return list(listed(root).allocs)


def find_loop(kernel: Kernel, name: str) -> For:
    for loop in listed(kernel).loops:
        if loop.var.name == name:
            return loop
    raise unknown("loop", name, [loop.var.name for loop in all_loops(kernel)])


def find_block(kernel: Kernel, name: str) -> Block:
    for block in blocks_inside(kernel):
        if block.name == name:
            return block
    raise unknown("block", name, [b.name for b in blocks_inside(kernel)])


def find_alloc(kernel: Kernel, name: str) -> Alloc:
    """Where the temporary ``name`` is allocated."""
    for alloc in all_allocs(kernel):
        if alloc.buffer.name == name:
            return alloc
    raise unknown("temporary", name, [a.buffer.name for a in all_allocs(kernel)])


def find_buffer(kernel: Kernel, name: str) -> Buffer:
    """A parameter or an allocated buffer."""
    buffers = {b.name: b for b in (*kernel.buffers, *(a.buffer for a in all_allocs(kernel)))}
    if name not in buffers:
        raise unknown("buffer", name, list(buffers))
    return buffers[name]


_PLURALS = {
    "temporary": "temporaries",
    "block or loop": "blocks and loops",
    "size or scalar": "sizes and scalars",
}


def unknown(what: str, name: str, candidates: Iterable[str]) -> ScheduleError:
    """The error for a name that is not there: what there is, and what was probably meant."""
    listed = list(dict.fromkeys(candidates))
    plural = _PLURALS.get(what, f"{what}s")
    return ScheduleError(
        f"there is no {what} `{name}`",
        why=f"the {plural} are {', '.join(listed)}" if listed else f"the program has no {plural}",
        help=did_you_mean(name, listed),
    )


def path_to(root: Kernel | Stmt, node: Stmt) -> list[Stmt]:
    """The statements from the body of ``root`` down to ``node`` itself (found by identity)."""
    path = find_path(root.body if isinstance(root, Kernel) else root, node)
    if path is None:
        raise InternalError("a statement to be rewritten is not in the program")
    return path


def node_of(kernel: Kernel, name: str) -> For | Block:
    """The block called ``name``, or else the loop."""
    for block in blocks_inside(kernel):
        if block.name == name:
            return block
    for loop in all_loops(kernel):
        if loop.var.name == name:
            return loop
    raise unknown(
        "block or loop", name, [*(b.name for b in blocks_inside(kernel)), *(f.var.name for f in all_loops(kernel))]
    )


def loops_around(kernel: Kernel, node: str | Stmt) -> list[For]:
    """The loops enclosing a statement (or the block, or else loop, of that name), outermost first."""
    target_node = node_of(kernel, node) if isinstance(node, str) else node
    return [s for s in path_to(kernel, target_node)[:-1] if isinstance(s, For)]


def loop_chain(outer: For, inner: For) -> list[Stmt] | None:
    """The statements from ``outer`` down to ``inner``; None where ``inner`` is not inside ``outer``."""
    return find_path(outer, inner)


def nest_of(kernel: Kernel, block: Block) -> Stmt:
    """The outermost statement that holds ``block`` and no other block."""
    path = path_to(kernel, block)
    for s in path:
        if len(blocks_inside(s)) == 1:
            return s
    return block


def size_ranges(kernel: Kernel) -> dict[str, Interval]:
    """What is known of scalar parameters: sizes of buffers are not negative."""
    sizes = [e.name for b in kernel.buffers for e in b.shape if isinstance(e, Var)]
    return {name: Interval(0, None) for name in sizes}


def ranges_at(kernel: Kernel, node: Stmt) -> dict[str, Interval]:
    """What sizes and the loops around ``node`` can be there."""
    ranges = size_ranges(kernel)
    for loop in loops_around(kernel, node):
        ranges[loop.var.name] = loop_range(loop, ranges)
    return ranges


def loop_range(loop: For, ranges: Mapping[str, Interval]) -> Interval:
    return half_open(bounds(loop.lo, ranges), bounds(loop.hi, ranges))


# Replacing


def replace_stmt(kernel: Kernel, old: Stmt, new: Stmt) -> Kernel:
    """``kernel`` with the one statement ``old`` (found by identity) replaced."""
    return replace(kernel, body=replace_in(kernel.body, old, new))


def replace_in(root: Stmt, old: Stmt, new: Stmt) -> Stmt:
    below = old
    for parent in path_to(root, old)[-2::-1]:
        made = _with_child(parent, below, new)
        below, new = parent, made
    return new


def _with_child(parent: Stmt, old: Stmt, new: Stmt) -> Stmt:
    if isinstance(parent, Seq):
        return sequence([new if s is old else s for s in parent.body])
    return rebuild(parent, lambda n: new if n is old else n)


def replace_vars(root: S, values: Mapping[Var, Expr], ranges: Mapping[str, Interval]) -> S:
    """``root`` with loop variables replaced, and the bounds, guards and bindings below simplified."""
    return simplify_bounds(substitute(root, values), ranges)


def simplify_bounds(root: S, ranges: Mapping[str, Interval]) -> S:
    """Loop bounds, guards and block bindings below ``root`` simplified; no loop, branch or block goes away."""

    def child(n: Any) -> Any:
        return simplify_bounds(n, ranges) if isinstance(n, Stmt) else n

    match root:
        case For():
            lo, hi = simplify(root.lo, ranges), simplify(root.hi, ranges)
            inner = {**ranges, root.var.name: half_open(bounds(lo, ranges), bounds(hi, ranges))}
            return replace(root, lo=lo, hi=hi, body=simplify_bounds(root.body, inner))
        case If():
            parts = {"then": child(root.then), "otherwise": child(root.otherwise)}
            return replace(root, condition=simplify(root.condition, ranges), **parts)
        case Block():
            iters = tuple(
                Iter(i.var, simplify(i.lo, ranges), simplify(i.hi, ranges), i.kind, simplify(i.binding, ranges))
                for i in root.iters
            )
            return replace(root, iters=iters)
    return rebuild(root, child)


# Names


def taken_names(kernel: Kernel) -> set[str]:
    """Every name in use: variables, buffers, blocks."""
    return used_names(kernel) | {b.name for b in blocks_inside(kernel)}


def unique_names(kernel: Kernel) -> Kernel:
    """Every loop variable, ``let``, block and allocated buffer named apart from all others.

    The first keeps its name, except that loops which only initialize (``C_init``, ``C_fill``) or check
    leave the plain names to the computation they prepare: which of those there are depends on what
    is known of the sizes, and a schedule must fit either way.
    """
    params = {p.name for p in kernel.params}
    local = {i.var.name for b in blocks_inside(kernel) for i in b.iters}
    local |= {a.var.name for n in walk(kernel.body) if isinstance(n, Reduce) for a in n.axes}
    variables, blocks = params | local, set[str]()
    nodes = list(statements(kernel))
    names: dict[int, str] = {}
    for prepares in (False, True):
        for position, s in enumerate(nodes):
            if _prepares(s) != prepares:
                continue
            if isinstance(s, Block):
                names[position] = fresh_name(s.name, blocks)
            elif isinstance(s, (For, Let)):
                names[position] = fresh_name(s.var.name, variables)
            elif isinstance(s, Alloc):
                names[position] = fresh_name(s.buffer.name, variables)
    return replace(kernel, body=_rename(kernel.body, itertools.count(), names))


def _prepares(s: Stmt) -> bool:
    if not isinstance(s, (For, Block)):
        return False
    return all(b.name.endswith(("_init", "_fill")) for b in blocks_inside(s))


def fresh_copy(root: S, taken: set[str], suffix: str = "") -> S:
    """A second copy of ``root`` for the same kernel: everything it binds is renamed apart from ``taken``."""
    names = {}
    for position, s in enumerate(statements(root)):
        name = s.name if isinstance(s, Block) else s.var.name if isinstance(s, (For, Let)) else None
        if isinstance(s, Alloc):
            name = s.buffer.name
        if name is not None:
            names[position] = fresh_name(name + suffix, taken)
    return _rename(root, itertools.count(), names)


def _rename(root: S, positions: Iterator[int], names: Mapping[int, str]) -> S:
    """``root`` with its binding statements, counted parents first, named as ``names`` says."""
    name = names.get(next(positions))
    renamed = rebuild(root, lambda n: _rename(n, positions, names) if isinstance(n, Stmt) else n)
    if name is None:
        return renamed
    result: Any = renamed
    if isinstance(renamed, Block):
        result = renamed if renamed.name == name else replace(renamed, name=name)
    elif isinstance(renamed, (For, Let)) and renamed.var.name != name:
        var = replace(renamed.var, name=name)
        result = replace(renamed, var=var, body=substitute(renamed.body, {renamed.var: var}))
    elif isinstance(renamed, Alloc) and renamed.buffer.name != name:
        buffer = replace(renamed.buffer, name=name)
        result = Alloc(buffer, replace_buffers(renamed.body, {renamed.buffer: buffer}), span=renamed.span)
    return result  # type: ignore[no-any-return]


__all__ = [
    "Listed", "Rewrite", "all_allocs", "all_loops", "blocks_inside", "find_alloc", "find_block", "find_buffer",
    "find_loop", "fresh_copy", "fresh_name", "listed", "loop_chain", "loop_range", "loops_around", "nest_of",
    "node_of", "path_to", "ranges_at", "remembered", "replace_in", "replace_stmt", "replace_vars", "sequence",
    "simplify_bounds", "size_ranges", "statements", "taken_names", "unique_names", "unknown",
]  # fmt: skip
