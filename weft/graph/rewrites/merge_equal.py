"""Fragments that compute the same from the same tensors, as one: a tensor that is reshaped three times is so once."""

from __future__ import annotations

from dataclasses import replace

from weft.graph.graph import Fragment, Graph, Node, Opaque
from weft.graph.rewrites.fold_constants import shown_tensors
from weft.tensor.program import TensorProgram


def merge_equal(graph: Graph) -> Graph:
    """``graph`` without the second of two equal fragments, unless the caller gets its memory."""
    shown = shown_tensors(graph)
    names: dict[str, str] = {}
    seen: dict[tuple[TensorProgram, tuple[str, ...]], tuple[str, ...]] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node, Opaque):
            nodes.append(replace(node, call=node.call.renamed(names)))
            continue
        renamed = renamed_inputs(node, names)
        key = renamed.program, renamed.inputs
        if key in seen and not {*node.outputs} & shown:
            names |= dict(zip(node.outputs, seen[key]))
            continue
        seen.setdefault(key, renamed.outputs)
        nodes.append(renamed)
    return replace(graph, nodes=tuple(nodes)) if names else graph


def renamed_inputs(node: Fragment, names: dict[str, str]) -> Fragment:
    """``node`` with other tensors in place of those named."""
    library = None if node.library is None else node.library.renamed(names)
    return replace(node, inputs=tuple(names.get(n, n) for n in node.inputs), library=library)
