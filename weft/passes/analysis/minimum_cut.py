"""The cheapest edges of a graph that part one node from another: maximum flow, minimum cut (Edmonds and Karp)."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Hashable, Mapping
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)

#: More than all edges together that have a price.
NEVER = 1 << 40


def minimum_cut(edges: Mapping[tuple[Node, Node], int], source: Node, sink: Node) -> set[Node]:
    """The nodes that still lead to ``sink`` once the cheapest edges are cut; of cuts of one price, that next to it."""
    left: dict[Node, dict[Node, int]] = {source: {}, sink: {}}
    for (a, b), price in edges.items():
        left.setdefault(a, {})[b] = price
        left.setdefault(b, {}).setdefault(a, 0)
    while (way := _way(left, source, sink)) is not None:
        flow = min(left[a][b] for a, b in way)
        for a, b in way:
            left[a][b] -= flow
            left[b][a] += flow
    return _leading_to(left, sink)


def _way(left: Mapping[Node, Mapping[Node, int]], source: Node, sink: Node) -> list[tuple[Node, Node]] | None:
    """A shortest way along which more can flow."""
    came: dict[Node, Node] = {source: source}
    waiting = deque([source])
    while waiting and sink not in came:
        a = waiting.popleft()
        for b, more in left[a].items():
            if more > 0 and b not in came:
                came[b] = a
                waiting.append(b)
    if sink not in came:
        return None
    way = [sink]
    while way[-1] != source:
        way.append(came[way[-1]])
    return [(a, b) for b, a in itertools.pairwise(way)]


def _leading_to(left: Mapping[Node, Mapping[Node, int]], sink: Node) -> set[Node]:
    found, waiting = {sink}, [sink]
    while waiting:
        b = waiting.pop()
        for a in left[b]:  # edges go both ways, with nothing left in one of them
            if left[a].get(b, 0) > 0 and a not in found:
                found.add(a)
                waiting.append(a)
    return found
