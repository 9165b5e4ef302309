"""Convolutions whose windows do not overlap, as what they are: products of matrices, a row for each pixel.

A convolution of one tap, or the patches at the bottom of a vision transformer. Formulas that follow it are computed
in the same shape, so that they can be done with each sum; with channels last in memory, pixels as rows of a matrix
and as an image are views of the same memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from weft.graph.builder import formula_program
from weft.graph.formulas import contraction
from weft.graph.formulas.common import element, shape
from weft.graph.graph import Call, Edge, Fragment, Graph, Node, Ref, Shape, shape_of
from weft.graph.groups.mapping import definition_of, kind_of
from weft.graph.rewrites.channels_last import CONVOLUTION
from weft.ir.expr import Axis, Load, Var, idx
from weft.ir.visit import Node as IrNode
from weft.ir.visit import free_vars, fresh_name, loads, rewrite, substitute
from weft.tensor.program import Statement, TensorProgram
from weft.tensor.python_api import Tensor, compute


def patches(x: Tensor, taps: Shape, image: Shape) -> Tensor:
    """A row for each of the windows next to one another in (batch, channels, height, width)."""
    batch, channels = shape(x)[:2]
    (kh, kw), (h, w) = taps, image

    def read(p: Any, k: Any) -> Any:
        place = p // (h * w), p // w % h, p % w
        if (kh, kw) == (1, 1):
            return element(x, place[0], k, *place[1:])
        tap = k // (kh * kw), k // kw % kh, k % kw
        return element(x, place[0], tap[0], place[1] * kh + tap[1], place[2] * kw + tap[2])

    return compute((batch * h * w, channels * kh * kw), read, name="O")


def filters(weight: Tensor) -> Tensor:
    """A column for each filter of (filters, channels, height, width)."""
    count, channels, kh, kw = shape(weight)
    if (kh, kw) == (1, 1):
        return compute((channels, count), lambda k, f: element(weight, f, k, 0, 0), name="O")
    rows = channels * kh * kw
    return compute((rows, count), lambda k, f: element(weight, f, k // (kh * kw), k // kw % kh, k % kw), name="O")


def image_of(y: Tensor, sizes: Shape) -> Tensor:
    """(batch, channels, height, width) of a matrix with a row for each pixel."""
    _, _, h, w = sizes
    return compute(sizes, lambda n, f, i, j: element(y, (n * h + i) * w + j, f), name="O")


def pixel_products(graph: Graph) -> Graph:
    """``graph`` with such convolutions, and the formulas that follow them, over pixels."""
    return _Rewriter(graph).rewrite()


class _Rewriter:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.edges: dict[str, Edge] = dict(graph.edges)
        self.taken = {*graph.edges, *(n.name for n in graph.nodes)}
        #: images that are views of matrices of pixels
        self.pixels: dict[str, str] = {}

    def rewrite(self) -> Graph:
        nodes: list[Node] = []
        for node in self.graph.nodes:
            nodes += self._rewritten(node) if isinstance(node, Fragment) else [node]
        return replace(self.graph, edges=self.edges, nodes=tuple(nodes)) if self.pixels else self.graph

    def _rewritten(self, node: Fragment) -> Iterator[Node]:
        if self._is_product(node):
            yield from self._product(node)
        elif (program := self._over_pixels(node)) is not None:
            yield from self._moved(node, program)
        else:
            yield node

    def _is_product(self, node: Fragment) -> bool:
        if node.library is None or node.library.target != CONVOLUTION or len(self.edges[node.outputs[0]].shape) != 4:
            return False
        _, _, _, strides, padding, dilations, transposed, _, groups = node.library.args
        taps = self.edges[node.inputs[1]].shape[2:]
        plain = not any(padding) and {*dilations, groups} == {1} and not transposed
        return plain and tuple(strides) == taps

    def _product(self, node: Fragment) -> Iterator[Node]:
        x, weight = (self.edges[n] for n in node.inputs[:2])
        sizes = self.edges[node.outputs[0]].shape
        taps = weight.shape[2:]
        made: list[Node] = []
        if taps == (1, 1):
            rows = self._pixels_of(x.name, made)
        else:
            rows = self._make(f"{x.name}_patches", made, (x.name,), patches, taps, sizes[2:])
        factor = self._make(f"{weight.name}_columns", made, (weight.name,), filters)
        if len(node.inputs) == 2:
            call = Call("aten.mm.default", (Ref(rows), Ref(factor)))
            name = self._make(f"{node.name}_pixels", made, (rows, factor), contraction.matmul, library=call)
        else:
            given = (node.inputs[2], rows, factor)
            call = Call("aten.addmm.default", tuple(map(Ref, given)))
            name = self._make(f"{node.name}_pixels", made, given, contraction.add_product, 1, 1, library=call)
        yield from made
        yield self._image(node, name)

    def _pixels_of(self, name: str, made: list[Node]) -> str:
        """The matrix of pixels of an image."""
        if name not in self.pixels:
            sizes = self.edges[name].shape
            self.pixels[name] = self._make(f"{name}_rows", made, (name,), patches, (1, 1), sizes[2:])
        return self.pixels[name]

    def _image(self, node: Fragment, pixels: str) -> Fragment:
        (output,) = node.outputs
        self.pixels[output] = pixels
        program = formula_program("image", [self.edges[pixels]], image_of, self.edges[output].shape)
        return Fragment(node.name, program, (pixels,), (output,), origin=node.origin)

    def _over_pixels(self, node: Fragment) -> TensorProgram | None:
        """A formula of images as one of matrices of pixels, where it follows a product."""
        definition = definition_of(node.program)
        whole = self.edges[node.outputs[0]].shape
        follows = any(n in self.pixels for n in node.inputs)
        if definition is None or kind_of(node.program) != "pointwise" or not follows or len(whole) != 4:
            return None
        axes, value = definition
        channel, count = axes[1], whole[0] * whole[2] * whole[3]
        own = {b: replace(b, shape=(idx(count), idx(whole[1]))) for b in node.program.inputs if _size(b) == whole}
        row, column = Var("p"), Var("f")

        def put(n: IrNode) -> IrNode | None:
            if isinstance(n, Load) and n.buffer in own and n.indices == axes:
                return Load(own[n.buffer], (row, column))
            return None

        moved = substitute(rewrite(value, put), {channel: column})
        others = {v.name for v in axes} & set(free_vars(moved))
        if others or any(load.buffer in own for load in loads(moved)):
            return None  # it asks where in the image a pixel is
        target = replace(node.program.outputs[0], shape=(idx(count), idx(whole[1])))
        ranges = (Axis(row, idx(0), idx(count)), Axis(column, idx(0), idx(whole[1])))
        statement = Statement(target, (row, column), "=", False, moved, ranges)
        params = tuple(own.get(b, b) for b in node.program.inputs)
        return TensorProgram(node.program.name, params, (target,), (), (statement,))

    def _moved(self, node: Fragment, program: TensorProgram) -> Iterator[Node]:
        made: list[Node] = []
        whole = self.edges[node.outputs[0]].shape
        inputs = tuple(self._pixels_of(n, made) if self.edges[n].shape == whole else n for n in node.inputs)
        (output,) = program.outputs
        edge = Edge(fresh_name(f"{node.outputs[0]}_pixels", self.taken), output.dtype, shape_of(output.shape))
        self.edges[edge.name] = edge
        yield from made
        yield Fragment(fresh_name(f"{node.name}_pixels", self.taken), program, inputs, (edge.name,), origin=node.origin)
        yield self._image(node, edge.name)

    def _make(
        self,
        name: str,
        made: list[Node],
        inputs: tuple[str, ...],
        formula: Any,
        *args: Any,
        library: Call | None = None,
    ) -> str:
        """A new tensor, by a new fragment."""
        program = formula_program(name, [self.edges[n] for n in inputs], formula, *args)
        (output,) = program.outputs
        edge = Edge(fresh_name(name, self.taken), output.dtype, shape_of(output.shape))
        self.edges[edge.name] = edge
        made.append(Fragment(fresh_name(f"{edge.name}_node", self.taken), program, inputs, (edge.name,), library))
        return edge.name


def _size(buffer: Any) -> Shape:
    return shape_of(buffer.shape)
