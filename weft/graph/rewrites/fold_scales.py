"""Scales and shifts that follow a product, moved into its constants: batch norm into the weights of a convolution.

Where every element of a product's result is turned into ``a * T + c``, with ``a`` and ``c`` of constants alone and by
subscripts that the constant factor has too, ``a`` goes into that factor: sum(x * w) * a is sum(x * (w * a)). Where the
product adds a bias, that becomes ``a * bias + c``, and the formula is gone. It is found in the formulas: no operator's
name takes part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from weft.graph.graph import Edge, Fragment, Graph, Node, Opaque
from weft.graph.groups.mapping import definition_of, is_contraction, kind_of
from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Binary, Cast, Expr, Load, Unary, Var, cast, const, idx
from weft.ir.visit import free_vars, fresh_name, loads, replace_buffers, substitute
from weft.tensor.program import Statement, TensorProgram


@dataclass(frozen=True)
class _Line:
    """``slope * T + shift``; None stands for one and for zero."""

    slope: Expr | None
    shift: Expr | None


def fold_scales(graph: Graph, *, narrow: bool = False) -> Graph:
    """``graph`` with the scale of every such formula in the constant factor before it; folding computes that once.

    ``narrow``: also where the factor has 16 bits, and is rounded once more then. In return the product, which would
    be rounded before it is scaled, is not.
    """
    return _Folder(graph, narrow).fold()


class _Folder:
    def __init__(self, graph: Graph, narrow: bool) -> None:
        self.graph, self.narrow = graph, narrow
        self.edges: dict[str, Edge] = dict(graph.edges)
        self.fixed = _fixed(graph)
        self.taken = {*graph.edges, *(n.name for n in graph.nodes)}

    def fold(self) -> Graph:
        nodes = {n.name: [n] for n in self.graph.nodes}
        for node in self.graph.nodes:
            product = self._product_before(node)
            made = None if product is None or not isinstance(node, Fragment) else self._folded(product, node)
            if product is not None and made is not None:
                ahead = 2 if self._are_there(made[:2], product) else 0  # else all of it waits for the scale
                nodes[product.name], nodes[node.name] = made[:ahead], made[ahead:]
                nodes |= {r.name: [] for r in self.graph.readers[product.outputs[0]] if not self._is_read(r)}
        changed: tuple[Node, ...] = tuple(n for several in nodes.values() for n in several)
        return replace(self.graph, edges=self.edges, nodes=changed)

    def _are_there(self, made: Sequence[Node], node: Node) -> bool:
        """Whether all that new nodes read is made before ``node`` runs."""
        makers = (self.graph.producers.get(name) for new in made for name in new.inputs)
        return all(self._places[maker.name] < self._places[node.name] for maker in makers if maker is not None)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {node.name: place for place, node in enumerate(self.graph.nodes)}

    def _product_before(self, node: Node) -> Fragment | None:
        """The product whose result ``node``, a formula, is the only one to read."""
        if not isinstance(node, Fragment) or kind_of(node.program) != "pointwise" or len(node.outputs) != 1:
            return None
        for name in node.inputs:
            producer = self.graph.producers.get(name)
            if isinstance(producer, Fragment) and kind_of(producer.program) == "contraction":
                read = [r for r in self.graph.readers[name] if self._is_read(r)]
                is_private = read == [node] and name not in self.graph.results
                is_plain = _sum_of(producer.program) or _biased_sum(producer.program)
                return producer if is_private and is_plain and len(producer.outputs) == 1 else None
        return None

    def _is_read(self, node: Node) -> bool:
        return isinstance(node, Opaque) or any(n in self.graph.readers or n in self.graph.results for n in node.outputs)

    def _folded(self, product: Fragment, node: Fragment) -> list[Node] | None:
        """The scaled factor, the product with it, and what is left of the formula."""
        definition = definition_of(node.program)
        biased = _biased_sum(product.program)
        statement = _sum_of(product.program) if biased is None else biased.statement
        assert statement is not None
        place = node.inputs.index(product.outputs[0])
        target = node.program.inputs[place]
        if definition is None or not is_contraction(statement) or (target.dtype.is_narrow_float and not self.narrow):
            return None  # narrow weights would be rounded once more
        axes, value = definition
        if isinstance(value, Cast) and value.type.is_narrow_float:  # what is left of the formula is rounded the same
            value = value.operand
        fixed = {b.name for b, n in zip(node.program.inputs, node.inputs) if n in self.fixed}
        line = _line(value, target.name, axes, fixed)
        factor = self._factor(product, statement)
        if line is None or line.slope is None or factor is None:
            return None
        names = _subscripts(statement, factor)
        used = set(free_vars(line.slope))
        own = {a.name: names.get(i.name) for a, i in zip(axes, statement.indices) if isinstance(i, Var)}
        if any(own.get(v) is None for v in used):
            return None
        if biased is not None:
            return self._with_other_bias(product, node, biased, factor, line, own, axes)
        return self._rebuild(product, node, statement, factor, line, own, axes)

    def _factor(self, product: Fragment, statement: Statement) -> Load | None:
        """The one factor of a product that is constant."""
        constant = {b.name for b, n in zip(product.program.inputs, product.inputs) if n in self.fixed}
        found = [load for load in _factors(statement.value) if load.buffer.name in constant]
        return found[0] if len(found) == 1 and len(loads(statement.value)) == 2 else None

    def _with_other_bias(
        self,
        product: Fragment,
        node: Fragment,
        biased: _Biased,
        factor: Load,
        line: _Line,
        own: dict[str, int | None],
        axes: tuple[Var, ...],
    ) -> list[Node] | None:
        """The scaled factor, ``slope * bias + shift``, and the product with both in place of the formula too."""
        made, replaced = (self.edges[f.outputs[0]] for f in (node, product))
        assert line.slope is not None
        read = {v for part in (line.slope, line.shift) if part is not None for v in free_vars(part)}
        names = [b.name for b in product.program.inputs]
        bias, weight = (product.inputs[names.index(b)] for b in (biased.bias, factor.buffer.name))
        is_alike = (made.dtype, made.shape, made.strides) == (replaced.dtype, replaced.shape, replaced.strides)
        if bias not in self.fixed or not is_alike or not read <= {axes[biased.axis].name}:
            return None
        scaled, moved = (self._edge_like(name, what) for name, what in ((weight, "scaled"), (bias, "moved")))
        scale = self._scaling(node, self.edges[weight], scaled, line, own, axes)
        others = {weight: scaled.name, bias: moved.name}
        library = None if product.library is None else product.library.renamed(others)
        inputs = tuple(others.get(name, name) for name in product.inputs)
        whole = replace(product, inputs=inputs, outputs=node.outputs, library=library)
        return [scale, self._moved_bias(node, self.edges[bias], moved, line, axes[biased.axis]), whole]

    def _edge_like(self, name: str, what: str) -> Edge:
        edge = self.edges[name]
        made = Edge(fresh_name(f"{name}_{what}", self.taken), edge.dtype, edge.shape)
        self.edges[made.name] = made
        return made

    def _moved_bias(self, node: Fragment, bias: Edge, moved: Edge, line: _Line, axis: Var) -> Fragment:
        """``moved(i) = slope(i) * bias(i) + shift(i)``."""
        assert line.slope is not None
        place = Var("w0")
        slope, shift = (None if part is None else substitute(part, {axis: place}) for part in (line.slope, line.shift))
        own = Buffer("BIAS", bias.dtype, (idx(bias.shape[0]),))
        assert slope is not None
        value = cast(slope.dtype, Load(own, (place,))) * slope
        value = value if shift is None else value + cast(value.dtype, shift)
        buffers = dict(zip(node.program.inputs, node.inputs))
        used = {load.buffer.name for load in loads(value)}
        read = [b for b in buffers if b.name in used]
        program = _formula("moved", (own, *read), moved, (place,), cast(bias.dtype, value))
        name = fresh_name(f"{moved.name}_node", self.taken)
        return Fragment(name, program, (bias.name, *(buffers[b] for b in read)), (moved.name,))

    def _rebuild(
        self,
        product: Fragment,
        node: Fragment,
        statement: Statement,
        factor: Load,
        line: _Line,
        own: dict[str, int | None],
        axes: tuple[Var, ...],
    ) -> list[Node]:
        place = [b.name for b in product.program.inputs].index(factor.buffer.name)
        weight = self.edges[product.inputs[place]]
        scaled = Edge(fresh_name(f"{weight.name}_scaled", self.taken), weight.dtype, weight.shape)
        self.edges[scaled.name] = scaled
        scale = self._scaling(node, weight, scaled, line, own, axes)
        inputs = tuple(scaled.name if n == place else name for n, name in enumerate(product.inputs))
        rest = self._shifting(product, node, line, axes)
        library = None if product.library is None else product.library.renamed({weight.name: scaled.name})
        return [scale, replace(product, inputs=inputs, library=library), *rest]

    def _scaling(
        self, node: Fragment, weight: Edge, scaled: Edge, line: _Line, own: dict[str, int | None], axes: tuple[Var, ...]
    ) -> Fragment:
        """``scaled(i) = weight(i) * slope(i)``."""
        assert line.slope is not None
        places = tuple(Var(f"w{d}") for d in range(len(weight.shape)))
        moved = substitute(line.slope, {a: places[n] for a in axes if (n := own.get(a.name)) is not None})
        buffers = dict(zip(node.program.inputs, node.inputs))
        read = [b for b in buffers if b.name in {load.buffer.name for load in loads(moved)}]
        params = (Buffer("W", weight.dtype, tuple(map(idx, weight.shape))), *read)
        value = cast(weight.dtype, cast(moved.dtype, Load(params[0], places)) * moved)
        program = _formula("scaled", params, scaled, places, value)
        return Fragment(
            fresh_name(f"{scaled.name}_node", self.taken),
            program,
            (weight.name, *(buffers[b] for b in read)),
            (scaled.name,),
        )

    def _shifting(self, product: Fragment, node: Fragment, line: _Line, axes: tuple[Var, ...]) -> list[Node]:
        """``T + shift``: what is left of the formula; the shift as a tensor of its own, so that it is computed once."""
        output = self.edges[node.outputs[0]]
        target = node.program.inputs[node.inputs.index(product.outputs[0])]
        if line.shift is None:
            program = _formula(node.program.name, (target,), output, axes, cast(output.dtype, Load(target, axes)))
            return [replace(node, program=program, inputs=product.outputs, library=None)]
        used = tuple(a for a in axes if a.name in free_vars(line.shift))
        sizes = tuple(n for a, n in zip(axes, output.shape) if a in used)
        shift = Edge(fresh_name(f"{output.name}_shift", self.taken), line.shift.dtype, sizes)
        self.edges[shift.name] = shift
        read = {load.buffer.name for load in loads(line.shift)}
        kept = [(b, n) for b, n in zip(node.program.inputs, node.inputs) if b.name in read]
        once = _formula("shift", tuple(b for b, _ in kept), shift, used, line.shift)
        name = fresh_name(f"{shift.name}_node", self.taken)
        first = Fragment(name, once, tuple(n for _, n in kept), (shift.name,))
        table = Buffer("C", shift.dtype, tuple(map(idx, sizes)))
        value = cast(output.dtype, cast(shift.dtype, Load(target, axes)) + Load(table, used))
        program = _formula(node.program.name, (target, table), output, axes, value)
        inputs = (*product.outputs, shift.name)
        return [first, replace(node, program=program, inputs=inputs, library=None)]


def _sum_of(program: TensorProgram) -> Statement | None:
    """The one sum of a product; a narrow one is rounded by a second statement."""
    first, *rest = program.statements
    if not rest:
        return first
    (last, *others) = rest
    value = last.value.operand if isinstance(last.value, Cast) else last.value
    is_rounding = isinstance(value, Load) and value.buffer == first.target and value.indices == last.indices
    names = all(isinstance(i, Var) for i in last.indices) and len(last.indices) == len(first.indices)
    return first if is_rounding and names and not others and last.op == "=" else None


class _Biased(NamedTuple):
    """A sum to which a second statement adds the vector ``bias``, along axis ``axis`` of the result."""

    statement: Statement
    bias: str
    axis: int


def _biased_sum(program: TensorProgram) -> _Biased | None:
    if len(program.statements) != 2:
        return None
    first, last = program.statements
    parts = [_uncast(e) for e in _addends(_uncast(last.value))]
    plain = [p for p in parts if isinstance(p, Load) and all(isinstance(i, Var) for i in p.indices)]
    sums = [p for p in plain if p.buffer == first.target and p.indices == last.indices]
    biases = [p for p in plain if p.buffer != first.target and len(p.indices) == 1]
    if last.op != "=" or [len(parts), len(plain), len(sums), len(biases)] != [2, 2, 1, 1]:
        return None
    (place,) = biases[0].indices
    return _Biased(first, biases[0].buffer.name, last.indices.index(place)) if place in last.indices else None


def _uncast(e: Expr) -> Expr:
    return e.operand if isinstance(e, Cast) else e


def _addends(e: Expr) -> tuple[Expr, ...]:
    return (e.left, e.right) if isinstance(e, Binary) and e.op == "+" else ()


def _fixed(graph: Graph) -> set[str]:
    fixed = set(graph.constants)
    for node in graph.nodes:
        if isinstance(node, Fragment) and node.inputs and all(n in fixed for n in node.inputs):
            fixed |= {*node.outputs}
    return fixed


def _factors(value: Expr) -> list[Load]:
    match value:
        case Cast(operand=operand):
            return _factors(operand)
        case Binary(op="*", left=left, right=right):
            return _factors(left) + _factors(right)
        case Load():
            return [value]
    return []


def _subscripts(statement: Statement, factor: Load) -> dict[str, int]:
    """Which axis of the factor each subscript of the result is by itself."""
    left = {i.name for i in statement.indices if isinstance(i, Var)}
    return {i.name: n for n, i in enumerate(factor.indices) if isinstance(i, Var) and i.name in left}


def _line(e: Expr, name: str, axes: tuple[Var, ...], fixed: set[str]) -> _Line | None:
    """``e`` as a line in the tensor ``name``, which is read at ``axes`` alone; None where it is none."""
    read = {load.buffer.name for load in loads(e)}
    if name not in read:
        return _Line(None, e) if read <= fixed else None
    match e:
        case Load(indices=indices):
            return _Line(const(1, e.dtype), None) if indices == axes else None
        case Cast(type=to, operand=operand) if to.is_float and operand.dtype.is_float and to.bits >= operand.dtype.bits:
            inner = _line(operand, name, axes, fixed)
            return inner and _Line(*(None if p is None else cast(to, p) for p in (inner.slope, inner.shift)))
        case Unary(op="-", operand=operand):
            inner = _line(operand, name, axes, fixed)
            return inner and _Line(*(None if p is None else Unary("-", p) for p in (inner.slope, inner.shift)))
        case Binary(op="+" | "-" | "*" | "/" as op, left=left, right=right):
            return _combined(op, left, right, name, axes, fixed)
    return None


def _combined(op: str, left: Expr, right: Expr, name: str, axes: tuple[Var, ...], fixed: set[str]) -> _Line | None:
    a, b = (_line(side, name, axes, fixed) for side in (left, right))
    if a is None or b is None:
        return None
    in_left, in_right = (any(load.buffer.name == name for load in loads(side)) for side in (left, right))
    if op in ("+", "-"):
        if in_left and in_right:
            return None
        slope = a.slope if in_left else b.slope if op == "+" or b.slope is None else Unary("-", b.slope)
        return _Line(slope, _sum(op, a.shift, b.shift))
    if in_right and (in_left or op == "/"):
        return None
    line, other = (a, right) if in_left else (b, left)
    scaled = [None if p is None else (p * other if op == "*" else p / other) for p in (line.slope, line.shift)]
    return _Line(*scaled)


def _sum(op: str, a: Expr | None, b: Expr | None) -> Expr | None:
    if b is None:
        return a
    if a is None:
        return b if op == "+" else Unary("-", b)
    return a + b if op == "+" else a - b


def _formula(name: str, params: tuple[Buffer, ...], output: Edge, axes: tuple[Var, ...], value: Expr) -> TensorProgram:
    target = Buffer("O", output.dtype, tuple(map(idx, output.shape)))
    ranges = tuple(Axis(v, idx(0), idx(n)) for v, n in zip(axes, output.shape))
    statement = Statement(target, axes, "=", False, value, ranges)
    named = {b: replace(b, name=f"{b.name}_in") for b in params if b.name == "O"}
    statement = replace(statement, value=replace_buffers(value, named))
    used = tuple(named.get(b, b) for b in params)
    return TensorProgram(name, used, (target,), (), (statement,))
