"""Which fragments become one kernel.

Views belong to nobody: whoever reads one reads through it. What is computed from nothing (a mask, a count) is computed
by each reader. The rest is joined along the edges: formulas go with what they read or what reads them, and a product
or a reduction takes the formulas that follow it along. Whether a join is legal is one question: would anything have
to run both before and after the group?
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from weft.graph.graph import Fragment, Graph, Node, Opaque, shape_of
from weft.graph.groups.mapping import Kind, definition_of, kind_of
from weft.ir.expr import Binary, Const, Expr, Var
from weft.ir.visit import free_vars, loads

#: Statements of one group: schedules of longer ones are chosen slowly and gain little.
MOST_STATEMENTS = 24
#: How often a formula may be computed again so that it need not be stored.
REPEATED = 2
_RANK: dict[Kind, int] = {"view": 0, "pointwise": 1, "reduction": 2, "contraction": 3, "scan": 4}


@dataclass(eq=False)
class Group:
    """Fragments that become one kernel, in the order of the graph; ``elements`` is how many its largest part has.

    ``has_windows``: windows are read of what it makes itself.
    """

    members: list[Fragment] = field(default_factory=list)
    kind: Kind = "pointwise"
    elements: int = 0
    has_windows: bool = False

    @property
    def name(self) -> str:
        return "_".join(m.program.name for m in self.members[:4]) + ("_etc" if len(self.members) > 4 else "")

    @property
    def statements(self) -> int:
        return sum(len(m.program.statements) for m in self.members)


Item = Group | Opaque
#: A tensor, and the fragment that reads windows of it.
WindowEdge = tuple[str, str]


def is_free(node: Node) -> bool:
    """Whether readers take a node into their own subscripts and formulas: views, and what needs no tensors."""
    if not isinstance(node, Fragment) or node.is_copy:
        return False
    if kind_of(node.program) == "view":
        return True
    return not node.inputs and definition_of(node.program) is not None


class Partition:
    """Groups of a graph and the order in which they run."""

    def __init__(
        self,
        graph: Graph,
        stored: frozenset[str] = frozenset(),
        alone: frozenset[str] = frozenset(),
        takes_pieces: bool = False,
        windows: frozenset[WindowEdge] = frozenset(),
    ) -> None:
        """``stored`` names free fragments that get a kernel all the same, ``alone`` those that join no other;
        ``takes_pieces``: formulas for pieces of a tensor go with what puts it together; ``windows``: these fragments
        go with what makes the tensor of which they read windows."""
        self.graph, self._alone, self._takes_pieces, self._windows = graph, alone, takes_pieces, windows
        calls = [n for n in graph.nodes if isinstance(n, Opaque)]
        self._before = {call.name: before for before, call in pairwise(calls)}
        self._position = {node.name: n for n, node in enumerate(graph.nodes)}
        self._item: dict[str, Item] = {}
        for node in graph.nodes:
            if isinstance(node, Opaque):
                self._item[node.name] = node
            elif not is_free(node) or node.name in stored:
                self._place(node)

    def item_of(self, node: Node) -> Item | None:
        """The group or call that a node runs in; None for what readers compute themselves."""
        return self._item.get(node.name)

    @property
    def items(self) -> list[Item]:
        """Groups and calls, each after what it reads; calls in the order of the program."""
        return list(self._ordered())

    def sources(self, node: Node) -> list[tuple[str, Item]]:
        """The tensors that groups and calls make which ``node`` reads, also through free fragments."""
        found: dict[str, Item] = {}
        pending = list(reversed(node.inputs))
        while pending:
            name = pending.pop()
            producer = self.graph.producers.get(name)
            if producer is None:
                continue
            item = self.item_of(producer)
            if item is not None:
                found[name] = item
            else:
                pending += reversed(producer.inputs)
        return list(found.items())

    def _place(self, node: Fragment) -> None:
        kind = kind_of(node.program)
        group = Group([node], "pointwise" if kind == "view" else kind, self._elements(node))
        self._item[node.name] = group
        if node.name in self._alone:
            return
        if kind == "reduction" and self._is_one_to_one(node):
            self._take_back(node, group)
        sources = self.sources(node)
        ranked = sorted(sources, key=lambda s: _RANK[s[1].kind] if isinstance(s[1], Group) else 0, reverse=True)
        for name, _ in ranked:
            current, item = self._item[node.name], self._item[self.graph.producers[name].name]
            assert isinstance(current, Group)
            if not isinstance(item, Group) or item is current or item.members[0].name in self._alone:
                continue
            if (name, node.name) in self._windows and self._is_acyclic(item, current):
                self._join_windows(item, current, node, name)
            elif self._should_join(item, name, current, node):
                self._join(item, current)

    def _join_windows(self, first: Group, second: Group, node: Fragment, name: str) -> None:
        """``node`` with the group that makes ``name``, and views in between: as statements, whose subscripts are plain.

        What follows is as large as what ``node`` makes.
        """
        elements, views = second.elements, self._views_between(node, name)
        self._join(first, second)
        self._join(Group(views), second)
        second.elements, second.has_windows = elements, True

    def _views_between(self, node: Node, name: str) -> list[Fragment]:
        """The free fragments through which ``node`` reads ``name``."""
        makers = [p for given in node.inputs if (p := self.graph.producers.get(given)) and given != name]
        found = [p for p in makers if isinstance(p, Fragment) and self.item_of(p) is None and self._reads(p, name)]
        return [*(v for p in found for v in self._views_between(p, name)), *found]

    def _reads(self, node: Node, name: str) -> bool:
        return any(source == name for source, _ in self.sources(node))

    def _take_back(self, node: Fragment, group: Group) -> None:
        """Formulas that only a reduction reads go with it, where they had gone with the product before them."""
        pending = [node]
        while pending:
            for name, item in self.sources(pending.pop()):
                maker = self.graph.producers[name]
                if not isinstance(item, Group) or item.kind != "contraction" or not isinstance(maker, Fragment):
                    continue
                is_last = kind_of(maker.program) == "pointwise" and self.is_read_by(maker, group)
                if is_last and self._elements(maker) == group.elements:
                    item.members.remove(maker)
                    group.members.insert(0, maker)
                    self._item[maker.name] = group
                    pending.append(maker)

    def is_read_by(self, maker: Fragment, group: Group) -> bool:
        """Whether ``group`` alone reads what ``maker`` makes, directly or through views."""
        read = [r for name in maker.outputs for r in self.graph.readers.get(name, [])]
        shown = any(name in self.graph.results for name in maker.outputs)
        return not shown and all(
            self.is_read_by(r, group)
            if isinstance(r, Fragment) and is_free(r) and r.name not in self._item
            else self._item.get(r.name) is group
            for r in read
        )

    def _elements(self, node: Fragment) -> int:
        counts = [self.graph.edges[name].count for name in (*node.inputs, *node.outputs)]
        return max(counts) if kind_of(node.program) == "reduction" else self.graph.edges[node.outputs[0]].count

    def _should_join(self, first: Group, name: str, second: Group, node: Fragment) -> bool:
        """Whether what ``first`` makes under ``name`` is better handed on than stored and read."""
        if "scan" in (first.kind, second.kind) or second.kind == "contraction":
            return False
        if first.kind == "contraction" and second.kind != "pointwise":
            return False
        if first.statements + second.statements > MOST_STATEMENTS or not self._is_one_to_one(node):
            return False
        fits = self._fits(first, name, second) or (self._takes_pieces and self._is_piece(first, name, second, node))
        return fits and self._is_acyclic(first, second)

    def _fits(self, first: Group, name: str, second: Group) -> bool:
        """Whether both run over the same elements, or nearly so."""
        made = self.graph.edges[name].count
        if first.elements == second.elements:
            return made == first.elements or first.kind != "pointwise"
        if first.kind == "reduction":  # a formula of each row's result, on its way back into the row
            return made == second.elements and second.kind == "pointwise"
        is_private = first.kind == "pointwise" and all(self.is_read_by(m, second) for m in first.members[-1:])
        return is_private and len(first.members) == 1 and made <= second.elements <= REPEATED * made

    def _is_piece(self, first: Group, name: str, second: Group, node: Fragment) -> bool:
        """Whether ``node`` asks for each element of ``name`` once and nobody else for any: none is computed twice."""
        *inner, last = first.members
        is_private = all(self.is_read_by(m, first) for m in inner) and self.is_read_by(last, second)
        places = [n for n, given in enumerate(node.inputs) if given == name]
        if first.kind != "pointwise" or not is_private or last.outputs != (name,) or len(places) != 1:
            return False
        definition = definition_of(node.program)
        buffer = node.program.inputs[places[0]]
        asked = [] if definition is None else [load for load in loads(definition[1]) if load.buffer == buffer]
        if definition is None or len(asked) != 1:
            return False
        walked = [free_vars(i) for i in asked[0].indices if isinstance(i, Var) or _is_moved(i)]
        return sorted(v for own in walked for v in own) == sorted(a.name for a in definition[0])

    def _is_one_to_one(self, node: Fragment) -> bool:
        """Whether each element is asked for about once: lookups and windows that overlap would compute it again."""
        given = {b.name for b in node.program.inputs}
        looks_up = any(
            any(loads(i) for i in load.indices)
            for s in node.program.statements
            for load in loads(s.value)
            if load.buffer.name in given
        )
        points = max(prod(shape_of([a.hi for a in s.axes])) for s in node.program.statements)
        return not looks_up and points <= self._elements(node)

    def _join(self, first: Group, second: Group) -> None:
        together = sorted(first.members + second.members, key=lambda m: self._position[m.name])
        second.members = together
        second.kind = max(first.kind, second.kind, key=lambda k: _RANK[k])
        second.elements = max(first.elements, second.elements)
        second.has_windows |= first.has_windows
        for member in together:
            self._item[member.name] = second

    def _is_acyclic(self, first: Group, second: Group) -> bool:
        """Whether nothing outside both needs ``first`` and is needed by ``second``."""
        inside = {id(first), id(second)}
        seen: set[int] = set()
        pending = [item for item in self._needs(second) if id(item) not in inside]
        while pending:
            item = pending.pop()
            if id(item) in seen:
                continue
            seen.add(id(item))
            for other in self._needs(item):
                if other is first:
                    return False
                if id(other) not in inside:
                    pending.append(other)
        return True

    def _needs(self, item: Item) -> list[Item]:
        nodes: list[Node] = [item] if isinstance(item, Opaque) else list(item.members)
        needed = {id(i): i for node in nodes for _, i in self.sources(node) if i is not item}
        if isinstance(item, Opaque) and item.name in self._before:  # calls keep their order
            needed[id(self._before[item.name])] = self._before[item.name]
        return list(needed.values())

    def _ordered(self) -> Iterator[Item]:
        done: set[int] = set()
        for node in self.graph.nodes:
            item = self.item_of(node)
            if item is not None:
                yield from self._visit(item, done)

    def _visit(self, item: Item, done: set[int]) -> Iterator[Item]:
        """A method: a function that calls itself would keep the graph, and its weights, until cycles are looked for."""
        if id(item) in done:
            return
        done.add(id(item))
        for needed in self._needs(item):
            yield from self._visit(needed, done)
        yield item


def _is_moved(index: Expr) -> bool:
    """Whether a subscript is a variable and a number."""
    return (
        isinstance(index, Binary) and index.op == "+" and isinstance(index.left, Var) and isinstance(index.right, Const)
    )
