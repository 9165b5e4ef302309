"""How the iterators of stages correspond: which one of a reader walks through which one of what it reads.

In softmax, ``O(m,n) = E(m,n) / Total(m)`` and ``Total(m) +=! E(m,n)``: the ``m`` of all three is one and the same, so
all three can be computed row by row. The ``n`` of ``Total`` runs through a whole row for each element, so it is no
counterpart of the ``n`` of ``O``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from weft.auto.stages import Stage, StageAccess, Stages

#: Iterators of one stage by the iterator of another (the last of a chain) that they go along with.
Alignment = Mapping[str, str]


def own_alignment(anchor: Stage) -> Alignment:
    """Every iterator that subscripts the result goes along with itself."""
    return {i.name: i.name for i in anchor.spatial if i.loop is not None}


def align_producer(stage: Stage, readers: Mapping[str, Alignment], stages: Stages | Mapping[str, Stage]) -> Alignment:
    """The alignment of ``stage`` from those of all ``readers`` of what it writes: what these agree on."""
    found: dict[str, str] | None = None
    for reader, alignment in readers.items():
        for access in stages[reader].reads:
            if access.buffer.name == stage.write.buffer.name:
                here = _through(stage.write, access, alignment)
                found = here if found is None else {k: v for k, v in found.items() if here.get(k) == v}
    return found or {}


def counterparts(stage: Stage, reader: Stage) -> dict[str, str]:
    """The iterator of ``reader``, which reads what ``stage`` writes, by those of ``stage`` that it goes along with."""
    return dict(align_producer(stage, {reader.name: own_alignment(reader)}, {reader.name: reader}))


def align_reader(reader: Stage, producer: Stage, alignment: Alignment) -> Alignment:
    """The alignment of another ``reader`` of ``producer``, from the producer's own."""
    found: dict[str, str] = {}
    for access in reader.reads:
        if access.buffer.name == producer.write.buffer.name:
            found |= _through(access, producer.write, alignment)
    return {k: v for k, v in found.items() if not reader.by_name[k].is_reduction}


def _through(inner: StageAccess, outer: StageAccess, alignment: Alignment) -> dict[str, str]:
    """For each dimension that both subscript with an iterator alone: that of ``inner`` by what that of ``outer`` is."""
    fields: dict[str, str] = {}
    for one, other, a, b in zip(inner.rows or (), outer.rows or (), inner.offsets, outer.offsets):
        if len(one) == len(other) == 1 and a == b is not None:
            ((name, step),), ((theirs, pace),) = one.items(), other.items()
            if step == pace == 1 and theirs in alignment:
                fields[name] = alignment[theirs]
    return fields


@dataclass(frozen=True, slots=True)
class ChainTile:
    """Iterator ``name`` of a chain's anchor, ``size`` of its values at a time; ``why`` is told."""

    name: str
    size: int
    why: str = field(default="", compare=False)


@dataclass(frozen=True)
class Chain:
    """Stages by name with their alignments, ``anchor`` among them; ``sinks`` are other results among them."""

    stages: Stages
    anchor: Stage
    alignments: Mapping[str, Alignment]
    sinks: tuple[str, ...] = ()
    #: shared iterators that are left to the nests inside
    left_inside: frozenset[str] = frozenset()
    tile: ChainTile | None = None
    #: an iterator of the anchor that threads share out though others do not go along with it
    strips: ChainTile | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """The stages that are in it."""
        return tuple(sorted(self.alignments))

    @property
    def members(self) -> list[Stage]:
        return [self.stages[name] for name in self.alignments]

    @property
    def shared(self) -> tuple[str, ...]:
        """The iterators of the anchor that every stage goes along with."""
        common = set.intersection(*(set(a.values()) for a in self.alignments.values()))
        return tuple(i.name for i in self.anchor.spatial if i.name in common - self.left_inside)

    def with_stages(self, more: Mapping[str, Alignment], sinks: list[str]) -> Chain:
        return replace(self, alignments={**self.alignments, **more}, sinks=(*self.sinks, *sinks))

    def extent(self, shared: str) -> int:
        return self.anchor.by_name[shared].count

    def counterpart(self, stage: Stage, shared: str) -> str | None:
        """The iterator of ``stage`` that goes along with ``shared``."""
        return next((own for own, theirs in self.alignments[stage.name].items() if theirs == shared), None)

    def footprint(self, stage: Stage, access: StageAccess, fixed: tuple[str, ...] = ()) -> int:
        """Elements that ``access`` touches while the shared iterators ``fixed`` stand still."""
        still = {own for own, theirs in self.alignments[stage.name].items() if theirs in fixed}
        count = 1
        for row in access.rows or ():
            steps = (abs(c) * (stage.by_name[n].count - 1) for n, c in row.items() if n not in still)
            count *= 1 + sum(steps)
        return count

    @property
    def kept_bytes(self) -> int:
        """Bytes of temporaries in one round of all shared loops."""
        inner = [s for s in self.members if not self.stages.is_output(s)]
        return sum(self.footprint(s, s.write, self.shared) * s.write.buffer.dtype.itemsize for s in inner)

    @property
    def work(self) -> int:
        """Operations of all stages together."""
        return sum(s.points * max(1, s.operations) for s in self.members)
