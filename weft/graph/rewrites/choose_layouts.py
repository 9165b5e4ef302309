"""In which order the axes of each tensor lie in memory: as the model has them, or with the features last.

What decides are sums: convolutions and pools cost what the processor says, both ways, and a library that computes with
features last converts what lies otherwise. All answers are chosen together (`least_cost`) for axes that are one over
the graph (`feature_axes`). Shapes and formulas stay: a tensor gets an order, in which its kernels see it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from math import prod

from weft.graph.graph import Fragment, Graph, Node, Opaque, shape_of
from weft.graph.groups.mapping import kind_of
from weft.graph.rewrites.costs import Costs
from weft.graph.rewrites.feature_axes import buffer_names, feature_axes, fixed_tensors
from weft.graph.rewrites.least_cost import Cost, least_cost
from weft.graph.rewrites.reorder import Order, last, reorder_program
from weft.ir.buffer import Buffer
from weft.tensor.program import TensorProgram


def choose_layouts(graph: Graph, costs: Costs) -> Graph:
    """``graph`` with tensors inside it stored in the orders that cost least."""
    return _Layouts(graph, costs).chosen()


class _Layouts:
    def __init__(self, graph: Graph, costs: Costs) -> None:
        self.graph, self.costs = graph, costs
        #: of each tensor that may be reordered: the question that decides it, and the order if the answer is yes
        self.ways: dict[str, tuple[str, Order]] = {}
        #: the questions of tensors that others see, which stay: crossing over to them costs
        self.seen: dict[str, str] = {}
        #: the questions of tensors whose features are last anyway, and others are not if the answer is no
        self.settled: dict[str, str] = {}
        self._find_ways()
        self._known: dict[tuple[TensorProgram, bool], float] = {}

    def _find_ways(self) -> None:
        pinned = {*self.graph.inputs, *self.graph.results}
        pinned |= {n for node in self.graph.nodes if not isinstance(node, Fragment) for n in node.outputs if n}
        pinned |= {n for node in self.graph.fragments if kind_of(node.program) == "scan" for n in node.outputs}
        shapes = {name: e.shape for name, e in self.graph.edges.items()}
        for node in self.graph.fragments:
            shapes |= {f"{node.name}/{b.name}": shape_of(b.shape) for b in node.program.temporaries}
        fixed = fixed_tensors(self.graph)
        for name, axes in feature_axes(self.graph).axes.items():
            shape = shapes[name]
            if len(axes) != 1 or name in fixed:
                continue
            ((axis, question),) = axes.items()
            if axis == len(shape) - 1:
                self.settled[name] = question
            elif len(shape) > 2 and name in pinned:
                self.seen[name] = question
            elif len(shape) > 2:
                self.ways[name] = question, last(len(shape), axis)

    def chosen(self) -> Graph:
        questions = list(dict.fromkeys(q for q, _ in self.ways.values()))
        if not questions:
            return self.graph
        worked = [node for node in self.graph.fragments if kind_of(node.program) in _WORK]
        self.costs.prepare(self._priced(node, orders) for node in worked if (own := self._own(node))
                           for orders in ({}, {b: order for b, (_, order) in own.items()}))  # fmt: skip
        costs = [c for node in self.graph.nodes for c in self._costs(node)]
        answers = least_cost(questions, costs)
        orders = {name: order for name, (q, order) in self.ways.items() if answers[q]}
        return _ordered(self.graph, orders) if orders else self.graph

    def _costs(self, node: Node) -> list[Cost]:
        if isinstance(node, Opaque):
            return [self._crossing(n, self.ways[n][0]) for n in node.inputs if n in self.ways]
        names, own = buffer_names(node), self._own(node)
        asks = tuple(dict.fromkeys(q for q, _ in own.values()))
        costs = [self._crossing(n, q) for n in names.values() if (q := self.seen.get(n)) in asks and q]
        if asks and kind_of(node.program) in _WORK:
            return [*costs, self._work(node, own, asks)]
        settled = [(n, q) for n in names.values() if (q := self.settled.get(n)) in asks and q and n in self.graph.edges]
        return [*costs, *(self._crossing(n, q, dear=False) for n, q in settled)]

    def _own(self, node: Fragment) -> dict[str, tuple[str, Order]]:
        """The questions and orders of what a fragment reads and makes, by its own names."""
        return {b: self.ways[n] for b, n in buffer_names(node).items() if n in self.ways}

    def _crossing(self, name: str, question: str, dear: bool = True) -> Cost:
        """A tensor of this size written in one order and read in another, if the answer is the ``dear`` one."""
        seconds = self.costs.conversion(self.graph.edges[name].nbytes)
        return Cost((question,), {(dear,): seconds, (not dear,): 0.0})

    def _work(self, node: Fragment, own: dict[str, tuple[str, Order]], asks: tuple[str, ...]) -> Cost:
        """As given, and all features last, as the processor says; what lies between crosses over on top."""
        sizes = {b.name: prod(shape_of(b.shape)) * b.dtype.itemsize for b in _tensors(node)}
        is_for_last = node.library is not None and self.costs.is_for_last(node.library)
        converted = sum(self.costs.conversion(size) for b, size in sizes.items() if b in own) if is_for_last else 0.0
        as_given = SAME_TIME * self._seconds(node, {}) + converted
        all_last = self._seconds(node, {b: order for b, (_, order) in own.items()})
        mixed = min(as_given, all_last) + self.costs.conversion(max(sizes.values()))
        table = {}
        for answers in product((False, True), repeat=len(asks)):
            table[answers] = all_last if all(answers) else mixed if any(answers) else as_given
        return Cost(asks, table)

    def _seconds(self, node: Fragment, orders: dict[str, Order]) -> float:
        key = node.program, bool(orders)
        if key not in self._known:
            found = self.costs.seconds(*self._priced(node, orders))
            self._known[key] = 0.0 if found == math.inf and not orders else found
        return self._known[key]

    def _priced(self, node: Fragment, orders: dict[str, Order]) -> tuple[TensorProgram, frozenset[str]]:
        fixed = {b.name for b, n in zip(node.program.inputs, node.inputs) if n in self.graph.constants}
        return reorder_program(node.program, orders), frozenset(fixed)


#: How many times as long as as given the features last may take and are taken: of 26 convolutions of MobileNetV2 that
#: were timed both ways, nearly all gained more than the time model expects. Other values were not tried.
SAME_TIME = 1.05
#: What is estimated; formulas follow these, and take as long in any order.
_WORK = ("contraction", "reduction")


def _tensors(node: Fragment) -> list[Buffer]:
    return [*node.program.inputs, *node.program.outputs]


def _ordered(graph: Graph, orders: dict[str, Order]) -> Graph:
    """``graph`` with these tensors, and temporaries of fragments, stored in these orders."""
    edges = {name: e.ordered(orders[name]) if name in orders else e for name, e in graph.edges.items()}
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node, Fragment):
            names = buffer_names(node)
            own = {b.name: o for b in node.program.temporaries if (o := orders.get(names[b.name])) is not None}
            node = replace(node, program=reorder_program(node.program, own))
        nodes.append(node)
    return replace(graph, edges=edges, nodes=tuple(nodes))
