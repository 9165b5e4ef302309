"""Convolutions whose windows do not overlap, as what they are: products of matrices, a row for each pixel.

A convolution of one tap, or the patches at the bottom of a vision transformer. Formulas that follow it are computed
in the same shape, so that they can be done with each sum; with channels last in memory, pixels as rows of a matrix
and as an image are views of the same memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

from weft.graph.builder import formula_program
from weft.graph.formulas import contraction, windows
from weft.graph.formulas.common import element, shape
from weft.graph.graph import Edge, Fragment, Graph, Node, Shape, shape_of
from weft.graph.groups.mapping import definition_of, kind_of
from weft.graph.rewrites.additions import Additions
from weft.graph.rewrites.costs import Costs, all_but_first
from weft.graph.rewrites.reorder import last, reorder_program
from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Load, Var, idx
from weft.ir.visit import Node as IrNode
from weft.ir.visit import free_vars, loads, rewrite, substitute
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


def pixel_products(graph: Graph, costs: Costs) -> Graph:
    """``graph`` with such convolutions that take no less so, and the formulas that follow them, over pixels."""
    return _Rewriter(graph, costs).rewrite()


class _Rewriter(Additions):
    def __init__(self, graph: Graph, costs: Costs) -> None:
        super().__init__(graph, costs)
        #: images that are views of matrices of pixels
        self.pixels: dict[str, str] = {}

    def rewrite(self) -> Graph:
        asked = [p for node in self.graph.fragments if self._is_window(node) for p in self._ways(node)]
        self.costs.prepare((p, all_but_first(p)) for p in asked)
        nodes: list[Node] = []
        for node in self.graph.nodes:
            nodes += self._rewritten(node) if isinstance(node, Fragment) else [node]
        return replace(self.graph, edges=self.edges, nodes=tuple(nodes)) if self.pixels else self.graph

    def _rewritten(self, node: Fragment) -> Iterator[Node]:
        if self._is_window(node) and self._pays(node):
            yield from self._product(node)
        elif (program := self._over_pixels(node)) is not None:
            yield from self._moved(node, program)
        else:
            yield node

    def _is_window(self, node: Fragment) -> bool:
        """Whether it is a convolution whose windows lie next to one another; by its formula."""
        whole, given = self.edges[node.outputs[0]].shape, [self.edges[n] for n in node.inputs]
        is_window = [len(e.shape) for e in given] in ([4, 4], [4, 4, 1]) and len(whole) == 4
        if not is_window or kind_of(node.program) != "contraction":
            return False
        taps, zeros, ones = given[1].shape[2:], (0, 0), (1, 1)
        fits = given[0].shape[1] == given[1].shape[1] and all(n >= k for n, k in zip(given[0].shape[2:], taps))
        formula = windows.convolution if len(given) == 3 else windows.convolution_without_bias
        same = formula_program("windows", given, formula, taps, zeros, zeros, ones, 1) if fits else None
        return same is not None and replace(same, name=node.program.name) == node.program

    def _pays(self, node: Fragment) -> bool:
        """Whether the product takes no longer than the convolution, with its features last."""
        product, windows_last = self._ways(node)
        return self.costs.takes_no_longer([product], [windows_last])

    def _ways(self, node: Fragment) -> tuple[TensorProgram, TensorProgram]:
        """As a product, and as it is."""
        x, weight = (self.edges[n] for n in node.inputs[:2])
        batch, filters, *image = self.edges[node.outputs[0]].shape
        rows = Edge("rows", x.dtype, (batch * prod(image), prod(weight.shape[1:])))
        factor = Edge("factor", weight.dtype, (rows.shape[1], filters))
        product = formula_program("product", [rows, factor], contraction.matmul)
        return product, reorder_program(node.program, {b.name: last(4, 1) for b in _images(node.program)})

    def _product(self, node: Fragment) -> Iterator[Node]:
        x, weight = (self.edges[n] for n in node.inputs[:2])
        sizes = self.edges[node.outputs[0]].shape
        taps = weight.shape[2:]
        made: list[Node] = []
        if taps == (1, 1):
            rows = self._pixels_of(x.name, made)
        else:
            rows = self.make(f"{x.name}_patches", (x.name,), made, patches, taps, sizes[2:])
        factor = self.make(f"{weight.name}_columns", (weight.name,), made, filters)
        if len(node.inputs) == 2:
            name = self.make(f"{node.name}_pixels", (rows, factor), made, contraction.matmul)
        else:
            name = self.make(f"{node.name}_pixels", (node.inputs[2], rows, factor), made, contraction.add_product, 1, 1)
        yield from made
        yield self._image(node, name)

    def _pixels_of(self, name: str, made: list[Node]) -> str:
        """The matrix of pixels of an image."""
        if name not in self.pixels:
            sizes = self.edges[name].shape
            self.pixels[name] = self.make(f"{name}_rows", (name,), made, patches, (1, 1), sizes[2:])
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
        edge = self.edge(f"{node.outputs[0]}_pixels", program)
        yield from made
        yield Fragment(self.fresh(f"{node.name}_pixels"), program, inputs, (edge.name,), origin=node.origin)
        yield self._image(node, edge.name)


def _images(program: TensorProgram) -> list[Buffer]:
    """What a convolution reads and makes, but its weights and bias."""
    return [b for b in (program.inputs[0], *program.outputs, *program.temporaries) if len(b.shape) == 4]


def _size(buffer: Any) -> Shape:
    return shape_of(buffer.shape)
