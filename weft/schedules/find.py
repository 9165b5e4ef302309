"""Finding parts of a kernel by name, and what is known of the variables where they stand.

Loops, blocks and allocated buffers of a scheduled kernel have names of their own: see `rewrite.unique_names`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from weft.ir.buffer import Buffer
from weft.ir.errors import ScheduleError, did_you_mean
from weft.ir.expr import Var
from weft.ir.interval import Interval, ranges_through
from weft.ir.nesting import inner_statements, path_to
from weft.ir.stmt import Alloc, Block, For, Kernel, Seq, Stmt, Tensorized
from weft.ir.visit import fact, recently


class Listed(NamedTuple):
    """The statements of some kinds in a statement, parents first, in program order."""

    loops: tuple[For, ...] = ()
    blocks: tuple[Block, ...] = ()
    allocs: tuple[Alloc, ...] = ()
    tensorized: tuple[Tensorized, ...] = ()


@fact
def _listed(root: Stmt) -> Listed:
    """What is in ``root``, put together from its parts: asked over and over of the same program."""
    inner = inner_statements(root)
    if len(inner) == 1:
        below = _listed(inner[0])
    else:
        parts = zip(*map(_listed, inner))
        below = Listed(*(tuple(itertools.chain.from_iterable(kind)) for kind in parts))
    loops, blocks, allocs, tensorized = below
    match root:
        case For():
            return Listed((root, *loops), blocks, allocs, tensorized)
        case Alloc():
            return Listed(loops, blocks, (root, *allocs), tensorized)
        case Block():
            return Listed(loops, (root, *blocks), allocs, tensorized)
        case Tensorized():
            return Listed(loops, blocks, allocs, (root, *tensorized))
    return below


def listed(root: Kernel | Stmt) -> Listed:
    return _listed(root.body if isinstance(root, Kernel) else root)


@fact
def _nests(root: Stmt) -> tuple[Stmt, ...]:
    if not isinstance(root, (Seq, Alloc)):
        return (root,)
    return tuple(itertools.chain.from_iterable(map(_nests, inner_statements(root))))


def top_nests(kernel: Kernel) -> tuple[Stmt, ...]:
    """The statements outside all loops and tests, in order."""
    return _nests(kernel.body)


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


def size_ranges(kernel: Kernel) -> dict[str, Interval]:
    """What is known of scalar parameters: sizes of buffers are not negative."""
    sizes = [e.name for b in kernel.buffers for e in b.shape if isinstance(e, Var)]
    return {name: Interval(0, None) for name in sizes}


def ranges_at(kernel: Kernel, node: Stmt) -> dict[str, Interval]:
    """What sizes and the loops around ``node`` can be there."""
    return dict(_ranges_at(kernel, node))


@recently(12)  # a check and the rewrite behind it ask for the same
def _ranges_at(kernel: Kernel, node: Stmt) -> dict[str, Interval]:
    return ranges_through(loops_around(kernel, node), size_ranges(kernel))
