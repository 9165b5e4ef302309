"""Where the elements of a tensor are: for each axis of the mesh split, replicated, or a part of what is meant.

Axes of a mesh that split one dimension do so one within the other, in the order of the mesh. Every rank has
``ceil(size / ranks)`` elements of what is split, the last ones fewer or none (as `torch.chunk` and DTensor do).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from weft.dist.mesh import Mesh
from weft.tensor.program import AssignOp

#: A half-open range of positions.
Span: TypeAlias = "tuple[int, int]"
Box: TypeAlias = "tuple[Span, ...]"


@dataclass(frozen=True, slots=True)
class Replicated:
    """Every rank has all of it."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, slots=True)
class Split:
    """Each rank has a piece of dimension ``dim``."""

    dim: int

    def __str__(self) -> str:
        return f"S{self.dim}"


@dataclass(frozen=True, slots=True)
class Partial:
    """Every rank has an array for all of it; the tensor is these combined by ``op``."""

    op: AssignOp

    def __str__(self) -> str:
        return f"P({self.op})"


AxisLayout: TypeAlias = "Replicated | Split | Partial"
REPLICATED = Replicated()


@dataclass(frozen=True, slots=True)
class Layout:
    """One `AxisLayout` for each axis of the mesh, and for each dimension how far pieces reach into their neighbours'.

    ``halo`` holds (dimension, elements before, elements after) for split dimensions that have one.
    """

    axes: tuple[AxisLayout, ...]
    halo: tuple[tuple[int, int, int], ...] = ()

    def __str__(self) -> str:
        reach = "".join(f" halo {d}: {before}+{after}" for d, before, after in self.halo)
        return "[" + ", ".join(map(str, self.axes)) + "]" + reach

    def splitting(self, dim: int) -> tuple[int, ...]:
        """The axes of the mesh that split ``dim``, outermost first."""
        return tuple(a for a, kind in enumerate(self.axes) if kind == Split(dim))

    def without_halo(self) -> Layout:
        return Layout(self.axes)

    def changed(self, axis: int, to: AxisLayout) -> Layout:
        """With another layout along one axis of the mesh, and no halo."""
        return Layout((*self.axes[:axis], to, *self.axes[axis + 1 :]))

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions that are split."""
        return tuple(sorted({kind.dim for kind in self.axes if isinstance(kind, Split)}))


def replicated(mesh: Mesh) -> Layout:
    return Layout((REPLICATED,) * len(mesh.sizes))


def piece(whole: Span, ranks: int, rank: int) -> Span:
    """The part of ``whole`` that the ``rank``-th of ``ranks`` has."""
    lo, hi = whole
    step = -(-(hi - lo) // ranks)
    return min(lo + step * rank, hi), min(lo + step * (rank + 1), hi)


def nested_piece(whole: Span, axes: Sequence[int], mesh: Mesh, rank: int) -> Span:
    """The part of ``whole`` that ``rank`` has where ``axes`` of the mesh split it one within the other."""
    at = mesh.coordinates(rank)
    for axis in axes:
        whole = piece(whole, mesh.sizes[axis], at[axis])
    return whole


def owned(shape: Sequence[int], layout: Layout, mesh: Mesh, rank: int) -> Box:
    """What ``rank`` has of a tensor, its halo not counted."""
    return tuple(nested_piece((0, size), layout.splitting(d), mesh, rank) for d, size in enumerate(shape))


def held(shape: Sequence[int], layout: Layout, mesh: Mesh, rank: int) -> Box:
    """What ``rank`` has of a tensor with its halo."""
    box = list(owned(shape, layout, mesh, rank))
    for dim, before, after in layout.halo:
        lo, hi = box[dim]
        box[dim] = max(lo - before, 0), min(hi + after, shape[dim])
    return tuple(box)
