"""Where the elements of views are in memory: strides and an offset, found by composing maps.

A reader whose tensor is a view of something stored takes it from there; only maps that no strides can say are
composed into its subscripts.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.graph.graph import Edge, Fragment, Graph, Shape, dense_strides
from weft.graph.groups.mapping import View, view_of
from weft.ir.expr import Binary, Cast, Const, Expr, Unary, Var, idx


class Layout(NamedTuple):
    """Strides and the place of the first element, counted in elements."""

    strides: Shape
    offset: int = 0


class Stored(NamedTuple):
    """A tensor in the memory of ``root``; it is ``source``, or a view of that. They differ where something is joined:
    ``source`` is a part of ``root`` then, which a kernel writes."""

    root: str
    layout: Layout
    source: str


def view_layout(view: View, source: Layout) -> Layout | None:
    """The layout of a view of a tensor that is stored as ``source`` says; None where strides cannot say it."""
    form = _Form()
    for index, stride in zip(view.load.indices, source.strides):
        form.add(index, stride)
    form.join_digits()
    names = {v.name: n for n, v in enumerate(view.axes)}
    strides = [0] * len(view.axes)
    for atom, factor in form.terms.items():
        if factor == 0:
            continue
        if not isinstance(atom, Var) or atom.name not in names:
            return None
        strides[names[atom.name]] = factor
    return Layout(tuple(strides), source.offset + form.constant)


def source_layout(view: View, shape: Shape, made: Shape, wanted: Layout) -> Layout | None:
    """The layout of a tensor of this ``shape`` that puts a view of it, of the shape ``made``, where it is ``wanted``;
    None where no strides do."""
    steps = {v.name: stride for v, stride in zip(view.axes, wanted.strides)}
    strides = tuple(1 if n == 1 else _step(i, steps) for i, n in zip(view.load.indices, shape))
    layout = Layout(canonical(shape, strides), wanted.offset)
    found = view_layout(view, layout)
    if found is None or min(strides, default=1) <= 0:
        return None
    is_there = (canonical(made, found.strides), found.offset) == (canonical(made, wanted.strides), wanted.offset)
    return layout if is_there else None


def _step(index: Expr, steps: dict[str, int]) -> int:
    """How far apart in memory elements are whose subscript differs by one, where axes have these ``steps``."""
    match index:
        case Var(name=name):
            return steps.get(name, 0)
        case Cast(operand=operand):
            return _step(operand, steps)
        case Binary(op="//", left=left, right=Const(value=value)):
            return _step(left, steps) * int(value)
        case Binary(op="%", left=left, right=Const()):
            return _step(left, steps)
        case Binary(op="*", left=left, right=Const(value=value)) | Binary(op="*", left=Const(value=value), right=left):
            return _step(left, steps) // int(value) if value else 0
        case Binary(op="+", left=left, right=right):
            found = [n for n in (_step(left, steps), _step(right, steps)) if n > 0]
            return min(found, default=0)
    return 0


def constant_of(graph: Graph, name: str) -> tuple[str, Layout | None] | None:
    """The constant that a tensor is, or is a view of, and where its elements are there, as if that were dense: None
    where strides cannot say it."""
    if name in graph.constants:
        return name, Layout(dense_strides(graph.edges[name].shape))
    producer = graph.producers.get(name)
    view = view_of(producer.program) if isinstance(producer, Fragment) else None
    source = None if producer is None or view is None else constant_of(graph, producer.inputs[0])
    if view is None or source is None:
        return None
    root, layout = source
    return root, None if layout is None else view_layout(view, layout)


class _Form:
    """A sum of multiples of variables, quotients and remainders."""

    def __init__(self) -> None:
        self.terms: dict[Expr, int] = {}
        self.constant = 0

    def add(self, e: Expr, factor: int) -> None:
        match e:
            case Const(value=value):
                self.constant += int(value) * factor
            case Cast(operand=operand) if operand.dtype.is_integer:
                self.add(operand, factor)
            case Unary(op="-", operand=operand):
                self.add(operand, -factor)
            case Binary(op="+" | "-" as op, left=left, right=right):
                self.add(left, factor)
                self.add(right, factor if op == "+" else -factor)
            case (
                Binary(op="*", left=left, right=Const(value=value))
                | Binary(op="*", left=Const(value=value), right=left)
            ):
                self.add(left, factor * int(value))
            case _:
                self.terms[e] = self.terms.get(e, 0) + factor

    def join_digits(self) -> None:
        """``a * (e % n) + a * n * (e // n)`` is ``a * e``, until there is nothing more of that kind."""
        joined = True
        while joined:
            joined = False
            for digit, factor in list(self.terms.items()):
                if not (isinstance(digit, Binary) and digit.op == "%" and isinstance(digit.right, Const) and factor):
                    continue
                size = int(digit.right.value)
                rest = _quotient(digit.left, size)
                if self.terms.get(rest, 0) == factor * size:
                    del self.terms[digit], self.terms[rest]
                    self.add(digit.left, factor)
                    joined = True
                    break


def _quotient(e: Expr, size: int) -> Expr:
    if isinstance(e, Binary) and e.op == "//" and isinstance(e.right, Const):
        return Binary("//", e.left, idx(int(e.right.value) * size))
    return Binary("//", e, idx(size))


def canonical(shape: Shape, strides: Shape) -> Shape:
    """Strides with those of axes of one element, which say nothing, as a dense tensor would have them."""
    result, dense = [], 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        result.append(dense if size == 1 else stride)
        dense = max(dense, abs(stride) * size) if size != 1 else dense
    return tuple(reversed(result))


def is_dense(shape: Shape, layout: Layout) -> bool:
    """Whether elements follow each other in row-major order."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(layout.strides)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def memory_order(shape: Shape, strides: Shape) -> Shape:
    """The axes that have several elements, in the order in which they lie in memory."""
    return tuple(sorted((d for d, n in enumerate(shape) if n > 1), key=lambda d: -strides[d]))


def own_strides(edge: Edge) -> Shape:
    """As somebody wants a tensor: the world outside, where it sees it or a view of it, or a library; else row-major."""
    wished = edge.strides
    if wished is None or overlaps_itself(edge.shape, wished) or _gaps(edge.shape, wished):
        return dense_strides(edge.shape)
    return canonical(edge.shape, wished)


def _gaps(shape: Shape, strides: Shape) -> bool:
    """Whether a layout has room between elements, or runs backwards: none to allocate."""
    if any(s < 0 for s in strides):
        return True
    reach = 1 + sum((n - 1) * s for n, s in zip(shape, strides))
    count = 1
    for n in shape:
        count *= n
    return reach != count


def overlaps_itself(shape: Shape, strides: Shape) -> bool:
    """Whether some elements may share a place."""
    reach = 0
    for stride, size in sorted((abs(s), n) for n, s in zip(shape, strides) if n > 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False
