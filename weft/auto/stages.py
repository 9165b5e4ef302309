"""What the scheduler knows of each block of a loop program: iterators, accesses, work (`read_stages` finds it out)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from weft.ir.buffer import Buffer
from weft.ir.expr import Const, Expr
from weft.ir.stmt import Block
from weft.ir.visit import free_vars
from weft.target.cpu.emit_stepped import SHORT_STEPS

#: Elements between neighbours of which the code generator still picks lanes from whole vectors.
NEAR_STEPS = (1, *SHORT_STEPS)


@dataclass(frozen=True, slots=True)
class StageIter:
    """An iterator of a block, as it runs in the block's own nest.

    ``loop`` is the loop of the nest it is bound to, where it is bound to one alone; ``extent`` is how often that runs:
    1 for an iterator that loops shared with other blocks give a value. A loop whose range depends on others runs so
    often at most: its extent is not ``exact``, and in ``short`` of all cases it runs less often.
    """

    name: str
    loop: str | None
    extent: int | None
    is_reduction: bool
    exact: bool = True
    short: float = 0.0

    @property
    def count(self) -> int:
        """How often it runs, about: an unknown extent counts as some."""
        return UNKNOWN_EXTENT if self.extent is None else self.extent


@dataclass(frozen=True)
class StageAccess:
    """One access of a block; ``rows`` has, per dimension of the buffer, the coefficient of each iterator.

    ``rows`` is None where a subscript is not affine in the iterators (a lookup). ``offsets`` has the constant of each
    subscript (None where there is a size in it). ``guarded`` accesses are made at some points only, or are others near
    the borders of the buffer.
    """

    buffer: Buffer
    rows: tuple[Mapping[str, int], ...] | None
    is_write: bool
    guarded: bool
    offsets: tuple[int | None, ...] = ()

    @property
    def is_affine(self) -> bool:
        return self.rows is not None

    def uses(self, name: str) -> bool:
        """Whether which element is touched depends on iterator ``name``; a lookup may depend on all."""
        return self.rows is None or name in self._used

    @cached_property
    def _used(self) -> frozenset[str]:
        return frozenset(name for row in self.rows or () for name, coefficient in row.items() if coefficient)

    @cached_property
    def _element_strides(self) -> tuple[Expr, ...]:
        return self.buffer.element_strides()

    def stride(self, name: str) -> int | None:
        """Elements of memory from one point along ``name`` to the next; None where that is not one number."""
        if self.rows is None:
            return None
        if name not in self._used:
            return 0
        total = 0
        for row, step in zip(self.rows, self._element_strides):
            if coefficient := row.get(name, 0):
                if not isinstance(step, Const):
                    return None
                total += coefficient * int(step.value)
        return total

    def subscript_of(self, name: str) -> int | None:
        """The dimension whose subscript is exactly ``name`` plus a constant, where no other depends on it."""
        if self.rows is None:
            return None
        used = [d for d, row in enumerate(self.rows) if row.get(name)]
        if len(used) != 1:
            return None
        row = self.rows[used[0]]
        return used[0] if row[name] == 1 and sum(c != 0 for c in row.values()) == 1 else None


@dataclass(frozen=True)
class Stage:
    """A block of the program and the loops of its own nest, outermost first.

    Loops around several blocks are ``outer``: they are settled, and a strategy works on the nest inside them. The
    first of them may be the ``steps`` of a recurrence.
    """

    name: str
    block: Block
    loops: tuple[str, ...]
    iters: tuple[StageIter, ...]
    write: StageAccess
    reads: tuple[StageAccess, ...]
    #: what one point costs, in multiplications (see `costs`)
    operations: int
    #: "+", "*", "min", "max" for a reduction onto the target; "=" otherwise
    op: str
    position: int = field(compare=False, default=0)
    outer: tuple[str, ...] = ()
    outer_counts: tuple[int, ...] = ()
    steps: int = 0

    @property
    def look(self) -> tuple[object, ...]:
        """What tells variants of one block apart: how often its loops run, and which loops it shares with others."""
        return (id(self.block), self.iters, self.outer, self.outer_counts)

    @cached_property
    def by_name(self) -> dict[str, StageIter]:
        return {i.name: i for i in self.iters}

    @property
    def is_inside(self) -> bool:
        """Whether other stages run in its outer loops, too, in which it was put: steps of a recurrence aside."""
        return len(self.outer) > self.steps

    @cached_property
    def spatial(self) -> tuple[StageIter, ...]:
        return tuple(i for i in self.iters if not i.is_reduction)

    @cached_property
    def reductions(self) -> tuple[StageIter, ...]:
        return tuple(i for i in self.iters if i.is_reduction)

    @property
    def accesses(self) -> tuple[StageAccess, ...]:
        return (self.write, *self.reads)

    @cached_property
    def distinct_reads(self) -> tuple[StageAccess, ...]:
        """What is loaded at one point, each element once."""
        seen: dict[object, StageAccess] = {}
        for a in self.reads:
            rows = None if a.rows is None else tuple(tuple(sorted(r.items())) for r in a.rows)
            seen.setdefault((a.buffer.name, a.offsets, rows), a)
        return tuple(seen.values())

    @cached_property
    def points(self) -> int:
        """How many points there are; unknown extents count as some."""
        return prod(i.count for i in self.iters)

    @property
    def is_empty(self) -> bool:
        """Whether it never runs."""
        return self.points == 0 or 0 in self.outer_counts

    @property
    def is_affine(self) -> bool:
        return all(a.is_affine for a in self.accesses)

    @property
    def reads_target(self) -> bool:
        """Whether it reads what it writes other than to accumulate (a scan, an in-place update)."""
        return any(a.buffer.name == self.write.buffer.name for a in self.reads)

    @property
    def is_scan(self) -> bool:
        """Whether its elements depend on one another: in a step an element may be updated in place."""
        own = [a for a in self.reads if a.buffer.name == self.write.buffer.name]
        in_place = [a.rows is not None and (a.rows, a.offsets) == (self.write.rows, self.write.offsets) for a in own]
        return bool(own) and not (self.steps and all(in_place))

    def loop_of(self, name: str) -> str:
        """The loop of an iterator that has one to itself."""
        loop = self.by_name[name].loop
        assert loop is not None, name
        return loop

    def home_of(self, access: StageAccess) -> int:
        """How many of the outer loops, from the outermost on, it takes to decide which elements ``access`` touches.

        None, where steps do not: then all of them are the same in each.
        """
        bindings = {i.var.name: free_vars(i.binding) for i in self.block.iters}
        used = {loop for name, loops in bindings.items() if access.uses(name) for loop in loops}
        if self.steps and used.isdisjoint(self.outer[: self.steps]):
            return 0
        return max((n + 1 for n, loop in enumerate(self.outer) if loop in used), default=0)

    def reuse_of(self, access: StageAccess) -> int:
        """How often the outer loops inside those that `home_of` counts touch the same elements again."""
        return prod(self.outer_counts[self.home_of(access) :])

    @property
    def is_plain(self) -> bool:
        """Whether each iterator has a loop of its own and there are no others: as lowering makes them."""
        own = [i.loop for i in self.iters if i.loop is not None or i.extent != 1]
        return None not in own and len(set(own)) == len(own) == len(self.loops)


#: What the extent of a symbolic range is taken for.
UNKNOWN_EXTENT = 256


def buffer_bytes(buffer: Buffer) -> int:
    """Of the whole buffer; 0 where its size is not known."""
    return prod(int(e.value) if isinstance(e, Const) else 0 for e in buffer.shape) * buffer.dtype.itemsize


@dataclass(frozen=True)
class Stages:
    """All stages of a program in order, and who reads whom."""

    stages: tuple[Stage, ...]
    outputs: frozenset[str]

    def __getitem__(self, name: str) -> Stage:
        return self._by_name[name]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages)

    @cached_property
    def times(self) -> dict[Hashable, float]:
        """What the time model expects of some of them together, in seconds, by what that looks like."""
        return {}

    @cached_property
    def _by_name(self) -> dict[str, Stage]:
        return {s.name: s for s in self.stages}

    @cached_property
    def _users(self) -> tuple[dict[str, list[Stage]], dict[str, list[Stage]]]:
        """Who writes and who reads each buffer."""
        writers, readers = defaultdict[str, list[Stage]](list), defaultdict[str, list[Stage]](list)
        for s in self.stages:
            writers[s.write.buffer.name].append(s)
            for name in dict.fromkeys(a.buffer.name for a in s.reads):
                readers[name].append(s)
        return dict(writers), dict(readers)

    def writers(self, buffer: str) -> tuple[Stage, ...]:
        return tuple(self._users[0].get(buffer, ()))

    def readers(self, buffer: str) -> tuple[Stage, ...]:
        return tuple(self._users[1].get(buffer, ()))

    def producers(self, stage: Stage) -> tuple[Stage, ...]:
        """Stages that compute what ``stage`` reads."""
        read = {a.buffer.name for a in stage.reads}
        return tuple(s for s in self.stages if s is not stage and s.write.buffer.name in read)

    def consumers(self, stage: Stage) -> tuple[Stage, ...]:
        return tuple(s for s in self.readers(stage.write.buffer.name) if s is not stage)

    def consumers_in_step(self, stage: Stage) -> tuple[Stage, ...]:
        """Those that do so before the next step; where there are no steps, all of them.

        What comes before ``stage`` in a step reads what the step before made.
        """
        return tuple(s for s in self.consumers(stage) if not stage.steps or s.position > stage.position)

    def is_output(self, stage: Stage) -> bool:
        return stage.write.buffer.name in self.outputs

    def kept_inside(self, stage: Stage) -> list[str]:
        """Buffers of ``stage`` that are made and read in the loops it shares with others, in each iteration anew."""
        if not stage.outer:
            return []
        near = dict.fromkeys(a.buffer.name for a in stage.accesses if a.buffer.name not in self.outputs)
        users = {name: (self.writers(name), self.readers(name)) for name in near}
        return [
            name
            for name, (made, read) in users.items()
            if made and all(s.outer[: len(stage.outer)] == stage.outer for s in (*made, *read))
        ]
