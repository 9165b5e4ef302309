"""Products of one tensor with several constant matrices, as one product with these side by side.

Queries, keys and values, or gate and up: what were several results are cuts of one. One large product is faster than
some small ones where launches or packing cost, and a cut costs nothing. A matrix whose rows do not come out even gets
columns of zeros (`pad_products`): a GPU's matrix units and accesses want multiples of 8, and 50,257 words are none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from weft.graph.builder import formula_program
from weft.graph.formulas import contraction, joints, views
from weft.graph.graph import Fragment, Graph, Node
from weft.graph.groups.mapping import kind_of
from weft.graph.rewrites.additions import Additions
from weft.graph.rewrites.costs import Costs
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


def join_products(graph: Graph, costs: Costs) -> Graph:
    """``graph`` with such products joined where that takes no longer; folding puts constants side by side once."""
    groups: dict[tuple[object, ...], list[_Factor]] = {}
    for node in graph.nodes:
        factor = _read(graph, node) if isinstance(node, Fragment) else None
        if factor is not None:
            depth = graph.edges[factor.w].shape[0]
            key = factor.x, factor.turned, factor.bias is None, graph.edges[factor.w].dtype, depth
            groups.setdefault(key, []).append(factor)
    joined = [several for several in groups.values() if len(several) > 1 and _pays(graph, several, costs)]
    return _Joiner(graph, costs).join(joined) if joined else graph


def _pays(graph: Graph, factors: list[_Factor], costs: Costs) -> bool:
    x, parts = graph.edges[factors[0].x], [graph.edges[f.w] for f in factors]
    columns = sum(w.shape[1] for w in parts)
    whole = replace(parts[0], shape=(parts[0].shape[0], columns))
    apart = [formula_program("product", [x, w], contraction.matmul) for w in parts]
    return costs.takes_no_longer([formula_program("product", [x, whole], contraction.matmul)], apart)


#: Columns from which on padding pays.
MANY = 512


def pad_products(graph: Graph, costs: Costs) -> Graph:
    """``graph`` with products whose columns do not come out even for the processor padded, and cut again."""
    factors = [f for n in graph.nodes if isinstance(n, Fragment) and (f := _read(graph, n)) is not None]
    uneven = [f for f in factors if graph.edges[f.w].shape[1] % costs.even(graph.edges[f.w].dtype)]
    many = [f for f in uneven if graph.edges[f.w].shape[1] >= MANY]
    return _Joiner(graph, costs).join([f] for f in many) if many else graph


def _read(graph: Graph, node: Fragment) -> _Factor | None:
    """``node`` as a product of a matrix with a constant one; by its formula, whatever it is called."""
    edges = [graph.edges[name] for name in node.inputs]
    ranks = [len(e.shape) for e in edges]
    is_product = kind_of(node.program) == "contraction" and len(ranks) > 1 and ranks[-1] == 2 and ranks[-2] > 1
    if not is_product or edges[-1].shape[0] != edges[-2].shape[-1]:
        return None
    if len(ranks) == 2:
        (x, w), bias = node.inputs, None
        same = formula_program("product", edges, contraction.matmul)
    elif ranks == [1, 2, 2] and edges[0].count == edges[2].shape[1]:
        bias, x, w = node.inputs
        same = formula_program("product", edges, contraction.add_product, 1, 1)
    else:
        return None
    if replace(same, name=node.program.name) != node.program or {*node.outputs} & {*graph.results}:
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


class _Joiner(Additions):
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
        weight = self._side_by_side([f.weight for f in factors], first, 0 if first.turned else 1, made)
        names = {first.w: weight}
        if first.turned:
            names[first.w] = self.make(f"{weight}_turned", (weight,), made, views.permute, (1, 0))
        if first.bias is not None:
            names[first.bias] = self._side_by_side([f.bias for f in factors if f.bias is not None], first, 0, made)
        inputs = tuple(names.get(n, n) for n in first.node.inputs)
        formula = (contraction.matmul,) if first.bias is None else (contraction.add_product, 1, 1)
        whole = self.make(f"{first.node.name}_joined", inputs, made, *formula)
        start = 0
        for f in factors:
            (name,) = f.node.outputs
            *rows, columns = self.edges[name].shape
            starts, steps = (*(0 for _ in rows), start), (1,) * (len(rows) + 1)
            cut = formula_program("cut", [self.edges[whole]], views.cut, starts, steps, (*rows, columns))
            made.append(Fragment(f.node.name, cut, (whole,), (name,), origin=f.node.origin))
            start += columns
        return made

    def _side_by_side(self, names: list[str], first: _Factor, axis: int, made: list[Node]) -> str:
        if len(names) > 1:
            return self.make(f"{names[0]}_joined", tuple(names), made, joints.join, axis, self.edges[names[0]].dtype)
        (name,), rank, factor = names, len(self.edges[names[0]].shape), self.edges[first.w]
        more = -factor.shape[1] % self.costs.even(factor.dtype)
        before, after = (0,) * rank, tuple(more if d == axis else 0 for d in range(rank))
        return self.make(f"{name}_padded", (name,), made, joints.pad, before, after, "zero")
