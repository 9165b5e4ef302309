"""Which tensors are stored, and in whose memory the others are: decided once for a graph and its partition."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cached_property

from weft.graph.graph import Fragment, Graph, Opaque, dense_strides
from weft.graph.groups.joined import NO_JOINS, find_joins
from weft.graph.groups.layout import Layout, Stored, canonical, is_dense, own_strides, view_layout
from weft.graph.groups.mapping import View, kind_of, view_of
from weft.graph.groups.partition import Group, Partition, WindowEdge, is_free
from weft.ir.expr import Axis, idx
from weft.ir.interval import Interval
from weft.ir.visit import substitute
from weft.tensor.simplify_values import simplify_subscript
from weft.tensor.specialize import axis_ranges


class Storage:
    """Layouts of all tensors that are in some memory."""

    def __init__(
        self,
        graph: Graph,
        alone: frozenset[str] = frozenset(),
        takes_pieces: bool = False,
        windows: frozenset[WindowEdge] = frozenset(),
        in_joins: bool = False,
    ) -> None:
        """``in_joins``: parts are written into what they are joined to."""
        self.graph = graph
        self.joins = find_joins(graph) if in_joins else NO_JOINS
        self._found: dict[str, Stored | None] = {}
        self._kept: frozenset[str] = frozenset()
        self._kept = frozenset(self._stored_views())
        self._found.clear()
        self.partition = Partition(graph, self._kept, alone | self.joins.done, takes_pieces, windows)

    def find(self, name: str) -> Stored | None:
        """Where a tensor is; None where only its readers make it, and for objects of the framework."""
        if name not in self.graph.edges:
            return None
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def constant(self, name: str) -> str | None:
        """The constant in whose memory a tensor is, if it is in one's."""
        found = self.find(name)
        return found.root if found is not None and found.root in self.graph.constants else None

    def over(self, graph: Graph) -> Storage:
        """The same for another graph that differs in the values of constants alone."""
        other = copy(self)
        other.partition = copy(self.partition)
        other.graph = other.partition.graph = graph
        return other

    def source(self, name: str) -> str | None:
        """The tensor that a reader of ``name`` is given all or a view of; None where it reads through it."""
        stored = self.find(name)
        if stored is None:
            return None
        # What depends on constants alone is prepared once from dense ones, whatever the subscripts.
        is_strided = not is_dense(self.graph.edges[name].shape, stored.layout)
        return None if stored.root in self.graph.constants and is_strided and name != stored.root else stored.source

    def _find(self, name: str) -> Stored | None:
        edge, producer = self.graph.edges[name], self.graph.producers.get(name)
        if producer is None or isinstance(producer, Opaque):
            return Stored(name, Layout(canonical(edge.shape, edge.strides or dense_strides(edge.shape))), name)
        if name in self.joins.stored:
            return self.joins.stored[name]
        if not is_free(producer) or producer.name in self._kept:
            return Stored(name, Layout(own_strides(edge)), name)
        view = view_of(producer.program)
        ranges = None if view is None else axis_ranges([Axis(v, idx(0), idx(n)) for v, n in zip(view.axes, edge.shape)])
        while view is not None and ranges is not None:
            source = self.find(producer.inputs[0])
            layout = None if source is None else view_layout(view, source.layout)
            if source is not None and layout is not None:
                at = Layout(canonical(edge.shape, layout.strides), layout.offset)
                return Stored(source.root, at, source.source)
            # No strides say what is in between, but perhaps what both views do together.
            before = self.graph.producers.get(producer.inputs[0])
            if not isinstance(before, Fragment) or not is_free(before) or before.name in self._kept:
                return None
            outer, producer, view = view, before, view_of(before.program)
            view = None if view is None else _composed(outer, view, ranges)
        return None

    def _stored_views(self) -> list[str]:
        """Free fragments that must be computed: the framework, the caller or a product wants them in memory."""
        wanted = {name for n in self.graph.nodes if _wants_memory(n) for name in n.inputs} | {*self.graph.results}
        kept: list[str] = []
        for node in self.graph.nodes:
            while is_free(node) and wanted & {*node.outputs} and not self._is_in_memory(node.outputs[0] or ""):
                assert isinstance(node, Fragment)
                kept.append(self._to_store(node).name)
                self._kept = frozenset(kept)
                self._found.clear()
        return kept

    def _is_in_memory(self, name: str) -> bool:
        """Whether a tensor is somewhere as its readers can see it: torch has no strides that run backwards."""
        found = self.find(name)
        if found is None:
            return False
        readers = self.graph.readers.get(name, [])
        is_shown = name in self.graph.results or any(isinstance(r, Opaque) for r in readers)
        return not is_shown or all(s >= 0 for s in found.layout.strides)

    def _to_store(self, node: Fragment) -> Fragment:
        """What to compute for ``node``; of a result what it is a view of, since the caller counts on that too."""
        if not {*node.outputs} & {*self.graph.results}:
            return node
        while node.inputs:
            source = self.find(node.inputs[0])
            before = self.graph.producers.get(node.inputs[0])
            if not isinstance(before, Fragment) or not is_free(before) or before.name in self._kept:
                break
            if source is not None and all(s >= 0 for s in source.layout.strides):
                break
            node = before
        return node

    def outputs(self, group: Group) -> list[str]:
        """The tensors of a group that others read, but for those that are there once their parts are."""
        members = [m for m in group.members if m.name not in self.joins.done]
        return [name for m in members for name in m.outputs if name in self._read_outside]

    @cached_property
    def _read_outside(self) -> set[str]:
        """Tensors that are read outside of the group that makes them."""
        names = set()
        for node in self.graph.nodes:
            item = self.partition.item_of(node)
            if item is not None:
                names |= {name for name, source in self.partition.sources(node) if source is not item}
        for result in self.graph.results:
            stored = self.find(result)
            names.add(result if stored is None else stored.source)
        return names


def _composed(outer: View, inner: View, ranges: dict[str, Interval]) -> View:
    """What ``outer``, a view of ``inner``, is of what that is a view of."""
    places = dict(zip(inner.axes, outer.load.indices))
    indices = tuple(simplify_subscript(substitute(i, places), ranges) for i in inner.load.indices)
    return View(outer.axes, replace(inner.load, indices=indices))


def _wants_memory(node: Fragment | Opaque) -> bool:
    return isinstance(node, Opaque) or kind_of(node.program) in ("contraction", "scan")
