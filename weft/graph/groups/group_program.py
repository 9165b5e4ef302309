"""The fragments of a group as one tensor program: concatenated, with views composed into their readers.

Tensors are named by their place, so groups that compute the same have the same text, and are compiled once. Axes are
in the order that they have in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from weft.graph.graph import Edge, Fragment, Graph
from weft.graph.groups.mapping import definition_of
from weft.graph.rewrites.reorder import reorder_program
from weft.ir.buffer import Buffer
from weft.ir.expr import Expr, Load, Var, idx
from weft.ir.visit import Node, loads, replace_buffers, rewrite, substitute
from weft.tensor.boundary import Outside, expand_outside
from weft.tensor.program import Statement, TensorProgram
from weft.tensor.simplify_values import simplify_subscript, simplify_value
from weft.tensor.specialize import axis_ranges


@dataclass(frozen=True)
class GroupProgram:
    """A program, and the tensors of the graph that are its parameters and outputs, in order."""

    program: TensorProgram
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class _Concatenation:
    """Collects statements over buffers that stand for tensors of the graph."""

    def __init__(self, graph: Graph, members: Iterable[Fragment], source: Callable[[str], str | None]) -> None:
        self.graph, self.source = graph, source
        self.made = {name for m in members for name in m.outputs}
        self.inputs: dict[str, Buffer] = {}
        self.own: dict[str, Buffer] = {}
        #: tensors that are read through: their axes and what an element of them is
        self.formulas: dict[str, tuple[tuple[Var, ...], Expr]] = {}
        self.temporaries: list[Buffer] = []
        self.statements: list[Statement] = []
        self._blocks = 0

    def add(self, fragment: Fragment) -> None:
        program = fragment.program
        mapping: dict[Buffer, Buffer] = {}
        for buffer, name in zip(program.inputs, fragment.inputs):
            mapping[buffer] = self.read(name)
        for buffer, name in zip(program.outputs, fragment.outputs):
            self.own[name] = mapping[buffer] = _buffer(f"T{len(self.own)}", self.graph.edges[name])
        for buffer in program.temporaries:
            mapping[buffer] = replace(buffer, name=f"U{len(self.temporaries)}")
            self.temporaries.append(mapping[buffer])
        for s in program.statements:
            self.statements.append(self._renamed(s, mapping))
        self._blocks += 1 + max((r.number for s in program.statements for r in s.recurrences), default=0)

    def read(self, name: str) -> Buffer:
        """The buffer to read the tensor ``name`` from: made here, given, or one whose reads are replaced."""
        if name in self.own:
            return self.own[name]
        producer, source = self.graph.producers.get(name), self.source(name)
        if name in self.inputs or producer is None or (source is not None and source not in self.made):
            return self.inputs.setdefault(name, _buffer(f"X{len(self.inputs)}", self.graph.edges[name]))
        assert isinstance(producer, Fragment)
        stand_in = _buffer(f"V_{name}", self.graph.edges[name])
        if stand_in.name not in self.formulas:
            definition = definition_of(producer.program)
            assert definition is not None
            mapping = {b: self.read(n) for b, n in zip(producer.program.inputs, producer.inputs)}
            axes, value = definition
            self.formulas[stand_in.name] = axes, self._inline(replace_buffers(value, mapping))
        return stand_in

    def _renamed(self, s: Statement, mapping: dict[Buffer, Buffer]) -> Statement:
        blocks = tuple(replace(r, number=r.number + self._blocks) for r in s.recurrences)
        value = replace_buffers(s.value, mapping)
        indices = tuple(replace_buffers(i, mapping) for i in s.indices)
        renamed = replace(s, target=mapping[s.target], indices=indices, value=value, recurrences=blocks, span=None)
        if not self._reads_through(value, *indices):
            return renamed
        ranges = axis_ranges(renamed.all_axes)
        return replace(
            renamed,
            indices=tuple(simplify_subscript(self._inline(i), ranges) for i in indices),
            value=simplify_value(self._inline(value), ranges),
        )

    def _reads_through(self, *parts: Expr) -> bool:
        return any(load.buffer.name in self.formulas for e in parts for load in loads(e))

    def _inline(self, e: Expr) -> Expr:
        formulas = self.formulas  # what is handed to `rewrite` lives until the collector runs: not the graph with it

        def spell_out(n: Node) -> Node | None:
            is_read = isinstance(n, Outside) and n.load.buffer.name in formulas
            return expand_outside(n) if is_read else None

        def put(n: Node) -> Node | None:
            if not isinstance(n, Load) or n.buffer.name not in formulas:
                return None
            axes, value = formulas[n.buffer.name]
            return substitute(value, dict(zip(axes, n.indices)))

        return rewrite(rewrite(e, spell_out), put) if self._reads_through(e) else e

    def finish(self, name: str, outputs: list[str]) -> GroupProgram:
        statements = _needed(self.statements, {self.own[o].name for o in outputs})
        written = {s.target.name for s in statements}
        used = {load.buffer.name for s in statements for e in (*s.indices, s.value) for load in loads(e)}
        inputs = {n: b for n, b in self.inputs.items() if b.name in used}
        results = [self.own[o] for o in outputs]
        inner = [b for b in (*self.own.values(), *self.temporaries) if b.name in written and b not in results]
        names = {b: replace(b, name=f"X{n}") for n, b in enumerate(inputs.values())}
        names |= {b: replace(b, name=f"Y{n}") for n, b in enumerate(results)}
        names |= {b: replace(b, name=f"T{n}") for n, b in enumerate(inner)}
        program = TensorProgram(
            name=name,
            params=tuple(names[b] for b in inputs.values()),
            outputs=tuple(names[b] for b in results),
            temporaries=tuple(names[b] for b in inner),
            statements=tuple(_with_buffers(s, names) for s in statements),
        )
        edges = {names[b].name: self.graph.edges[n] for n, b in (*inputs.items(), *self.own.items()) if b in names}
        orders = {name: e.order for name, e in edges.items() if e.order is not None}
        return GroupProgram(reorder_program(program, orders), tuple(inputs), tuple(outputs))


def group_program(
    graph: Graph, members: list[Fragment], outputs: list[str], source: Callable[[str], str | None], name: str
) -> GroupProgram:
    """The program of ``members`` that makes ``outputs``.

    ``source`` tells the stored tensor that another one is all or a view of, if it is of any. Those are parameters,
    unless a member makes them; the others are views or formulas to read through.
    """
    whole = _Concatenation(graph, members, source)
    for fragment in members:
        whole.add(fragment)
    return whole.finish(name, outputs)


def _needed(statements: list[Statement], wanted: set[str]) -> list[Statement]:
    """Statements that what is wanted depends on."""
    kept: list[Statement] = []
    for s in reversed(statements):
        if s.target.name in wanted:
            kept.append(s)
            wanted = wanted | {load.buffer.name for e in (*s.indices, s.value) for load in loads(e)}
    if any(s.recurrences for s in kept):  # a step may read what a later statement of it wrote in the step before
        return [s for s in statements if s in kept or s.recurrences]
    return kept[::-1]


def _with_buffers(s: Statement, names: dict[Buffer, Buffer]) -> Statement:
    return replace(
        s,
        target=names[s.target],
        indices=tuple(replace_buffers(i, names) for i in s.indices),
        value=replace_buffers(s.value, names),
    )


def _buffer(name: str, edge: Edge) -> Buffer:
    return Buffer(name, edge.dtype, tuple(map(idx, edge.shape)))
