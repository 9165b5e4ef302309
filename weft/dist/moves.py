"""From one layout to another: the collectives, each along one axis of the mesh, and the bytes they send.

>>> steps(Layout((Partial("+"),)), Layout((Split(0),)))      # [ReduceScatter(axis=0, op='+', dim=0)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from weft.dist.layout import REPLICATED, Layout, Partial, Split, held
from weft.dist.mesh import Mesh
from weft.tensor.program import AssignOp


@dataclass(frozen=True, slots=True)
class AllReduce:
    """What the ranks have combined; all have the result."""

    axis: int
    op: AssignOp


@dataclass(frozen=True, slots=True)
class ReduceScatter:
    """What the ranks have combined; each has its piece of the result."""

    axis: int
    op: AssignOp
    dim: int


@dataclass(frozen=True, slots=True)
class AllGather:
    """The pieces put together; all have them."""

    axis: int
    dim: int


@dataclass(frozen=True, slots=True)
class AllToAll:
    """Pieces of one dimension become pieces of another."""

    axis: int
    gathered: int
    split: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Each rank keeps its piece of what all have; nothing is sent."""

    axis: int
    dim: int


@dataclass(frozen=True, slots=True)
class Keep:
    """The first rank keeps what all have, the others hold what ``op`` leaves unchanged; nothing is sent."""

    axis: int
    op: AssignOp


@dataclass(frozen=True, slots=True)
class Trim:
    """Halos are dropped; nothing is sent."""


@dataclass(frozen=True, slots=True)
class Halo:
    """Each rank gets the ends of its neighbours' pieces."""

    dim: int
    before: int
    after: int


Step: TypeAlias = "AllReduce | ReduceScatter | AllGather | AllToAll | Slice | Keep | Trim | Halo"


def steps(source: Layout, target: Layout) -> list[Step]:
    """The collectives that turn ``source`` into ``target``, in order."""
    if source == target:
        return []
    found: list[Step] = [Trim()] if source.halo else []
    whole = _combine(source.without_halo(), target)
    now = source.without_halo()
    for step in whole:
        now = after_step(step, now)
    return [*found, *whole, *_regroup(now, target), *(Halo(*reach) for reach in target.halo)]


def after_step(step: Step, layout: Layout) -> Layout:
    """The layout of a tensor that had ``layout`` before the step."""
    match step:
        case AllReduce(axis) | AllGather(axis):
            return layout.changed(axis, REPLICATED)
        case ReduceScatter(axis, _, dim) | AllToAll(axis, _, dim) | Slice(axis, dim):
            return layout.changed(axis, Split(dim))
        case Keep(axis, op):
            return layout.changed(axis, Partial(op))
        case Trim():
            return layout.without_halo()
        case Halo(dim, before, after):
            return Layout(layout.axes, (*layout.halo, (dim, before, after)))


def _combine(now: Layout, target: Layout) -> list[Step]:
    """Parts that the target does not want as parts, innermost axis first."""
    found: list[Step] = []
    for axis in reversed(range(len(now.axes))):
        kind, wanted = now.axes[axis], target.axes[axis]
        if not isinstance(kind, Partial) or kind == wanted:
            continue
        scatters = isinstance(wanted, Split) and _is_innermost(now, axis, wanted.dim) and _agree(now, target, axis)
        dim = wanted.dim if isinstance(wanted, Split) else 0
        step: Step = ReduceScatter(axis, kind.op, dim) if scatters else AllReduce(axis, kind.op)
        now = after_step(step, now)
        found.append(step)
    return found


def _is_innermost(layout: Layout, axis: int, dim: int) -> bool:
    """Whether no axis of the mesh after ``axis`` splits ``dim``."""
    return all(a < axis for a in layout.splitting(dim) if a != axis)


def _agree(now: Layout, target: Layout, axis: int) -> bool:
    """Whether the axes before ``axis`` that split or shall split its new dimension do so already."""
    wanted = target.axes[axis]
    return all((now.axes[a] == wanted) == (target.axes[a] == wanted) for a in range(axis))


def _regroup(now: Layout, target: Layout) -> list[Step]:
    """Splits that differ: gathered from the innermost axis outward, split again from the outermost inward."""
    found: list[Step] = []
    for axis in reversed(range(len(now.axes))):
        kind, wanted = now.axes[axis], target.axes[axis]
        if not isinstance(kind, Split) or (kind == wanted and _agree(now, target, axis)):
            continue
        direct = isinstance(wanted, Split) and kind != wanted and _is_innermost(now, axis, wanted.dim)
        if isinstance(wanted, Split) and direct and _agree(now, target, axis):
            found.append(AllToAll(axis, kind.dim, wanted.dim))
        else:
            found.append(AllGather(axis, kind.dim))
        now = after_step(found[-1], now)
    for axis, wanted in enumerate(target.axes):
        if now.axes[axis] == wanted:
            continue
        found.append(Slice(axis, wanted.dim) if isinstance(wanted, Split) else Keep(axis, _op(wanted)))
    return found


def _op(wanted: object) -> AssignOp:
    assert isinstance(wanted, Partial), "what is to be replicated is by now"
    return wanted.op


def bytes_sent(step: Step, shape: Sequence[int], itemsize: int, before: Layout, mesh: Mesh) -> int:
    """The most bytes that one rank sends in the step, by the ring algorithm where there is one."""
    size = max(_count(shape, before, mesh, rank) for rank in range(mesh.count)) * itemsize
    match step:
        case AllReduce(axis):
            return 2 * _others(size, mesh.sizes[axis])
        case ReduceScatter(axis) | AllToAll(axis):
            return _others(size, mesh.sizes[axis])
        case AllGather(axis):
            return size * (mesh.sizes[axis] - 1)
        case Halo():
            after = after_step(step, before)
            return max(_grown(shape, before, after, mesh, rank) for rank in range(mesh.count)) * itemsize
    return 0


def _others(size: int, ranks: int) -> int:
    """The bytes of ``size`` that belong to other ranks."""
    return -(-size // ranks) * (ranks - 1)


def _count(shape: Sequence[int], layout: Layout, mesh: Mesh, rank: int) -> int:
    return prod(hi - lo for lo, hi in held(shape, layout, mesh, rank))


def _grown(shape: Sequence[int], before: Layout, after: Layout, mesh: Mesh, rank: int) -> int:
    return _count(shape, after, mesh, rank) - _count(shape, before, mesh, rank)
