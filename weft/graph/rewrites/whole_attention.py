"""Attention that a model writes out, ``softmax(scale q kᵀ + masks) v``, as one formula: libraries have it, and on a
CPU scores are computed with what is made of them.

It is found by its formulas: a product with a softmax whose rows are sums of another product and of what does not depend
on it. Views between them are composed, so whatever reshapes a framework takes products of batches by are gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from weft.graph.builder import formula_program
from weft.graph.formulas import attention, contraction, normalization, views
from weft.graph.graph import Edge, Fragment, Graph, Node, Shape, shape_of
from weft.graph.groups.mapping import View, definition_of, kind_of, view_of
from weft.graph.rewrites.additions import Additions
from weft.graph.rewrites.costs import Costs
from weft.graph.rewrites.fold_constants import needed_nodes
from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.expr import Axis, Binary, Cast, Compare, Const, Expr, Load, Select, Var, cast, const, idx
from weft.ir.visit import Node as IrNode
from weft.ir.visit import free_vars, loads, replace_buffers, rewrite, substitute
from weft.tensor.program import Statement, TensorProgram
from weft.tensor.simplify_values import simplify_subscript
from weft.tensor.specialize import axis_ranges

_Axes = tuple[Var, Var, Var, Var]


def whole_attention(graph: Graph, costs: Costs) -> Graph:
    """``graph`` with attention that is written out as whole attention, where the processor wants it so."""
    wanted = costs.arrays.processor.wants_whole_attention
    additions = Additions(graph, costs)
    placed: dict[str, list[Node]] = {}
    for node in graph.nodes:
        found = _Reader(graph).read(node) if isinstance(node, Fragment) else None
        if found is not None and all(wanted(graph.edges[x].dtype, found.width, found.features) for x in node.inputs):
            placed[node.name] = _nodes(additions, found)
    if not placed:
        return graph
    nodes = [new for node in graph.nodes for new in placed.get(node.name, [node])]
    return replace(graph, nodes=tuple(needed_nodes(nodes, {*graph.results})), edges=additions.edges)


@dataclass(frozen=True)
class _Source:
    """Elements of a tensor of the graph under subscripts of the four axes of attention."""

    name: str
    indices: tuple[Expr, ...]


@dataclass(frozen=True)
class _Attention:
    """``node`` makes what attention does, in another shape; ``rest`` is added to each score.

    ``sizes`` are those of the axes; queries and keys have ``width`` elements, values and results ``features``.
    """

    node: Fragment
    sizes: tuple[int, int, int, int]
    width: int
    features: int
    q: _Source
    k: _Source
    v: _Source
    scale: float
    rest: tuple[Expr, ...]


class _Reader:
    """Reads attention backwards from its last product. Axes are batch, heads, rows, then columns or features."""

    axes: _Axes = (Var("b"), Var("h"), Var("s"), Var("t"))

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.sizes: Shape = ()

    def read(self, mix: Fragment) -> _Attention | None:
        if not _is_product(self.graph, mix):
            return None
        weights, values = (self.graph.edges[name] for name in mix.inputs)
        softmax = self._behind(mix.inputs[0])
        if softmax is None or not _is_softmax(self.graph, softmax):
            return None
        *outer, rows, columns = self.graph.edges[softmax.outputs[0]].shape
        if len(outer) not in (1, 2) or weights.shape[-2:] != (rows, columns):
            return None
        batch, heads = (1, outer[0]) if len(outer) == 1 else outer
        self.sizes = (batch, heads, rows, columns)
        same = self._through(mix.inputs[0], self._joined(weights.shape), casts=True)
        if same != _Source(softmax.outputs[0], self._joined((*outer, rows, columns))):
            return None
        scores = self._scores(softmax.inputs[0], self._joined(self.graph.edges[softmax.inputs[0]].shape))
        if scores is None:
            return None
        product, scale, rest = scores
        width, features = self.graph.edges[product.inputs[0]].shape[-1], values.shape[-1]
        q, more = self._scaled(self._factor(product.inputs[0], (rows, width), turned=False))
        k = self._factor(product.inputs[1], (width, columns), turned=True)
        v = self._factor(mix.inputs[1], (columns, features), turned=False)
        return _Attention(mix, (batch, heads, rows, columns), width, features, q, k, v, scale * more, rest)

    def _joined(self, shape: Shape) -> tuple[Expr, ...]:
        """The subscripts under which a tensor of such a shape has element ``b, h, s, t``; heads may be in the batch."""
        b, h, s, t = self.axes
        if len(shape) == 4:
            return self._simplified((b, h, s, t), self.sizes)
        return self._simplified((b * idx(self.sizes[1]) + h, s, t), self.sizes)

    def _simplified(self, indices: Sequence[Expr], sizes: Shape) -> tuple[Expr, ...]:
        ranges = axis_ranges([Axis(v, idx(0), idx(n)) for v, n in zip(self.axes, sizes)])
        ones = {v: idx(0) for v, n in zip(self.axes, sizes) if n == 1}
        return tuple(simplify_subscript(substitute(i, ones), ranges) for i in indices)

    def _behind(self, name: str) -> Fragment | None:
        """What makes the tensor that ``name`` is a view of, or another type."""
        node = self.graph.producers.get(name)
        while isinstance(node, Fragment) and _view_of(node.program, casts=True) is not None:
            node = self.graph.producers.get(node.inputs[0])
        return node if isinstance(node, Fragment) else None

    def _through(
        self, name: str, indices: tuple[Expr, ...], sizes: Shape | None = None, *, casts: bool = False
    ) -> _Source:
        """The tensor that ``name`` is a view of, or also another type, with its subscripts there."""
        node = self.graph.producers.get(name)
        while isinstance(node, Fragment) and (view := _view_of(node.program, casts)) is not None:
            bound = dict(zip(view.axes, indices))
            indices = self._simplified([substitute(i, bound) for i in view.load.indices], sizes or self.sizes)
            name = node.inputs[0]
            node = self.graph.producers.get(name)
        return _Source(name, indices)

    def _factor(self, name: str, shape: tuple[int, int], *, turned: bool) -> _Source:
        """A factor of a product of batches, by the axes that queries, keys and values have: rows, then features."""
        b, h, s, t = self.axes
        sizes = (*self.sizes[:2], *(reversed(shape) if turned else shape))
        last = (t, s) if turned else (s, t)
        is_joined = len(self.graph.edges[name].shape) == 3
        first = (b * idx(self.sizes[1]) + h,) if is_joined else (b, h)
        return self._through(name, self._simplified((*first, *last), sizes), sizes)

    def _scaled(self, q: _Source) -> tuple[_Source, float]:
        """Queries before they are multiplied by a number, and that number."""
        node = self.graph.producers.get(q.name)
        found = _scale_of(node.program) if isinstance(node, Fragment) and node.outputs == (q.name,) else None
        if found is None or not isinstance(node, Fragment):
            return q, 1.0
        shape = self.graph.edges[node.inputs[0]].shape
        if shape != self.graph.edges[q.name].shape:
            return q, 1.0
        sizes = (*self.sizes[:3], shape[-1])
        return self._through(node.inputs[0], q.indices, sizes), found

    def _scores(self, name: str, indices: tuple[Expr, ...]) -> tuple[Fragment, float, tuple[Expr, ...]] | None:
        """The product whose results are scaled and added to, and what is added, by the axes of attention."""
        whole = self._inlined(name, indices)
        products = [load for load in loads(whole) if self._is_score(load)]
        if len(products) != 1:
            return None
        (score,) = products
        parts = _split(whole, score)
        product = self.graph.producers[score.buffer.name]
        if (
            parts is None
            or not isinstance(product, Fragment)
            or score.indices != self._joined(shape_of(score.buffer.shape))
        ):
            return None
        return product, *parts

    def _is_score(self, load: Load) -> bool:
        node = self.graph.producers.get(load.buffer.name)
        return isinstance(node, Fragment) and _is_product(self.graph, node)

    def _inlined(self, name: str, indices: tuple[Expr, ...]) -> Expr:
        """An element as formulas of one element say it, back to the product that they depend on."""
        node, edge = self.graph.producers.get(name), self.graph.edges[name]
        definition = definition_of(node.program) if isinstance(node, Fragment) and self._depends(node) else None
        if definition is None or not isinstance(node, Fragment):
            return Load(Buffer(name, edge.dtype, tuple(map(idx, edge.shape))), indices)
        axes, value = definition
        given = {b.name: n for b, n in zip(node.program.inputs, node.inputs)}

        def put(n: IrNode) -> IrNode | None:
            if not isinstance(n, Load):
                return None
            return self._inlined(given[n.buffer.name], self._simplified(n.indices, self.sizes))

        return rewrite(substitute(value, dict(zip(axes, indices))), put)

    def _depends(self, node: Fragment) -> bool:
        """Whether a formula of one element is made from a product, by such formulas."""
        if kind_of(node.program) not in ("view", "pointwise"):
            return False
        makers = [self.graph.producers.get(name) for name in node.inputs]
        return any(isinstance(m, Fragment) and (_is_product(self.graph, m) or self._depends(m)) for m in makers)


def _view_of(program: TensorProgram, casts: bool) -> View | None:
    """The map of a view, or of what is a view but for its type."""
    definition = definition_of(program) if casts else None
    if definition is not None and isinstance(definition[1], Cast) and isinstance(definition[1].operand, Load):
        is_float = definition[1].dtype.is_float and definition[1].operand.dtype.is_float
        return View(definition[0], definition[1].operand) if is_float else None
    return view_of(program)


def _is_product(graph: Graph, node: Fragment) -> bool:
    """Whether it is a batch of products of matrices, whatever it is called."""
    edges = [graph.edges[name] for name in node.inputs]
    if kind_of(node.program) != "contraction" or [len(e.shape) for e in edges] not in ([3, 3], [4, 4]):
        return False
    (*outer, _, depth), (*others, inner, _) = (e.shape for e in edges)
    if outer != others or depth != inner or not all(e.dtype.is_float for e in edges):
        return False
    same = formula_program("product", edges, contraction.matmul)
    return replace(same, name=node.program.name) == node.program


def _is_softmax(graph: Graph, node: Fragment) -> bool:
    """Whether it is the softmax of rows, which nobody else reads."""
    (*_, last) = node.inputs
    edge = graph.edges[last]
    if len(node.inputs) != 1 or kind_of(node.program) != "reduction" or not edge.dtype.is_float:
        return False
    made = graph.edges[node.outputs[0]]
    same = formula_program("softmax", [edge], normalization.softmax, len(edge.shape) - 1, made.dtype, False, False)
    is_read_once = len(graph.readers.get(made.name, [])) == 1 and made.name not in graph.results
    return is_read_once and replace(same, name=node.program.name) == node.program


def _scale_of(program: TensorProgram) -> float | None:
    """The number that a formula multiplies each element by, where that is all it does."""
    definition = definition_of(program)
    if definition is None:
        return None
    axes, value = definition
    read = loads(value)
    if len(read) != 1 or read[0].indices != axes:
        return None
    parts = _split(value, read[0])
    return parts[0] if parts is not None and not parts[1] else None


def _split(e: Expr, score: Load) -> tuple[float, tuple[Expr, ...]] | None:
    """``e`` as a number times ``score`` and what is added to that; rounding in between is left out."""
    match e:
        case Load():
            return (1.0, ()) if e == score else None
        case Cast(operand=operand) if e.dtype.is_float and operand.dtype.is_float:
            return _split(operand, score)
        case Binary(op="+", left=left, right=right):
            first, other = (left, right) if score in loads(left) else (right, left)
            found = _split(first, score)
            return None if found is None or score in loads(other) else (found[0], (*found[1], other))
        case Binary(op="*" | "/" as op, left=left, right=right):
            factor, rest = (_number(right), left) if _number(right) is not None else (_number(left), right)
            found = _split(rest, score)
            if factor is None or found is None or found[1] or (op == "/" and rest is not left):
                return None
            return found[0] * (factor if op == "*" else 1 / factor), ()
    return None


def _number(e: Expr) -> float | None:
    while isinstance(e, Cast):
        e = e.operand
    return float(e.value) if isinstance(e, Const) else None


def _nodes(additions: Additions, found: _Attention) -> list[Node]:
    """Attention, the views that it reads, and its result as ``found.node`` made it."""
    (batch, heads, rows, columns), features = found.sizes, found.features
    made: list[Node] = []
    sizes = {"q": (rows, found.width), "k": (columns, found.width), "v": (columns, features)}
    given = [
        _view(additions, f"{found.node.name}_{name}", getattr(found, name), (batch, heads, *size), made)
        for name, size in sizes.items()
    ]
    if found.rest:
        given.append(_mask(additions, found, additions.edges[given[0]].dtype, made))
    edges = [additions.edges[name] for name in given]
    args = (bool(found.rest), False, found.scale, 1)
    program = formula_program("attention", edges, attention.attention, *args)
    library = additions.costs.call_of(attention.attention, args, edges)
    names = [additions.fresh(f"{found.node.name}_{name}") for name in ("whole", "sums")]
    for name, output in zip(names, program.outputs):
        additions.edges[name] = Edge(name, output.dtype, shape_of(output.shape))
    beside = (
        rows * heads * features,
        features,
        heads * features,
        1,
    )  # heads side by side in each row, as libraries give them
    additions.edges[names[0]] = replace(additions.edges[names[0]], strides=beside)
    origin = found.node.origin
    made.append(Fragment(additions.fresh(f"{names[0]}_node"), program, tuple(given), tuple(names), library, origin))
    (result,) = found.node.outputs
    made.append(_result(additions, found.node, names[0], additions.edges[result].shape))
    return made


def _result(additions: Additions, node: Fragment, whole: str, shape: Shape) -> Fragment:
    program = formula_program("reshape", [additions.edges[whole]], views.reshape, shape)
    return Fragment(node.name, program, (whole,), node.outputs, origin=node.origin)


def _view(additions: Additions, name: str, source: _Source, shape: Shape, made: list[Node]) -> str:
    edge = additions.edges[source.name]
    given = Buffer("X", edge.dtype, tuple(map(idx, edge.shape)))
    program = _program("view", (given,), shape, Load(given, source.indices), edge.dtype)
    return _added(additions, name, program, (source.name,), made)


def _mask(additions: Additions, found: _Attention, dtype: DType, made: list[Node]) -> str:
    """All that is added to scores, by itself; of one element along axes that it does not depend on."""
    total = reduce(lambda a, b: Binary("+", a, b), [cast(_wider(e.dtype), e) for e in found.rest])
    read = list(dict.fromkeys(load.buffer for load in loads(total)))
    buffers = {b: replace(b, name=f"X{n}") for n, b in enumerate(read)}
    used = free_vars(total)
    shape = tuple(n if v.name in used or v in used else 1 for v, n in zip(_Reader.axes, found.sizes))
    value = _narrowed(replace_buffers(total, buffers), dtype)
    program = _program("mask", tuple(buffers.values()), shape, value, dtype)
    return _added(additions, f"{found.node.name}_mask", program, tuple(b.name for b in read), made)


def _narrowed(mask: Expr, dtype: DType) -> Expr:
    """``mask`` as elements of ``dtype``, finite where it is: the least float32 would be minus infinity in a narrower
    type, and rows that are masked whole no longer the mean of all values but none."""
    least = const(-dtype.shape.largest, mask.dtype)
    kept = Select(Compare(">", mask, const(float("-inf"), mask.dtype)), Binary("max", mask, least), mask)
    return cast(dtype, mask if mask.dtype == dtype else kept)


def _wider(dtype: DType) -> DType:
    return dt.float32 if dtype.is_narrow_float else dtype


def _program(name: str, params: tuple[Buffer, ...], shape: Shape, value: Expr, dtype: DType) -> TensorProgram:
    target = Buffer("O", dtype, tuple(map(idx, shape)))
    axes = tuple(Axis(v, idx(0), idx(n)) for v, n in zip(_Reader.axes, shape))
    statement = Statement(target, _Reader.axes, "=", False, value, axes)
    return TensorProgram(name, params, (target,), (), (statement,))


def _added(additions: Additions, name: str, program: TensorProgram, inputs: tuple[str, ...], made: list[Node]) -> str:
    edge = additions.edge(name, program)
    made.append(Fragment(additions.fresh(f"{edge.name}_node"), program, inputs, (edge.name,)))
    return edge.name
