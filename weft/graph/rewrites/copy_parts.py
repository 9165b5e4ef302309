"""Parts of joined tensors that no kernel can write in their place get one that copies them.

Inputs, constants, results that somebody outside sees, pieces of other tensors, what a library makes: where others of
the same joined tensor are written into it, and it is stored in any case, these alone are copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count

from weft.graph.builder import formula_program
from weft.graph.formulas import joints
from weft.graph.graph import Edge, Fragment, Graph, Node, ordered_strides
from weft.graph.groups.joined import find_joins, pieces_of
from weft.graph.groups.layout import own_strides


def copy_parts(graph: Graph) -> Graph:
    """``graph`` with fragments that copy what joins are missing; those of larger joins show what smaller ones are."""
    while missing := find_joins(graph).missing:
        graph = _with_copies(graph, *next(iter(missing.items())))
    return graph


def _with_copies(graph: Graph, join: str, missing: tuple[int, ...]) -> Graph:
    edges, nodes = dict(graph.edges), list[Node]()
    for node in graph.nodes:
        if isinstance(node, Fragment) and node.name == join:
            whole, names = edges[node.outputs[0]], list(node.inputs)
            for given in missing:
                part = edges[names[given]]
                made = _edge(edges, f"{node.name}_part{given}", part, whole)
                program = formula_program("copy", (part,), joints.copied, whole.dtype)
                nodes.append(Fragment(made.name, program, (part.name,), (made.name,), origin=node.origin, is_copy=True))
                edges[made.name], names[given] = made, made.name
            # Formulas convert what they join, copies have done so.
            pieces = pieces_of(node.program)
            assert pieces is not None
            program = formula_program("join", [edges[n] for n in names], joints.join, pieces.axis, whole.dtype)
            node = replace(node, program=program, inputs=tuple(names))
        nodes.append(node)
    return replace(graph, edges=edges, nodes=tuple(nodes))


def _edge(edges: Mapping[str, Edge], wanted: str, part: Edge, whole: Edge) -> Edge:
    """A tensor like ``part``, with its axes in memory as those of ``whole`` are."""
    name = next(n for k in count() if (n := f"{wanted}_{k}" if k else wanted) not in edges)
    made = Edge(name, whole.dtype, part.shape)
    if whole.order is not None:
        return made.ordered(whole.order)
    order = sorted(range(len(part.shape)), key=lambda d: -own_strides(whole)[d])
    return made if order == sorted(order) else replace(made, strides=ordered_strides(part.shape, tuple(order)))
