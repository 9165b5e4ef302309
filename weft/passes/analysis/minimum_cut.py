"""A minimum cut: the cheapest set of nodes on every path of a graph from its sources to its sinks (maximum flow)."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

#: A node comes apart into the side where paths enter and the side where they leave.
_Side: TypeAlias = tuple[str, bool]
_SOURCE, _SINK = ("", False), ("", True)
_ENDLESS = 1 << 60


def minimum_cut(
    costs: Mapping[str, int], edges: Iterable[tuple[str, str]], sources: Collection[str], sinks: Collection[str]
) -> frozenset[str]:
    """Of the nodes of ``costs`` those that cut ``sources`` from ``sinks`` for the least sum; any node may be cut.

    Of several cheapest cuts it is the one nearest to the sinks.
    """
    room: dict[_Side, dict[_Side, int]] = {}

    def connect(a: _Side, b: _Side, capacity: int) -> None:
        room.setdefault(a, {})[b] = room.get(a, {}).get(b, 0) + capacity
        room.setdefault(b, {}).setdefault(a, 0)

    for name, cost in costs.items():
        connect((name, False), (name, True), cost)
    for a, b in edges:
        connect((a, True), (b, False), _ENDLESS)
    for name in sources:
        connect(_SOURCE, (name, False), _ENDLESS)
    for name in sinks:
        connect((name, True), _SINK, _ENDLESS)
    while (path := _path(room)) is not None:
        _push(room, path)
    reaching = _reaching_sink(room)
    return frozenset(n for n in costs if (n, True) in reaching and (n, False) not in reaching)


def _path(room: dict[_Side, dict[_Side, int]]) -> list[_Side] | None:
    """A shortest way from source to sink with room on it."""
    came: dict[_Side, _Side] = {}
    waiting = deque([_SOURCE])
    while waiting:
        here = waiting.popleft()
        for there, left in room.get(here, {}).items():
            if left and there not in came and there != _SOURCE:
                came[there] = here
                waiting.append(there)
    if _SINK not in came:
        return None
    path = [_SINK]
    while path[-1] != _SOURCE:
        path.append(came[path[-1]])
    return path[::-1]


def _push(room: dict[_Side, dict[_Side, int]], path: list[_Side]) -> None:
    steps = [(path[n], path[n + 1]) for n in range(len(path) - 1)]
    amount = min(room[a][b] for a, b in steps)
    for a, b in steps:
        room[a][b] -= amount
        room[b][a] += amount


def _reaching_sink(room: dict[_Side, dict[_Side, int]]) -> set[_Side]:
    """The sides from which the sink can still be reached."""
    reaching = {_SINK}
    waiting = deque([_SINK])
    while waiting:
        here = waiting.popleft()
        for there in room.get(here, {}):
            if there not in reaching and room[there].get(here, 0):
                reaching.add(there)
                waiting.append(there)
    return reaching
