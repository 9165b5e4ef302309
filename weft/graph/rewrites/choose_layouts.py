"""In which order the axes of each tensor lie in memory: as the model has them, or with the features last.

What decides are sums: convolutions and pools are estimated by the time model both ways, and all answers are chosen
together (`least_cost`) for axes that are one over the graph (`feature_axes`). A fragment whose tensors lie in different
orders reads across them in its own subscripts, so nothing is converted but at boundaries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import prod

from weft.graph.builder import formula_program
from weft.graph.formulas import views
from weft.graph.graph import Edge, Fragment, Graph, Node, Opaque, dense_strides, shape_of
from weft.graph.groups.group_code import REFUSALS
from weft.graph.groups.mapping import kind_of
from weft.graph.rewrites.feature_axes import buffer_names, feature_axes
from weft.graph.rewrites.least_cost import Cost, least_cost
from weft.graph.rewrites.reorder import Order, inverse, last, reorder_program
from weft.ir.visit import fresh_name
from weft.tensor.program import TensorProgram

#: Seconds that a program is expected to take, where the inputs at these places are constants.
Expected = Callable[[TensorProgram, frozenset[str]], float]


def choose_layouts(graph: Graph, expected: Expected, bytes_per_second: float) -> Graph:
    """``graph`` with tensors inside it stored in the orders that cost least."""
    return _Layouts(graph, expected, bytes_per_second).chosen()


class _Layouts:
    def __init__(self, graph: Graph, expected: Expected, bytes_per_second: float) -> None:
        self.graph, self.expected, self.bytes_per_second = graph, expected, bytes_per_second
        #: of each tensor that may be reordered: the question that decides it, and the order if the answer is yes
        self.ways: dict[str, tuple[str, Order]] = {}
        #: the same for tensors that others see, which stay: crossing over to them costs
        self.seen: dict[str, tuple[str, Order]] = {}
        self._find_ways()
        self._known: dict[tuple[TensorProgram, bool], float] = {}

    def _find_ways(self) -> None:
        pinned = {*self.graph.inputs, *self.graph.constants, *self.graph.results}
        pinned |= {n for node in self.graph.nodes if not isinstance(node, Fragment) for n in node.outputs if n}
        pinned |= {n for node in self.graph.fragments if kind_of(node.program) == "scan" for n in node.outputs}
        shapes = {name: e.shape for name, e in self.graph.edges.items()}
        for node in self.graph.fragments:
            shapes |= {f"{node.name}/{b.name}": shape_of(b.shape) for b in node.program.temporaries}
        for name, axes in feature_axes(self.graph).axes.items():
            shape = shapes[name]
            if len(axes) != 1 or name in self.graph.constants:
                continue
            ((axis, question),) = axes.items()
            if axis != len(shape) - 1 and len(shape) > 2:
                (self.seen if name in pinned else self.ways)[name] = question, last(len(shape), axis)

    def chosen(self) -> Graph:
        questions = list(dict.fromkeys(q for q, _ in self.ways.values()))
        if not questions:
            return self.graph
        costs = [c for node in self.graph.nodes for c in self._costs(node)]
        answers = least_cost(questions, costs)
        orders = {name: order for name, (q, order) in self.ways.items() if answers[q]}
        return _reordered(self.graph, orders) if orders else self.graph

    def _costs(self, node: Node) -> list[Cost]:
        if isinstance(node, Opaque):
            return [self._crossing(name, (self.ways[name][0],)) for name in node.inputs if name in self.ways]
        names = buffer_names(node)
        own = {b: self.ways[n] for b, n in names.items() if n in self.ways}
        asks = tuple(dict.fromkeys(q for q, _ in own.values()))
        crossed = [n for n in names.values() if n in self.seen and self.seen[n][0] in asks]
        costs = [self._crossing(n, (self.seen[n][0],)) for n in crossed]
        return [*costs, self._work(node, own, asks)] if asks and kind_of(node.program) in _WORK else costs

    def _crossing(self, name: str, asks: tuple[str, ...]) -> Cost:
        """A tensor of this size written in one order and read in another."""
        seconds = 2 * self.graph.edges[name].nbytes / self.bytes_per_second
        return Cost(asks, {(False,): 0.0, (True,): seconds})

    def _work(self, node: Fragment, own: dict[str, tuple[str, Order]], asks: tuple[str, ...]) -> Cost:
        """As given, and all features last, by the time model; what lies between crosses over on top of the better."""
        as_given = SAME_TIME * self._seconds(node, {})
        all_last = self._seconds(node, {b: order for b, (_, order) in own.items()})
        sizes = [prod(shape_of(b.shape)) * b.dtype.itemsize for b in (*node.program.inputs, *node.program.outputs)]
        mixed = min(as_given, all_last) + 2 * max(sizes) / self.bytes_per_second
        table = {}
        for answers in product((False, True), repeat=len(asks)):
            table[answers] = all_last if all(answers) else mixed if any(answers) else as_given
        return Cost(asks, table)

    def _seconds(self, node: Fragment, orders: dict[str, Order]) -> float:
        key = node.program, bool(orders)
        if key not in self._known:
            fixed = {b.name for b, n in zip(node.program.inputs, node.inputs) if n in self.graph.constants}
            try:
                self._known[key] = self.expected(reorder_program(node.program, orders), frozenset(fixed))
            except REFUSALS:  # compiling it will say what is wrong, and finds another way
                self._known[key] = 0.0 if not orders else math.inf
        return self._known[key]


#: How many times as long as as given the features last may take and are taken: of 26 convolutions of MobileNetV2 that
#: were timed both ways, nearly all gained more than the time model expects. Other values were not tried.
SAME_TIME = 1.05
#: What is estimated; formulas follow these, and take as long in any order.
_WORK = ("contraction", "reduction")


def _reordered(graph: Graph, orders: dict[str, Order]) -> Graph:
    """``graph`` with these tensors stored in these orders, under the same names."""
    taken = {*graph.edges, *(n.name for n in graph.nodes)}
    edges = dict(graph.edges)
    for name, order in orders.items():
        if name in edges:
            edges[name] = replace(edges[name], shape=tuple(edges[name].shape[d] for d in order), strides=None)
    as_given: dict[str, str] = {}
    nodes: list[Node] = []

    def given(name: str) -> str:
        """The tensor as the framework has it: a view, which costs nothing."""
        if name not in orders:
            return name
        if name not in as_given:
            view = fresh_name(f"{name}_as_given", taken)
            back, strides = inverse(orders[name]), dense_strides(edges[name].shape)
            as_given[name] = view
            edges[view] = replace(graph.edges[name], name=view, strides=tuple(strides[d] for d in back))
            program = formula_program(view, [edges[name]], views.permute, back)
            nodes.append(Fragment(fresh_name(f"{view}_view", taken), program, (name,), (view,)))
        return as_given[name]

    for node in graph.nodes:
        if isinstance(node, Opaque):
            nodes.append(replace(node, call=node.call.renamed({n: given(n) for n in node.inputs})))
            continue
        library = node.library and node.library.renamed({n: given(n) for n in node.library.refs()})
        names = buffer_names(node)
        own = {b: orders[n] for b, n in names.items() if n in orders}
        made = orders.get(node.outputs[0])
        if len(node.outputs) > 1 and own.keys() & {b.name for b in node.program.outputs}:
            library, made = None, None  # results of a call are reordered one by one, if at all
        nodes.append(replace(node, program=reorder_program(node.program, own), library=library, library_order=made))
    return replace(graph, edges=edges, nodes=tuple(nodes))


def call_reordered(graph: Graph, fragment: Fragment, reason: str) -> tuple[dict[str, Edge], list[Node]]:
    """The library's call in place of ``fragment``, whose result lies in another order than the library names it."""
    assert fragment.library is not None
    order = fragment.library_order
    if order is None:
        return {}, [Opaque(fragment.name, fragment.library, fragment.outputs, reason, fragment.origin)]
    (name,) = fragment.outputs
    edge = graph.edges[name]
    back = inverse(order)
    strides = dense_strides(edge.shape)
    made = Edge(
        fresh_name(f"{name}_made", {*graph.edges}),
        edge.dtype,
        tuple(edge.shape[d] for d in back),
        tuple(strides[d] for d in back),
    )
    call = Opaque(fragment.name, fragment.library, (made.name,), reason, fragment.origin)
    program = formula_program(name, [made], views.permute, order)
    return {made.name: made}, [call, Fragment(f"{fragment.name}_view", program, (made.name,), (name,))]
