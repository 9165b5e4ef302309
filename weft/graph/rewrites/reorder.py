"""Programs whose tensors have their axes in another order in memory: the same formulas, other subscripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.graph.graph import Shape
from weft.ir.expr import Axis, Load
from weft.ir.visit import Node, free_vars, rewrite
from weft.tensor.program import Statement, TensorProgram

#: Axis ``d`` of the reordered tensor is axis ``order[d]`` of the original one.
Order = Shape


def last(rank: int, axis: int) -> Order:
    """The order in which ``axis`` comes last."""
    return (*(d for d in range(rank) if d != axis), axis)


def reorder_program(program: TensorProgram, orders: Mapping[str, Order]) -> TensorProgram:
    """``program`` with the tensors that ``orders`` names stored so; loops follow the order of what they write."""
    if not orders:
        return program
    buffers = {
        b.name: replace(b, shape=tuple(b.shape[d] for d in orders[b.name]))
        for b in (*program.inputs, *program.outputs, *program.temporaries)
        if b.name in orders
    }

    def put(n: Node) -> Node | None:
        if not isinstance(n, Load) or n.buffer.name not in buffers:
            return None
        return replace(n, buffer=buffers[n.buffer.name], indices=tuple(n.indices[d] for d in orders[n.buffer.name]))

    def reordered(s: Statement) -> Statement:
        moved = replace(s, value=rewrite(s.value, put), indices=tuple(rewrite(i, put) for i in s.indices), span=None)
        if s.target.name not in buffers:
            return moved
        indices = tuple(moved.indices[d] for d in orders[s.target.name])
        return replace(
            moved, target=buffers[s.target.name], indices=indices, axes=_axes(replace(moved, indices=indices))
        )

    return program.with_buffers(buffers, map(reordered, program.statements))


def _axes(s: Statement) -> tuple[Axis, ...]:
    """The axes of the left side in the order of its subscripts, then those of the sum."""
    names = [name for i in s.indices for name in free_vars(i)]
    left = sorted(s.spatial_axes, key=lambda a: names.index(a.var.name))
    return (*left, *s.reduce_axes)
