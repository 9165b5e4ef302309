"""The oracle of many devices: a split program evaluated over lists of arrays, one for each rank.

Every collective is a line of numpy, and each rank's statements are evaluated as `weft.tensor.evaluate` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np

from weft.dist.layout import Box, Layout, held, owned, replicated
from weft.dist.local import SplitStatement, shape_of
from weft.dist.mesh import Mesh
from weft.dist.moves import (
    AllGather, AllReduce, AllToAll, Halo, Keep, ReduceScatter, Slice, Step, Trim, after_step, bytes_sent, steps,
)  # fmt: skip
from weft.dist.rules import Choice, output_layout
from weft.ir.buffer import Buffer
from weft.ir.errors import ArgumentError
from weft.ir.expr import identity
from weft.tensor.array_arithmetic import Array, accumulator
from weft.tensor.evaluate import Evaluation, begin
from weft.tensor.program import Statement, TensorProgram
from weft.tensor.recurrences import in_order

#: For each statement of a normalized program, a choice for each axis of the mesh.
Chooser: TypeAlias = "Callable[[TensorProgram], Sequence[tuple[Choice, ...]]]"


@dataclass
class Distributed:
    """A tensor as its ranks have it."""

    buffer: Buffer
    layout: Layout
    parts: list[Array]


@dataclass
class Ranks:
    """The tensors of a program on the ranks of a mesh; ``sent`` counts bytes by the kind of collective."""

    mesh: Mesh
    tensors: dict[str, Distributed]
    sent: dict[str, int] = field(default_factory=dict)

    def moved(self, tensor: Distributed, target: Layout) -> Distributed:
        """A tensor in another layout."""
        for step in steps(tensor.layout, target):
            kind, shape = type(step).__name__, shape_of(tensor.buffer)
            size = bytes_sent(step, shape, tensor.buffer.dtype.itemsize, tensor.layout, self.mesh)
            self.sent[kind] = self.sent.get(kind, 0) + size
            after = after_step(step, tensor.layout)
            tensor = Distributed(tensor.buffer, after, take_step(step, tensor, after, self.mesh))
        return tensor


def evaluate_on_ranks(
    program: TensorProgram,
    args: Sequence[Any],
    mesh: Mesh,
    choose: Chooser,
    *,
    out: Mapping[str, Any] | None = None,
    wide: bool = False,
) -> tuple[tuple[Array, ...], Ranks]:
    """The outputs of ``program`` split over ``mesh`` as ``choose`` says, and what the ranks have in the end."""
    program, memory = begin(program, args, out=out, wide=wide)
    buffers = (*program.inputs, *program.outputs, *program.temporaries)
    whole = replicated(mesh)
    tensors = {b.name: Distributed(b, whole, [memory[b.name].copy() for _ in range(mesh.count)]) for b in buffers}
    ranks = Ranks(mesh, tensors)
    scalars = {v.name: memory[v.name] for v in program.scalars}
    together = zip(program.statements, choose(program))
    with np.errstate(all="ignore"):
        for _, block in groupby(together, lambda pair: pair[0].recurrences[:1] or id(pair[0])):
            _run(ranks, [*block], scalars, wide)
    for output in program.outputs:
        tensors[output.name] = ranks.moved(tensors[output.name], whole)
    return tuple(tensors[o.name].parts[0] for o in program.outputs), ranks


def split_block(block: Sequence[tuple[Statement, tuple[Choice, ...]]], mesh: Mesh) -> list[SplitStatement]:
    """The statements of one block of steps (or one alone), where what they write lies the same for all of them."""
    fixed: dict[str, Layout] = {}
    for statement, chosen in block:
        layout = output_layout(statement, chosen)
        if fixed.setdefault(statement.target.name, layout) != layout:
            raise ArgumentError(f"statements of one block split {statement.target.name} in different ways")
    split = [SplitStatement(statement, chosen, mesh, fixed) for statement, chosen in block]
    for s in split:
        for load in s.reads:
            if load.buffer.name in fixed and not s.reads_locally(load):
                raise ArgumentError(f"a block of steps moves {load.buffer.name} between ranks at every step")
    return split


def _run(
    ranks: Ranks, block: Sequence[tuple[Statement, tuple[Choice, ...]]], scalars: Mapping[str, Array], wide: bool
) -> None:
    """A statement, or the statements of a block step by step, on every rank."""
    split = split_block(block, ranks.mesh)
    written = {s.statement.target.name: s.output for s in split}
    copies: dict[tuple[str, Layout], Distributed] = {}
    for s in split:
        for load, need in zip(s.reads, s.needs):
            key = load.buffer.name, need
            if load.buffer.name not in written and key not in copies:
                copies[key] = ranks.moved(ranks.tensors[load.buffer.name], need)
    for name, layout in written.items():
        ranks.tensors[name] = ranks.moved(ranks.tensors[name], layout)
    called = {key: f"{key[0]}@{n}" for n, key in enumerate(copies)}
    for rank in range(ranks.mesh.count):
        memory = dict(scalars) | {called[key]: copy.parts[rank] for key, copy in copies.items()}
        memory |= {name: ranks.tensors[name].parts[rank] for name in written}
        names = [[called.get((x.buffer.name, n), x.buffer.name) for x, n in zip(s.reads, s.needs)] for s in split]
        for step in in_order([s.at(rank, n) for s, n in zip(split, names)]):
            Evaluation(step.statement, memory, wide).run()


def take_step(step: Step, tensor: Distributed, after: Layout, mesh: Mesh) -> list[Array]:
    """The arrays of all ranks after a collective."""
    parts, shape, layout = tensor.parts, shape_of(tensor.buffer), tensor.layout
    new: list[Array] = list(parts)
    match step:
        case AllReduce(axis, op) | ReduceScatter(axis, op):
            combine = accumulator(op, tensor.buffer.dtype)
            for group in mesh.groups((axis,)):
                total = reduce(combine, [parts[r] for r in group])
                for r in group:
                    new[r] = _cut(total, held(shape, layout, mesh, r), held(shape, after, mesh, r)).copy()
        case AllGather(axis) | AllToAll(axis):
            for group in mesh.groups((axis,)):
                dim = step.dim if isinstance(step, AllGather) else step.gathered
                whole = np.concatenate([parts[r] for r in group], axis=dim)
                gathered = layout.changed(axis, replicated(mesh).axes[axis])
                for r in group:
                    new[r] = _cut(whole, held(shape, gathered, mesh, r), held(shape, after, mesh, r)).copy()
        case Halo(dim):
            for group in mesh.groups(layout.splitting(dim)):
                whole = np.concatenate([_inner(parts[r], tensor, mesh, r, dim) for r in group], axis=dim)
                for r in group:
                    lo, hi = held(shape, after, mesh, r)[dim]
                    new[r] = np.take(whole, np.arange(lo, hi), axis=dim) if shape else whole
        case Keep(axis, op):
            for r in range(mesh.count):
                if mesh.coordinates(r)[axis]:
                    new[r] = np.full_like(parts[r], identity(op, tensor.buffer.dtype).value)
        case Slice() | Trim():
            for r in range(mesh.count):
                new[r] = _cut(parts[r], held(shape, layout, mesh, r), held(shape, after, mesh, r)).copy()
    return new


def _cut(array: Array, box: Box, wanted: Box) -> Array:
    """The part ``wanted`` of an array that holds ``box``."""
    places: tuple[Any, ...] = tuple(slice(lo - start, hi - start) for (lo, hi), (start, _) in zip(wanted, box))
    cut: Array = array[places or ...]
    return cut


def _inner(part: Array, tensor: Distributed, mesh: Mesh, rank: int, dim: int) -> Array:
    """A rank's piece of one dimension without its halo there; other dimensions keep theirs."""
    box = list(held(shape_of(tensor.buffer), tensor.layout, mesh, rank))
    wanted = list(box)
    wanted[dim] = owned(shape_of(tensor.buffer), tensor.layout, mesh, rank)[dim]
    return _cut(part, tuple(box), tuple(wanted))
