"""Products whose rows lie in another order in memory, or in a batch with one matrix, as one product in that order.

``x`` times a matrix computes each row for itself. Where ``x`` is another tensor with its axes in another order, the
product is taken of that tensor as it lies, and the result gets the order; nothing is rearranged before. Formulas that
follow are computed in the order of memory too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import NamedTuple

from weft.graph.builder import formula_program
from weft.graph.formulas import contraction, views
from weft.graph.graph import Edge, Fragment, Graph, Node, Shape, dense_strides
from weft.graph.groups.layout import Layout, view_layout
from weft.graph.groups.mapping import View, definition_of, kind_of, view_of
from weft.graph.groups.partition import is_free
from weft.graph.rewrites.additions import Additions
from weft.graph.rewrites.costs import Costs
from weft.graph.rewrites.move_reshapes import is_reshape
from weft.graph.rewrites.reorder import reorder_program
from weft.ir.expr import Axis, Expr, Var, idx
from weft.ir.visit import loads, substitute
from weft.tensor.simplify_values import simplify_subscript
from weft.tensor.specialize import axis_ranges


class _Rows(NamedTuple):
    """The rows of a tensor, as axes of ``source``: these have the sizes ``shape`` in the order of the rows, the last
    ``tail`` of them make up a row, and in memory they lie in the ``order`` of these. ``places`` are they in source."""

    source: str
    places: Shape
    order: Shape
    shape: Shape
    tail: int

    @property
    def is_in_order(self) -> bool:
        return self.order == tuple(range(len(self.order)))


def row_order(graph: Graph, costs: Costs) -> Graph:
    """``graph`` with such products."""
    return _Rewriter(graph, costs).rewrite()


def _fit(x: Shape, w: Shape) -> bool:
    """Whether there is a product of such matrices or batches of them; images and the windows of a convolution may only
    look as if."""
    return x[-1] == w[-2] and all(n == m or 1 in (n, m) for n, m in zip(x[:-2], w[:-2]))


class _Rewriter(Additions):
    def __init__(self, graph: Graph, costs: Costs) -> None:
        super().__init__(graph, costs)
        #: results that are views of tensors with their axes in another order
        self.turned: dict[str, tuple[str, Shape]] = {}

    def rewrite(self) -> Graph:
        nodes: list[Node] = []
        for node in self.graph.nodes:
            nodes += self._rewritten(node) if isinstance(node, Fragment) else [node]
        return replace(self.graph, edges=self.edges, nodes=tuple(nodes))

    def _rewritten(self, node: Fragment) -> Iterator[Node]:
        kind = kind_of(node.program)
        product = self._product(node) if kind == "contraction" else None
        if product is not None:
            yield from self._ordered(node, *product)
        elif kind == "view" and node.inputs[0] in self.turned and self._is_whole(node.inputs[0], node):
            if is_reshape(node.program):
                self.turned[node.outputs[0]] = self.turned[node.inputs[0]]
            yield node
        elif kind == "pointwise" and (first := self._turned_input(node)) is not None:
            yield from self._followed(node, self.turned[first][1])
        else:
            yield node

    def _product(self, node: Fragment) -> tuple[_Rows, str, list[str]] | None:
        """The rows, the matrix, and the bias, if any, of a product to be taken in another order."""
        edges = [self.edges[n] for n in node.inputs]
        ranks = [len(e.shape) for e in edges]
        is_biased = ranks == [1, 2, 2]
        if not is_biased and not (len(ranks) == 2 and ranks[0] > 1 and ranks[1] in (2, ranks[0])):
            return None
        *bias, x, w = node.inputs
        if not _fit(self.edges[x].shape, self.edges[w].shape) or node.outputs[0] in self.graph.results:
            return None
        formula = (contraction.add_product, 1, 1) if is_biased else (contraction.matmul,)
        same = formula_program("product", edges, *formula)
        matrix = self._matrix(w) if replace(same, name=node.program.name) == node.program else None
        rows = None if matrix is None else self._rows(x)
        is_same = rows is None or (rows.is_in_order and matrix == w)
        if is_same or rows is None or matrix is None or self._must_be_copied(node.outputs[0], rows):
            return None
        return rows, matrix, bias

    def _must_be_copied(self, result: str, rows: _Rows) -> bool:
        """Whether a product or attention reads parts of ``result`` where they are, and could not in another order."""
        shape, lead = self.edges[result].shape, len(rows.shape) - rows.tail
        order, sizes = (*rows.order[:lead], lead), (*rows.shape[:lead], shape[-1])
        there = dense_strides(tuple(sizes[d] for d in order))
        turned = Edge(
            "turned", self.edges[result].dtype, sizes, tuple(there[order.index(d)] for d in range(len(order)))
        )
        back = view_of(formula_program("reshape", [turned], views.reshape, shape))
        if rows.is_in_order or back is None:
            return False
        for view, axes in self._parts_read(result):
            ranges = axis_ranges(axes)
            bound = dict(zip(back.axes, view.load.indices))
            places = tuple(simplify_subscript(substitute(i, bound), ranges) for i in back.load.indices)
            moved = View(view.axes, replace(back.load, indices=places))
            if view_layout(view, Layout(dense_strides(shape))) and not view_layout(moved, Layout(turned.strides or ())):
                return True
        return False

    def _parts_read(self, name: str) -> Iterator[tuple[View, tuple[Axis, ...]]]:
        """Views of a tensor that products or attention read, and their axes."""
        for node in self.graph.readers.get(name, []):
            view = view_of(node.program) if isinstance(node, Fragment) else None
            read = [r for n in node.outputs for r in self.graph.readers.get(n or "", [])]
            is_read = any(isinstance(r, Fragment) and kind_of(r.program) == "contraction" for r in read)
            if view is not None and is_read and isinstance(node, Fragment):
                yield view, node.program.statements[0].axes

    def _matrix(self, name: str) -> str | None:
        """The matrix that all of a batch are; a matrix itself."""
        axes: tuple[Expr, ...] = tuple(Var(f"a{d}") for d in range(len(self.edges[name].shape)))
        places = axes
        while len(self.edges[name].shape) > 2 or places != axes[-2:]:
            if (view := self._view(name)) is None:
                return None
            places = tuple(substitute(i, dict(zip(view.axes, places))) for i in view.load.indices)
            (name,) = self.graph.producers[name].inputs
        return name

    def _view(self, name: str) -> View | None:
        node = self.graph.producers.get(name)
        return view_of(node.program) if isinstance(node, Fragment) and is_free(node) and node.inputs else None

    def _rows(self, name: str) -> _Rows | None:
        """What the rows of ``name`` are of something that lies in memory, but for their order."""
        width = self.edges[name].shape[-1]
        while self._is_reshaped(name, width):
            (name,) = self.graph.producers[name].inputs
        shape = self.edges[name].shape
        axes = tuple(Var(f"a{d}") for d in range(len(shape)))
        ranges = axis_ranges([Axis(v, idx(0), idx(n)) for v, n in zip(axes, shape)])
        places: tuple[Expr, ...] = axes
        found = None if self._view(name) is not None else (name, axes)
        while (view := self._view(name)) is not None:
            bound = dict(zip(view.axes, places))
            places = tuple(simplify_subscript(substitute(i, bound), ranges) for i in view.load.indices)
            (name,) = self.graph.producers[name].inputs
            sizes = [shape[axes.index(p)] for p in places if p in axes]
            is_whole = tuple(sizes) == self.edges[name].shape  # not the first elements of more
            if is_whole and sorted(map(str, places)) == sorted(map(str, axes)):
                found = name, tuple(p for p in places if isinstance(p, Var))
        return None if found is None else self._in_memory(*found, axes, shape, width)

    def _in_memory(
        self, name: str, places: tuple[Var, ...], axes: tuple[Var, ...], shape: Shape, width: int
    ) -> _Rows | None:
        edge, tail = self.edges[name], _tail(shape, width)
        strides = edge.strides or dense_strides(edge.shape)
        by_stride = sorted(range(len(strides)), key=lambda d: -strides[d])
        order = tuple(axes.index(places[d]) for d in by_stride)
        is_whole = tail is not None and order[-tail:] == tuple(range(len(shape) - tail, len(shape)))
        return _Rows(name, tuple(by_stride), order, shape, tail) if is_whole and tail is not None else None

    def _is_reshaped(self, name: str, width: int) -> bool:
        """Whether it is a reshape of something whose last axes make up a row too."""
        node = self.graph.producers.get(name)
        if self._view(name) is None or not isinstance(node, Fragment) or not is_reshape(node.program):
            return False
        return _tail(self.edges[node.inputs[0]].shape, width) is not None

    def _ordered(self, node: Fragment, rows: _Rows, matrix: str, bias: list[str]) -> Iterator[Node]:
        made: list[Node] = []
        (result,), columns = node.outputs, self.edges[matrix].shape[1]
        lead, source = len(rows.shape) - rows.tail, rows.source
        sizes = tuple(rows.shape[d] for d in rows.order)
        if rows.places != tuple(range(len(rows.places))):
            source = self.make(f"{source}_as_it_lies", (source,), made, views.permute, rows.places)
        flat = self.make(f"{source}_flat", (source,), made, views.reshape, (prod(sizes[:lead]), prod(sizes[lead:])))
        formula = (contraction.add_product, 1, 1) if bias else (contraction.matmul,)
        product = self.make(f"{node.name}_product", (*bias, flat, matrix), made, *formula)
        whole = self.make(f"{node.name}_whole", (product,), made, views.reshape, (*sizes[:lead], columns))
        turned = self._turn(whole, (*rows.order[:lead], lead), (*rows.shape[:lead], columns), node, made)
        if turned != result:
            last = formula_program("reshape", [self.edges[turned]], views.reshape, self.edges[result].shape)
            made.append(Fragment(node.name, last, (turned,), (result,), origin=node.origin))
        yield from made

    def _turn(self, whole: str, order: Shape, shape: Shape, node: Fragment, made: list[Node]) -> str:
        """``whole`` with its axes back in their order: the result of ``node``, or what that is a reshape of."""
        (result,) = node.outputs
        back = tuple(order.index(d) for d in range(len(order)))
        if self.edges[result].shape != shape:
            return self.make(f"{node.name}_turned", (whole,), made, views.permute, back)
        program = formula_program("turned", [self.edges[whole]], views.permute, back)
        made.append(Fragment(node.name, program, (whole,), (result,), origin=node.origin))
        self.turned[result] = whole, order
        return result

    def _turned_input(self, node: Fragment) -> str | None:
        """The input whose order a formula of it can be computed in: it is read in place, as all that is as large."""
        definition = definition_of(node.program)
        if definition is None or len(node.outputs) != 1 or node.outputs[0] in self.graph.results:
            return None
        axes, value = definition
        whole = [b.name for b, n in zip(node.program.inputs, node.inputs) if self._is_whole(n, node)]
        in_place = all(load.indices == axes for load in loads(value) if load.buffer.name in whole)
        found = next((n for n in node.inputs if n in self.turned and self._is_whole(n, node)), None)
        return found if in_place else None

    def _is_whole(self, name: str, node: Fragment) -> bool:
        return self.edges[name].shape == self.edges[node.outputs[0]].shape

    def _followed(self, node: Fragment, order: Shape) -> Iterator[Node]:
        made: list[Node] = []
        inputs, orders = [], {b.name: order for b in node.program.outputs}
        for buffer, name in zip(node.program.inputs, node.inputs):
            if not self._is_whole(name, node):
                inputs.append(name)
                continue
            orders[buffer.name] = order
            known, its = self.turned.get(name, ("", ()))
            inputs.append(known if its == order else self.make(f"{name}_in_order", (name,), made, views.permute, order))
        program = reorder_program(node.program, orders)
        edge = self.edge(f"{node.outputs[0]}_in_order", program)
        name = self.fresh(f"{node.name}_in_order")
        made.append(Fragment(name, program, tuple(inputs), (edge.name,), origin=node.origin))
        self._turn(edge.name, order, self.edges[node.outputs[0]].shape, node, made)
        yield from made


def _tail(shape: Shape, width: int) -> int | None:
    """How many of the last axes have ``width`` elements together."""
    return next((n for n in range(1, len(shape)) if prod(shape[-n:]) == width), None)
