"""Which axes of a graph's tensors are one, and which of these hold features: all that layouts are chosen by.

Axes are one where a subscript of the one moves with a subscript of the other: those of a formula's operands and its
result, of a pool's image and its result. Features are what weights are subscripted with too: the channels that a
convolution reads and makes. No operator's name takes part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.graph.graph import Fragment, Graph
from weft.graph.groups.mapping import kind_of, view_of
from weft.ir.expr import Binary, Cast, Const, Expr, Var
from weft.ir.visit import free_vars, loads
from weft.tensor.program import Statement

#: A tensor of the graph, or a temporary of a fragment under the fragment's name; and an axis of it.
Place = tuple[str, int]


@dataclass
class FeatureAxes:
    """``axes`` tells for each tensor which of its axes hold features, and the name of what is one with each."""

    axes: dict[str, dict[int, str]]


class _Union:
    def __init__(self) -> None:
        self.parent: dict[Place, Place] = {}

    def find(self, place: Place) -> Place:
        while (up := self.parent.setdefault(place, place)) != place:
            self.parent[place] = place = self.parent.setdefault(up, up)
        return place

    def join(self, a: Place, b: Place) -> None:
        self.parent[self.find(a)] = self.find(b)


def feature_axes(graph: Graph) -> FeatureAxes:
    union, features = _Union(), set[Place]()
    fixed = _varying_axes(graph)
    for node in graph.fragments:
        if kind_of(node.program) == "scan":
            continue
        names = buffer_names(node)
        for s in node.program.statements:
            for place, other in _moving_together(s, names):
                union.join(place, other)
            features |= set(_features(s, names, fixed))
    roots = {union.find(p) for p in features}
    axes: dict[str, dict[int, str]] = {}
    for place in [*union.parent, *features]:
        if (root := union.find(place)) in roots:
            axes.setdefault(place[0], {})[place[1]] = f"{root[0]} {root[1]}"
    return FeatureAxes(axes)


def buffer_names(node: Fragment) -> dict[str, str]:
    """The tensors of the graph by the names they have in a fragment's program; temporaries under names of their own."""
    names = {b.name: f"{node.name}/{b.name}" for b in node.program.temporaries}
    names |= {b.name: n for b, n in zip(node.program.inputs, node.inputs)}
    return names | {b.name: n for b, n in zip(node.program.outputs, node.outputs)}


def fixed_tensors(graph: Graph) -> set[str]:
    """Constants and what is made of them alone."""
    fixed = set(graph.constants)
    for node in graph.fragments:
        if node.inputs and all(n in fixed for n in node.inputs):
            fixed |= {*node.outputs}
    return fixed


def _varying_axes(graph: Graph) -> dict[str, set[int]]:
    """Of constants and what is made of them alone, the axes along which elements differ: not those that a view adds."""
    found = {name: set(range(len(graph.edges[name].shape))) for name in fixed_tensors(graph)}
    for node in graph.fragments:
        view = view_of(node.program)
        if view is not None and node.outputs[0] in found:
            source = found[node.inputs[0]]
            used = {v for d, i in enumerate(view.load.indices) if d in source for v in free_vars(i)}
            found[node.outputs[0]] = {d for d, v in enumerate(view.axes) if v.name in used}
    return found


def _moving_together(s: Statement, names: dict[str, str]) -> Iterator[tuple[Place, Place]]:
    """Axes of the target and of what is read, and of what is read twice, by subscripts of one variable."""
    first: dict[str, Place] = {}
    for d, index in enumerate(s.indices):
        if isinstance(index, Var):
            first.setdefault(index.name, (names[s.target.name], d))
    for load in loads(s.value):
        for d, index in enumerate(load.indices):
            for name in _variables(index) or ():
                place = (names[load.buffer.name], d)
                if name in first and first[name] != place:
                    yield first[name], place


def _variables(e: Expr) -> list[str] | None:
    """The variables of a sum of multiples; None for other subscripts."""
    match e:
        case Const():
            return []
        case Var(name=name):
            return [name]
        case Cast(operand=operand) if operand.dtype.is_integer:
            return _variables(operand)
        case Binary(op="+" | "-", left=left, right=right):
            a, b = _variables(left), _variables(right)
            return None if a is None or b is None else a + b
        case Binary(op="*", left=left, right=Const()) | Binary(op="*", left=Const(), right=left):
            return _variables(left)
    return None


def _features(s: Statement, names: dict[str, str], fixed: dict[str, set[int]]) -> Iterator[Place]:
    """Axes that a sum of products with a constant factor has in common with that factor."""
    if s.op != "+" or not s.reduce_axes:
        return
    read = loads(s.value)
    shared = {
        i.name
        for load in read
        for d, i in enumerate(load.indices)
        if isinstance(i, Var) and d in fixed.get(names[load.buffer.name], ())
    }
    for load in read:
        if names[load.buffer.name] not in fixed:
            yield from ((names[load.buffer.name], d) for d in _plain(load.indices, shared))
    yield from ((names[s.target.name], d) for d in _plain(s.indices, shared))


def _plain(indices: tuple[Expr, ...], shared: set[str]) -> list[int]:
    return [d for d, i in enumerate(indices) if isinstance(i, Var) and i.name in shared]
