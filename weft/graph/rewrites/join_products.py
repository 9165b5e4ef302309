"""Products of one tensor with several constant matrices, as one product with these side by side.

Queries, keys and values, or gate and up: what were several results are cuts of one. On a GPU one large product is
faster than some small ones, and a cut costs nothing. A matrix whose rows do not come out even gets columns of zeros
(`pad_products`): matrix units and accesses of 16 bytes want multiples of 8, and 50,257 words are none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from weft.graph.builder import formula_program
from weft.graph.formulas import contraction, joints, views
from weft.graph.graph import Call, Edge, Fragment, Graph, Node, Ref, shape_of
from weft.graph.groups.mapping import kind_of
from weft.ir.visit import fresh_name
from weft.tensor.program import TensorProgram


@dataclass(frozen=True)
class _Factor:
    """A product ``x w``, or ``x w + b``; ``turned`` where ``w`` is the transposed of the constant ``weight``."""

    node: Fragment
    x: str
    w: str
    weight: str
    turned: bool
    bias: str | None


def join_products(graph: Graph) -> Graph:
    """``graph`` with such products joined; folding puts the constants side by side once."""
    groups: dict[tuple[object, ...], list[_Factor]] = {}
    for node in graph.nodes:
        factor = _read(graph, node) if isinstance(node, Fragment) else None
        if factor is not None:
            depth = graph.edges[factor.w].shape[0]
            key = factor.x, factor.turned, factor.bias is None, graph.edges[factor.w].dtype, depth
            groups.setdefault(key, []).append(factor)
    joined = [several for several in groups.values() if len(several) > 1]
    return _Joiner(graph).join(joined) if joined else graph


#: Columns that rows of 16-bit elements are a multiple of, and from how many on padding pays.
EVEN, MANY = 8, 512


def pad_products(graph: Graph) -> Graph:
    """``graph`` with products of 16-bit matrices whose columns do not come out even padded, and cut again."""
    factors = [f for n in graph.nodes if isinstance(n, Fragment) and (f := _read(graph, n)) is not None]
    uneven = [f for f in factors if _is_uneven(graph.edges[f.w])]
    return _Joiner(graph).join([f] for f in uneven) if uneven else graph


def _is_uneven(factor: Edge) -> bool:
    return factor.dtype.is_narrow_float and factor.shape[1] % EVEN != 0 and factor.shape[1] >= MANY


def _read(graph: Graph, node: Fragment) -> _Factor | None:
    """``node`` as a product of a matrix with a constant one; by its formula, whatever it is called."""
    edges = [graph.edges[name] for name in node.inputs]
    ranks = [len(e.shape) for e in edges]
    if kind_of(node.program) != "contraction" or ranks[-2:] != [2, 2] or edges[-1].shape[0] != edges[-2].shape[1]:
        return None
    if ranks == [2, 2]:
        (x, w), bias = node.inputs, None
        same = formula_program("product", edges, contraction.matmul)
    elif ranks == [1, 2, 2] and edges[0].count == edges[2].shape[1]:
        bias, x, w = node.inputs
        same = formula_program("product", edges, contraction.add_product, 1, 1)
    else:
        return None
    if node.library is None or node.program != same or {*node.outputs} & {*graph.results}:
        return None
    producer = graph.producers.get(w)
    turned = isinstance(producer, Fragment) and producer.program == _turned(graph, producer.inputs)
    weight = producer.inputs[0] if turned and producer is not None else w
    constant = weight in graph.constants and (bias is None or bias in graph.constants)
    return _Factor(node, x, w, weight, turned, bias) if constant and x not in graph.constants else None


def _turned(graph: Graph, inputs: tuple[str, ...]) -> TensorProgram | None:
    """The transposed of a matrix, as a view."""
    edges = [graph.edges[name] for name in inputs]
    is_matrix = [len(e.shape) for e in edges] == [2]
    return formula_program("turned", edges, views.permute, (1, 0)) if is_matrix else None


class _Joiner:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.edges: dict[str, Edge] = dict(graph.edges)
        self.taken = {*graph.edges, *(n.name for n in graph.nodes)}

    def join(self, groups: Iterable[list[_Factor]]) -> Graph:
        first: dict[str, list[Node]] = {}
        gone: set[str] = set()
        for factors in groups:
            first[factors[0].node.name] = self._joined(factors)
            gone |= {f.node.name for f in factors}
        nodes: list[Node] = []
        for node in self.graph.nodes:
            nodes += first.get(node.name, []) if node.name in gone else [node]
        return replace(self.graph, nodes=tuple(nodes), edges=self.edges)

    def _joined(self, factors: list[_Factor]) -> list[Node]:
        first, made = factors[0], []  # type: _Factor, list[Node]
        columns = 0 if first.turned else 1
        weight = self._side_by_side([f.weight for f in factors], columns, made)
        names = {first.w: weight}
        if first.turned:
            turned = formula_program("turned", [self.edges[weight]], views.permute, (1, 0))
            names[first.w] = self._make(f"{weight}_turned", turned, (weight,), made)
        if first.bias is not None:
            names[first.bias] = self._side_by_side([f.bias for f in factors if f.bias is not None], 0, made)
        inputs = tuple(names.get(n, n) for n in first.node.inputs)
        given = [self.edges[n] for n in inputs]
        formula = (contraction.matmul,) if first.bias is None else (contraction.add_product, 1, 1)
        program = formula_program("product", given, *formula)
        assert first.node.library is not None
        whole = self._make(f"{first.node.name}_joined", program, inputs, made, first.node.library.renamed(names))
        start = 0
        for f in factors:
            (name,) = f.node.outputs
            rows, columns = self.edges[name].shape
            cut = formula_program("cut", [self.edges[whole]], views.cut, (0, start), (1, 1), (rows, columns))
            made.append(Fragment(f.node.name, cut, (whole,), (name,), origin=f.node.origin))
            start += columns
        return made

    def _side_by_side(self, names: list[str], axis: int, made: list[Node]) -> str:
        if len(names) == 1:
            return self._padded(names[0], axis, made)
        edges = [self.edges[name] for name in names]
        program = formula_program("join", edges, joints.join, axis, edges[0].dtype)
        call = Call("aten.cat.default", (tuple(map(Ref, names)), axis))
        return self._make(f"{names[0]}_joined", program, tuple(names), made, call)

    def _padded(self, name: str, axis: int, made: list[Node]) -> str:
        edge = self.edges[name]
        rank, more = len(edge.shape), -edge.shape[axis] % EVEN
        before, after = (0,) * rank, tuple(more if d == axis else 0 for d in range(rank))
        program = formula_program("pad", [edge], joints.pad, before, after, "zero")
        sizes = tuple(n for d in reversed(range(rank)) for n in (0, after[d]))
        return self._make(
            f"{name}_padded", program, (name,), made, Call("aten.constant_pad_nd.default", (Ref(name), sizes))
        )

    def _make(
        self, name: str, program: TensorProgram, inputs: tuple[str, ...], made: list[Node], library: Call | None = None
    ) -> str:
        """A new tensor, by a new fragment."""
        (output,) = program.outputs
        edge = Edge(fresh_name(name, self.taken), output.dtype, shape_of(output.shape))
        self.edges[edge.name] = edge
        made.append(Fragment(fresh_name(f"{edge.name}_node", self.taken), program, inputs, (edge.name,), library))
        return edge.name
