"""Formulas that follow a product through a reshape are computed in the product's own shape, and reshaped afterwards.

``relu(view(x))`` is ``view(relu(x))``. Then what is done with each sum has the subscripts of the sum, whatever shape
the model gives its tensors in between, and two reshapes that undo each other meet and vanish.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.graph.builder import formula_program
from weft.graph.formulas import views
from weft.graph.graph import Edge, Fragment, Graph, Node, Shape, dense_strides, shape_of
from weft.graph.groups.layout import Layout, is_dense, view_layout
from weft.graph.groups.mapping import definition_of, kind_of, view_of
from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Expr, Load, Var, idx
from weft.ir.visit import Node as IrNode
from weft.ir.visit import fresh_name, loads, rewrite, substitute
from weft.tensor.program import Statement, TensorProgram
from weft.tensor.simplify_values import simplify_value
from weft.tensor.specialize import axis_ranges


def move_reshapes(graph: Graph) -> Graph:
    """``graph`` with reshapes behind the formulas that read them."""
    return _Mover(graph).move()


@dataclass(frozen=True)
class _Source:
    """A tensor whose elements, in row-major order, are those of ``name``."""

    name: str
    shape: Shape


class _Mover:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.edges: dict[str, Edge] = dict(graph.edges)
        self.nodes: list[Node] = []
        #: what a reshaped tensor is a reshape of, in the end
        self.sources: dict[str, _Source] = {}
        #: results of products, and formulas of these in the same shape
        self.products: set[str] = set()
        self.taken = {*graph.edges, *(n.name for n in graph.nodes)}

    def move(self) -> Graph:
        for node in self.graph.nodes:
            self.nodes += self._moved(node) if isinstance(node, Fragment) else [node]
        return replace(self.graph, edges=self.edges, nodes=tuple(self.nodes))

    def _source(self, name: str) -> _Source:
        return self.sources.get(name, _Source(name, self.edges[name].shape))

    def _moved(self, node: Fragment) -> Iterator[Node]:
        kind = kind_of(node.program)
        if kind == "view" and not node.is_copy and is_reshape(node.program):
            self.sources[node.outputs[0]] = self._source(node.inputs[0])
            yield self._shortened(node)
            return
        if kind == "contraction":
            self.products |= {*node.outputs}
        into = self._shape_to_move_to(node) if kind == "pointwise" else None
        if into is None:
            if kind == "pointwise" and self.products & {*node.inputs} and len(node.outputs) == 1:
                self.products |= {*node.outputs}
            yield node
            return
        yield from self._in_shape(node, into)

    def _shortened(self, node: Fragment) -> Fragment:
        """A reshape of a reshape, as one; the library call is that of the whole no longer."""
        source = self.sources[node.outputs[0]]
        if source.name == node.inputs[0]:
            return node
        program = _reshape(self.edges[source.name], self.edges[node.outputs[0]].shape)
        return replace(node, program=program, inputs=(source.name,), library=None)

    def _shape_to_move_to(self, node: Fragment) -> Shape | None:
        definition = definition_of(node.program)
        if definition is None or len(node.outputs) != 1:
            return None
        whole = self.edges[node.outputs[0]].shape
        inputs = [
            (self._source(n), b) for n, b in zip(node.inputs, node.program.inputs) if self.edges[n].shape == whole
        ]
        if not all(_is_read_in_place(buffer, *definition) for _, buffer in inputs):
            return None
        return next((s.shape for s, _ in inputs if s.name in self.products and s.shape != whole), None)

    def _in_shape(self, node: Fragment, into: Shape) -> Iterator[Node]:
        """``node`` computed in the shape ``into``, after its inputs and before its output are reshaped."""
        output = self.edges[node.outputs[0]]
        inner = Edge(fresh_name(f"{output.name}_moved", self.taken), output.dtype, into)
        self.edges[inner.name] = inner
        inputs, buffers = [], {}
        for name, buffer in zip(node.inputs, node.program.inputs):
            whole = self.edges[name].shape == output.shape
            source = self._source(name)
            if whole and source.shape != into:
                other = Edge(fresh_name(f"{name}_moved", self.taken), self.edges[name].dtype, into)
                self.edges[other.name] = other
                yield Fragment(
                    other.name + "_view", _reshape(self.edges[source.name], into), (source.name,), (other.name,)
                )
                self.sources[other.name] = source
                source = _Source(other.name, into)
            inputs.append(source.name if whole else name)
            buffers[buffer.name] = replace(buffer, shape=tuple(map(idx, into))) if whole else buffer
        program = _renumbered(node.program, output, into, buffers)
        yield replace(node, program=program, inputs=tuple(inputs), outputs=(inner.name,), library=None)
        self.products.add(inner.name)
        self.sources[output.name] = _Source(inner.name, into)
        name = fresh_name(f"{node.name}_view", self.taken)
        yield Fragment(name, _reshape(inner, output.shape), (inner.name,), (output.name,), origin=node.origin)


def _reshape(edge: Edge, shape: Shape) -> TensorProgram:
    return formula_program("reshape", [edge], views.reshape, shape)


def is_reshape(program: TensorProgram) -> bool:
    """Whether a view keeps all elements in row-major order."""
    view = view_of(program)
    assert view is not None
    shape = shape_of(program.outputs[0].shape)
    source = shape_of(program.inputs[0].shape)
    layout = view_layout(view, Layout(dense_strides(source)))
    same = program.inputs[0].dtype == program.outputs[0].dtype
    return same and layout is not None and layout.offset == 0 and is_dense(shape, layout) and _count(shape, source)


def _count(shape: Shape, source: Shape) -> bool:
    a = b = 1
    for n in shape:
        a *= n
    for n in source:
        b *= n
    return a == b


def _is_read_in_place(buffer: Buffer, axes: tuple[Var, ...], value: Expr) -> bool:
    reads = [load.indices for load in loads(value) if load.buffer.name == buffer.name]
    return bool(reads) and all(indices == axes for indices in reads)


def _renumbered(program: TensorProgram, output: Edge, into: Shape, buffers: dict[str, Buffer]) -> TensorProgram:
    """``program`` over the subscripts of ``into``; tensors of the whole shape are read at these."""
    view = view_of(_reshape(output, into))
    definition = definition_of(program)
    assert view is not None
    assert definition is not None
    axes, value = definition
    # Both have names such as i0: the new ones are others until the old are gone.
    apart = tuple(Var(f"{v.name}'") for v in view.axes)
    places = dict(zip(axes, (substitute(i, dict(zip(view.axes, apart))) for i in view.load.indices)))

    def put(n: IrNode) -> IrNode | None:
        if not isinstance(n, Load) or buffers.get(n.buffer.name, n.buffer) == n.buffer:
            return None
        return Load(buffers[n.buffer.name], apart)

    moved = substitute(substitute(rewrite(value, put), places), dict(zip(apart, view.axes)))
    ranges = tuple(Axis(v, idx(0), idx(n)) for v, n in zip(view.axes, into))
    target = replace(program.outputs[0], shape=tuple(map(idx, into)))
    statement = Statement(target, view.axes, "=", False, simplify_value(moved, axis_ranges(ranges)), ranges)
    params = tuple(buffers[p.name] if isinstance(p, Buffer) else p for p in program.params)
    return replace(program, params=params, outputs=(target,), statements=(statement,), source=None)
