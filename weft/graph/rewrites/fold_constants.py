"""What depends on constants alone, computed once: casts, masks, tables of positions.

Views stay views and what is made of nothing stays a formula: readers take both into their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from weft.graph.evaluate import evaluate_fragment
from weft.graph.graph import Fragment, Graph, Node, Opaque
from weft.graph.groups.partition import is_free
from weft.graph.rewrites.constant_values import ConstantValues
from weft.runtime.arrays import describe

#: Bytes up to which a constant that grew is kept: larger ones are computed in each call, as the model says.
MOST_GROWN = 1 << 24
#: Runs the library call of a node on arrays by name; None where the framework has none.
Library = Callable[[Node, dict[str, Any]], "tuple[Any, ...] | None"]


def fold_constants(
    graph: Graph,
    library: Library | None = None,
    own: Callable[[Any], Any] | None = None,
    known: ConstantValues | None = None,
) -> Graph:
    """``graph`` with constants in place of the fragments that read nothing else.

    ``own`` makes arrays of the framework of numpy's, where the evaluator computed them; ``known`` is what was made of
    the same constants before.
    """
    fixed: dict[str, Fragment | None] = dict.fromkeys(graph.constants)
    shown = shown_tensors(graph)
    folded: list[Fragment] = []
    nodes: list[Node] = []
    for node in graph.nodes:
        is_fixed = isinstance(node, Fragment) and all(name in fixed for name in node.inputs)
        if isinstance(node, Fragment) and is_fixed and _is_worth_it(graph, node, shown):
            fixed |= dict.fromkeys(node.outputs, node)
            (nodes if is_free(node) else folded).append(node)
        else:
            nodes.append(node)
    if not folded:
        return graph
    nodes = needed_nodes(nodes, set(graph.results))
    used = {name for n in nodes for name in n.inputs} | {*graph.results}
    made = {name for node in folded for name in node.outputs}
    values = ConstantMaker(graph.constants, fixed, library, own or (lambda array: array), known or ConstantValues())
    constants = {n: values.find(n) for n in (*graph.constants, *made) if n in used}
    edges = dict(graph.edges)
    for name in made:  # the library lays out its results as it likes
        strides = describe(constants[name]).strides if name in constants else None
        edges[name] = replace(edges[name], strides=strides)
    return replace(graph, constants=constants, nodes=tuple(nodes), edges=edges)


def makers(graph: Graph, names: Iterable[str]) -> list[Fragment]:
    """The fragments of ``graph`` that tensors are made by, constants apart, each after what it reads."""
    wanted = {name for name in names if name not in graph.constants}
    kept = needed_nodes([n for n in graph.nodes if isinstance(n, Fragment)], wanted)
    return [node for node in kept if isinstance(node, Fragment)]


def needed_nodes(nodes: list[Node], wanted: set[str]) -> list[Node]:
    """Nodes without the fragments that nobody reads any more."""
    kept: list[Node] = []
    for node in reversed(nodes):
        if isinstance(node, Opaque) or wanted & {*node.outputs}:
            kept.append(node)
            wanted |= {*node.inputs}
    return kept[::-1]


class ConstantMaker:
    """Values of constants and of what is made of them, each computed when first asked for."""

    def __init__(
        self,
        constants: Mapping[str, Any],
        makers: Mapping[str, Node | None],
        library: Library | None,
        own: Callable[[Any], Any],
        values: ConstantValues,
    ) -> None:
        self._known, self._makers, self._library, self._own = dict(constants), makers, library, own
        self._values = values

    def find(self, name: str) -> Any:
        if name not in self._known:
            node = self._makers[name]
            assert node is not None
            self._known |= {made: value for made, value in zip(node.outputs, self._evaluate(node)) if made}
        return self._known[name]

    def forget(self, names: Iterable[str]) -> None:
        """Lets go of those that can be made again."""
        for name in names:
            if name in self._makers:
                self._known.pop(name, None)

    def _evaluate(self, node: Node) -> tuple[Any, ...]:
        inputs = {name: self.find(name) for name in node.inputs}
        how = node.call if isinstance(node, Opaque) else (node.program, node.library and node.library.target)
        return self._values.find(how, tuple(inputs.values()), lambda: self._computed(node, inputs))

    def _computed(self, node: Node, inputs: dict[str, Any]) -> tuple[Any, ...]:
        made = self._library(node, inputs) if self._library is not None else None
        if made is not None:
            return made
        assert isinstance(node, Fragment)
        return tuple(map(self._own, evaluate_fragment(node, [inputs[name] for name in node.inputs])))


def shown_tensors(graph: Graph) -> set[str]:
    """Tensors whose memory the caller gets, perhaps as a view, and may write to."""
    shown = set(graph.results)
    for node in reversed(graph.nodes):
        if is_free(node) and shown & {*node.outputs}:
            shown |= {*node.inputs}
    return shown


def _is_worth_it(graph: Graph, node: Fragment, shown: set[str]) -> bool:
    if not is_free(node) and shown & {*node.outputs}:
        return False
    made = sum(graph.edges[name].nbytes for name in node.outputs)
    read = sum(graph.edges[name].nbytes for name in node.inputs)
    return made <= max(2 * read, MOST_GROWN) or is_free(node)
