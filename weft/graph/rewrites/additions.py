"""What a rewrite adds to a graph: new tensors, each by a new fragment, under names of their own."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from weft.graph.builder import formula_program
from weft.graph.graph import Edge, Fragment, Graph, Node, shape_of
from weft.graph.rewrites.costs import Costs
from weft.ir.visit import fresh_name
from weft.tensor.program import TensorProgram


class Additions:
    """Tensors of ``graph`` and new ones."""

    def __init__(self, graph: Graph, costs: Costs) -> None:
        self.graph, self.costs = graph, costs
        self.edges: dict[str, Edge] = dict(graph.edges)
        self._taken = {*graph.edges, *(n.name for n in graph.nodes)}

    def make(self, name: str, inputs: tuple[str, ...], made: list[Node], formula: Any, *args: Hashable) -> str:
        """A new tensor by a formula, whose fragment goes to ``made``."""
        given = [self.edges[n] for n in inputs]
        program, library = formula_program(name, given, formula, *args), self.costs.call_of(formula, args, given)
        edge = self.edge(name, program)
        made.append(Fragment(self.fresh(f"{edge.name}_node"), program, inputs, (edge.name,), library))
        return edge.name

    def edge(self, name: str, program: TensorProgram) -> Edge:
        """A new tensor for the result of a program."""
        (output,) = program.outputs
        edge = Edge(self.fresh(name), output.dtype, shape_of(output.shape))
        self.edges[edge.name] = edge
        return edge

    def fresh(self, name: str) -> str:
        return fresh_name(name, self._taken)
