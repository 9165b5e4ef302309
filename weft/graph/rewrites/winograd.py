"""Convolutions of 3x3 windows with fewer multiplications: Winograd's F(2x2, 3x3), by formulas alone.

Tiles of 4x4 pixels, each two from the next, become 16 sums of pixels (`tiles`); each of these is multiplied with its
own matrix (sums of weights, which are constants), and sums of the 16 results are 2x2 pixels of the image (`image`): 16
multiplications where windows have 36. No result is made of pixels outside its own window, and sums are shorter, so
results are about as near to exact ones as those of windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product as pairs
from typing import Any, NamedTuple

from weft.graph.builder import formula_program
from weft.graph.formulas import contraction, windows
from weft.graph.formulas.common import affine, element, shape
from weft.graph.formulas.views import permute, reshape
from weft.graph.graph import Edge, Fragment, Graph, Node, Shape
from weft.graph.groups.mapping import kind_of
from weft.graph.rewrites.additions import Additions
from weft.graph.rewrites.costs import Costs, all_but_first
from weft.graph.rewrites.reorder import last, reorder_program
from weft.ir.dtype import DType
from weft.tensor import python_api as w
from weft.tensor.program import TensorProgram
from weft.tensor.python_api import Tensor, Value, cast, compute

#: Pixels of a tile along one axis that are added up, each with its sign, and results of it that a pixel is made of.
_OF_PIXELS = (((0, 1), (2, -1)), ((1, 1), (2, 1)), ((2, 1), (1, -1)), ((1, 1), (3, -1)))
_OF_RESULTS = (((0, 1), (1, 1), (2, 1)), ((1, 1), (2, -1), (3, -1)))
#: What the three weights along one axis are multiplied with for each sum of them.
_OF_WEIGHTS = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.0, 0.0, 1.0))


class Window(NamedTuple):
    """A convolution: zeros before rows and columns of its image, and tiles of its result."""

    before: Shape
    tiles: Shape


def tiles(x: Tensor, before: Shape, count: Shape) -> Tensor:
    """Sums of the pixels of each tile of (batch, channels, height, width): (4, 4, batch, rows, columns, channels)."""
    batch, channels = shape(x)[:2]
    padded = x.outside("zero")

    def body(a: Any, b: Any, n: Any, i: Any, j: Any, c: Any) -> Value:
        def pixel(u: int, v: int) -> Value:
            return element(padded, n, c, affine(i, 2, u - before[0]), affine(j, 2, v - before[1]))

        return _piece(a, b, _OF_PIXELS, pixel)

    return compute((4, 4, batch, *count, channels), body, name="O")


def weight_sums(dtype: DType) -> Tensor:
    """What the nine weights of a window are multiplied with for each of the 16 sums of them."""

    def along(sum_of: Any, weight: Any) -> Value:
        return _at(sum_of, [_at(weight, [cast(dtype, factor) for factor in factors]) for factors in _OF_WEIGHTS])

    def body(k: Any, t: Any) -> Value:
        return along(t // 4, k // 3) * along(t % 4, k % 3)

    return compute((9, 16), body, name="O", dtype=dtype)


def image(products: Tensor, *rest: Any) -> Tensor:
    """2x2 pixels of each tile, and a bias where it is given: (batch, rows, 2, columns, 2, channels)."""
    (bias,) = rest or (None,)
    _, _, batch, rows, columns, channels = shape(products)

    def body(n: Any, i: Any, p: Any, j: Any, q: Any, f: Any) -> Value:
        value = _piece(p, q, _OF_RESULTS, lambda a, b: element(products, a, b, n, i, j, f))
        return value if bias is None else value + bias[f]

    return compute((batch, rows, 2, columns, 2, channels), body, name="O")


def cut(y: Tensor, sizes: Shape) -> Tensor:
    """(batch, channels, height, width) of what `image` gives, without what tiles have beyond it."""
    return compute(sizes, lambda n, f, i, j: element(y, n, i // 2, i % 2, j // 2, j % 2, f), name="O")


def _piece(a: Any, b: Any, terms: Sequence[Any], read: Any) -> Value:
    """The signed sum of what ``read`` gives that is at ``(a, b)``."""

    def here(k: int, m: int) -> Value:
        return _signed_sum((s * t, read(u, v)) for (u, s), (v, t) in pairs(terms[k], terms[m]))

    number = range(len(terms))
    return _at(a, [_at(b, [here(k, m) for m in number]) for k in number])


def _at(index: Any, pieces: Sequence[Value]) -> Value:
    value = pieces[-1]
    for n in reversed(range(len(pieces) - 1)):
        value = w.select(index < n + 1, pieces[n], value)
    return value


def _signed_sum(terms: Iterable[tuple[int, Value]]) -> Value:
    """The first of which has no sign."""
    (_, total), *rest = terms
    for sign, value in rest:
        total = total + value if sign > 0 else total - value
    return total


def winograd(graph: Graph, costs: Costs) -> Graph:
    """``graph`` with convolutions so where that takes less time and tiles stay in a cache."""
    return _Rewriter(graph, costs).rewrite()


class _Rewriter(Additions):
    def __init__(self, graph: Graph, costs: Costs) -> None:
        super().__init__(graph, costs)
        #: sums of pixels that are there already, by the image and its windows
        self._tiles: dict[tuple[str, Window], str] = {}

    def rewrite(self) -> Graph:
        found = {node.name: window for node in self.graph.fragments if (window := self._window(node)) is not None}
        asked = [p for node in self.graph.fragments if node.name in found for p in self._ways(node, found[node.name])]
        self.costs.prepare((p, all_but_first(p)) for p in asked)
        nodes: list[Node] = []
        for node in self.graph.nodes:
            window = found.get(node.name)
            if isinstance(node, Fragment) and window is not None and self._pays(node, window):
                nodes += self._rewritten(node, window)
            else:
                nodes.append(node)
        if not self._tiles:
            return self.graph
        return replace(self.graph, edges=self.edges, nodes=tuple(nodes))

    def _window(self, node: Fragment) -> Window | None:
        """Of a convolution of 3x3 windows, each one pixel from the next, with constant weights; by its formula."""
        whole, given = self.edges[node.outputs[0]].shape, [self.edges[n] for n in node.inputs]
        if [len(e.shape) for e in given] not in ([4, 4], [4, 4, 1]) or kind_of(node.program) != "contraction":
            return None
        x, weight = given[:2]
        is_plain = weight.shape == (whole[1], x.shape[1], 3, 3) and node.inputs[1] in self.graph.constants
        if not is_plain or x.dtype.itemsize < 4 or not x.dtype.is_float:  # sums of few bits would be rounded
            return None
        around = [n + 2 - m for n, m in zip(whole[2:], x.shape[2:])]
        for before in pairs(*(range(min(n, 2) + 1) for n in around)):
            after = tuple(n - b for n, b in zip(around, before))
            if min(after, default=0) >= 0 and self._is_window(node, given, before, after):
                return Window(before, tuple(-(-n // 2) for n in whole[2:]))
        return None

    def _is_window(self, node: Fragment, given: Sequence[Edge], before: Shape, after: Shape) -> bool:
        formula = windows.convolution if len(given) == 3 else windows.convolution_without_bias
        same = formula_program("windows", given, formula, (1, 1), before, after, (1, 1), 1)
        return replace(same, name=node.program.name) == node.program

    def _ways(self, node: Fragment, window: Window) -> tuple[TensorProgram, TensorProgram]:
        """The product of tiles, and the convolution as it is, with its features last."""
        pixels, factor, _ = self._edges(node, window)
        images = node.program.inputs[0], *node.program.outputs, *node.program.temporaries
        as_it_is = reorder_program(node.program, {b.name: last(4, 1) for b in images})
        return formula_program("product", [pixels, factor], contraction.matmul), as_it_is

    def _edges(self, node: Fragment, window: Window) -> tuple[Edge, Edge, Edge]:
        """Sums of pixels, of weights, and their products."""
        x, weight = (self.edges[n] for n in node.inputs[:2])
        rows = x.shape[0] * window.tiles[0] * window.tiles[1]
        filters, channels = weight.shape[:2]
        shapes = {"pixels": (16, rows, channels), "factor": (16, channels, filters), "products": (16, rows, filters)}
        pixels, factor, products = (Edge(name, x.dtype, sizes) for name, sizes in shapes.items())
        return pixels, factor, products

    def _pays(self, node: Fragment, window: Window) -> bool:
        pixels, _, products = self._edges(node, window)
        between = pixels.nbytes + products.nbytes
        if between > self.costs.arrays.processor.cached_bytes:
            return False
        product, as_it_is = (self.costs.seconds(p, all_but_first(p)) for p in self._ways(node, window))
        return product + self.costs.conversion(between) < as_it_is

    def _rewritten(self, node: Fragment, window: Window) -> Iterator[Node]:
        x, weight = (self.edges[n] for n in node.inputs[:2])
        made: list[Node] = []
        pixels = self._pixels_of(x, window, made)
        matrices = self._matrices_of(weight, made)
        product = self.make(f"{node.name}_products", (pixels, matrices), made, contraction.matmul)
        sizes = (4, 4, x.shape[0], *window.tiles, weight.shape[0])
        tiled = self.make(f"{node.name}_tiles", (product,), made, reshape, sizes)
        pixel = self.make(f"{node.name}_image", (tiled, *node.inputs[2:]), made, image)
        yield from made
        program = formula_program("cut", [self.edges[pixel]], cut, self.edges[node.outputs[0]].shape)
        yield Fragment(node.name, program, (pixel,), node.outputs, origin=node.origin)

    def _pixels_of(self, x: Edge, window: Window, made: list[Node]) -> str:
        if (x.name, window) not in self._tiles:
            summed = self.make(f"{x.name}_tiles", (x.name,), made, tiles, *window)
            rows = x.shape[0] * window.tiles[0] * window.tiles[1]
            name = self.make(f"{x.name}_sums", (summed,), made, reshape, (16, rows, x.shape[1]))
            self._tiles[x.name, window] = name
        return self._tiles[x.name, window]

    def _matrices_of(self, weight: Edge, made: list[Node]) -> str:
        """The sums of weights, (16, channels, filters): a product that constants are computed by."""
        number, channels = weight.shape[:2]
        spread = self.make(f"{weight.name}_spread", (), made, weight_sums, weight.dtype)
        rows = self.make(f"{weight.name}_rows", (weight.name,), made, reshape, (number * channels, 9))
        summed = self.make(f"{weight.name}_sums", (rows, spread), made, contraction.matmul)
        apart = self.make(f"{weight.name}_apart", (summed,), made, reshape, (number, channels, 16))
        return self.make(f"{weight.name}_matrices", (apart,), made, permute, (2, 1, 0))
