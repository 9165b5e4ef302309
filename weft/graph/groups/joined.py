"""Which tensors are made where they are wanted in the end: in their place of the tensor that they are joined to.

    O = join(A, B) along an axis        A and B lie in the memory of O, and nothing is copied

A tensor that is joined is given the strides of the joined one and the place of its first element there; kernels write
and read it so. A joined tensor may itself lie in a larger one, as a part of it, or because all that it is made of lies
there in just this order (what a dense block has so far). Who reads the whole waits for all parts: partitions keep the
join, as a step that nothing has to be done for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from weft.graph.graph import Fragment, Graph, Opaque, shape_of
from weft.graph.groups.layout import Layout, Stored, canonical, memory_order, own_strides, source_layout, view_layout
from weft.graph.groups.mapping import definition_of, kind_of, view_of
from weft.graph.groups.partition import is_free
from weft.ir.expr import Binary, Cast, Compare, Const, Expr, Load, Select, Var
from weft.tensor.program import TensorProgram

#: Bytes that a part has in a row of memory, at least: with less than a vector there, its stores would be scattered.
LEAST_RUN = 64


class Piece(NamedTuple):
    """The parameter that a piece is, by number, and its places along the axis, from ``start`` to before ``end``."""

    given: int
    start: int
    end: int


class Pieces(NamedTuple):
    axis: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Joins:
    """``stored`` are the tensors that lie in another's memory, ``done`` the fragments that nobody has to run, and
    ``missing`` what others would have to copy, by the numbers of their inputs."""

    stored: Mapping[str, Stored]
    done: frozenset[str]
    missing: Mapping[str, tuple[int, ...]]


NO_JOINS = Joins({}, frozenset(), {})


def find_joins(graph: Graph) -> Joins:
    """The largest tensors first, so that smaller ones may lie in them."""
    finder = _Finder(graph)
    joins = [n for n in graph.fragments if pieces_of(n.program) is not None]
    for node in sorted(joins, key=lambda n: -graph.edges[n.outputs[0]].count):
        finder.place(node)
    return Joins(finder.stored, frozenset(finder.done), finder.missing)


@lru_cache(maxsize=1024)
def pieces_of(program: TensorProgram) -> Pieces | None:
    """What a program puts one after another along an axis, if it does nothing else."""
    definition = definition_of(program)
    asked = definition[1].condition if definition is not None and isinstance(definition[1], Select) else None
    if definition is None or not isinstance(asked, Compare) or asked.left not in definition[0]:
        return None
    (axes, value), sizes = definition, shape_of(program.outputs[0].shape)
    axis = [*axes].index(asked.left)  # type: ignore[arg-type]
    found: list[Piece] = []

    def collect(e: Expr, start: int, end: int) -> bool:
        if isinstance(e, Select):
            middle = _bound(e.condition, axes[axis])
            if middle is None or not start < middle < end:
                return False
            return collect(e.then, start, middle) and collect(e.otherwise, middle, end)
        load = e.operand if isinstance(e, Cast) else e
        if not isinstance(load, Load) or load.buffer not in program.inputs:
            return False
        found.append(Piece(program.inputs.index(load.buffer), start, end))
        whole = (*sizes[:axis], end - start, *sizes[axis + 1 :])
        places = zip(load.indices, axes, [start if d == axis else 0 for d in range(len(axes))], whole)
        return shape_of(load.buffer.shape) == whole and all(_is_at(*p) for p in places)

    return Pieces(axis, tuple(found)) if collect(value, 0, sizes[axis]) else None


def _bound(condition: Expr, axis: Var) -> int | None:
    is_bound = isinstance(condition, Compare) and condition.op == "<" and condition.left == axis
    right = condition.right if is_bound and isinstance(condition, Compare) else None
    return int(right.value) if isinstance(right, Const) else None


def _is_at(index: Expr, axis: Var, start: int, size: int) -> bool:
    """Whether a subscript counts along an axis from ``start`` on."""
    match index:
        case Const(value=0):
            return size == 1
        case Binary(op="+", left=left, right=Const(value=shift)):
            return left == axis and shift == -start
    return index == axis and start == 0


class _Finder:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.stored: dict[str, Stored] = {}
        self.done: set[str] = set()
        self.missing: dict[str, tuple[int, ...]] = {}

    def place(self, node: Fragment) -> None:
        """Has the parts of a joined tensor written into it, if all can be, or all but some that are better copied."""
        name = node.outputs[0]
        if name not in self.stored and (whole := self._among_others(node)) is not None:
            self.stored[name] = whole
            self.done.add(node.name)
            return
        stored = self.stored.get(name) or Stored(name, Layout(own_strides(self.graph.edges[name])), name)
        parts: dict[str, Stored] = {}
        missing = []
        for given, layout in self._parts(node, stored.layout):
            at = self._written(node.inputs[given], Stored(stored.root, layout, node.inputs[given]))
            if at is None or not self._has_run(node, given, stored.layout) or at.source in {*parts, *self.stored}:
                missing.append(given)
            else:
                parts[at.source] = at
        if not missing:
            self.stored |= parts
            self.done.add(node.name)
        elif parts and self._is_wanted_whole(name):
            self.missing[node.name] = tuple(missing)

    def _parts(self, node: Fragment, layout: Layout) -> list[tuple[int, Layout]]:
        """Where the inputs of a join are, by their numbers."""
        found = pieces_of(node.program)
        assert found is not None
        step, made = layout.strides[found.axis], []
        for given, start, _ in found.pieces:
            shape = self.graph.edges[node.inputs[given]].shape
            made.append((given, Layout(canonical(shape, layout.strides), layout.offset + start * step)))
        return made

    def _among_others(self, node: Fragment) -> Stored | None:
        """Where a joined tensor is if all that it is made of lies one after another in a larger one."""
        found, name = pieces_of(node.program), node.outputs[0]
        assert found is not None
        places = [self._place_of(node.inputs[p.given]) for p in found.pieces]
        first, second = places[0], places[1]
        if first is None or second is None:
            return None
        length = found.pieces[0].end - found.pieces[0].start
        step, rest = divmod(second.layout.offset - first.layout.offset, length)
        if rest or step <= 0:
            return None
        strides = (*first.layout.strides[: found.axis], step, *first.layout.strides[found.axis + 1 :])
        layout = Layout(canonical(self.graph.edges[name].shape, strides), first.layout.offset)
        wanted = [at for _, at in self._parts(node, layout)]
        if any(p is None or (p.root, p.layout) != (first.root, at) for p, at in zip(places, wanted)):
            return None
        stored = Stored(first.root, layout, name)
        return stored if self._may_lie(name, stored) else None

    def _place_of(self, name: str) -> Stored | None:
        """Where a tensor, or a view of one, is in another's memory, if it is known to be in one."""
        if name in self.stored:
            return self.stored[name]
        producer = self.graph.producers.get(name)
        view = view_of(producer.program) if isinstance(producer, Fragment) and is_free(producer) else None
        source = None if producer is None or view is None else self._place_of(producer.inputs[0])
        layout = None if source is None or view is None else view_layout(view, source.layout)
        if source is None or layout is None:
            return None
        shape = self.graph.edges[name].shape
        return Stored(source.root, Layout(canonical(shape, layout.strides), layout.offset), source.source)

    def _written(self, name: str, wanted: Stored) -> Stored | None:
        """Where the kernel that makes ``name``, or what that is a view of, has to write, so that it is where it is
        wanted; None where that cannot be."""
        producer, edges = self.graph.producers.get(name), self.graph.edges
        if not isinstance(producer, Fragment) or edges[name].dtype != edges[wanted.root].dtype:
            return None
        if not is_free(producer):
            return wanted if self._may_lie(name, wanted) else None
        view, source = view_of(producer.program), producer.inputs[0] if producer.inputs else ""
        if view is None or edges[source].count != edges[name].count:
            return None
        layout = source_layout(view, edges[source].shape, edges[name].shape, wanted.layout)
        return None if layout is None else self._written(source, Stored(wanted.root, layout, source))

    def _may_lie(self, name: str, stored: Stored) -> bool:
        """Whether a tensor may have gaps between its rows: who sees it counts on none, and libraries want none."""
        edge = self.graph.edges[name]
        own = Layout(own_strides(edge))
        is_alike = memory_order(edge.shape, own.strides) == memory_order(edge.shape, stored.layout.strides)
        return is_alike and self._suits_readers(name, own, stored.layout)

    def _suits_readers(self, name: str, own: Layout | None, given: Layout | None) -> bool:
        """Whether nobody outside sees a tensor, and what could be read in its memory still can be."""
        if name in self.graph.results or (own is not None and given is None):
            return False
        for reader in self.graph.readers.get(name, []):
            if isinstance(reader, Opaque):
                return False
            view = view_of(reader.program) if is_free(reader) else None
            if view is None:
                continue
            layouts = [None if at is None else view_layout(view, at) for at in (own, given)]
            if not self._suits_readers(reader.outputs[0], *layouts):
                return False
        return True

    def _has_run(self, node: Fragment, given: int, layout: Layout) -> bool:
        """Whether a part has whole vectors next to each other; a copy of one need not, as the join would not."""
        found, producer = pieces_of(node.program), self.graph.producers.get(node.inputs[given])
        assert found is not None
        edge = self.graph.edges[node.inputs[given]]
        is_copy = isinstance(producer, Fragment) and producer.is_copy
        return is_copy or layout.strides[found.axis] * edge.shape[found.axis] * edge.dtype.itemsize >= LEAST_RUN

    def _is_wanted_whole(self, name: str) -> bool:
        """Whether a joined tensor is stored in any case: formulas that read it would put it together themselves."""
        if name in self.stored or name in self.graph.results:
            return True
        for reader in self.graph.readers.get(name, []):
            if isinstance(reader, Opaque) or (not is_free(reader) and kind_of(reader.program) != "pointwise"):
                return True
            if is_free(reader) and self._is_wanted_whole(reader.outputs[0]):
                return True
        return False
