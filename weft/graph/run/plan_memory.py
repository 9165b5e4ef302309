"""Where the tensors that kernels make are during a call: how long each lives, and whose memory it may have."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from weft.graph.graph import Graph, Opaque
from weft.graph.groups.compile_group import Kernel
from weft.graph.groups.layout import Stored
from weft.graph.groups.storage import Storage
from weft.graph.run.memory import Arena, Life, host, pack
from weft.graph.run.segments import Step, tensors_of


class MemoryPlan(NamedTuple):
    """``hosted`` tensors are in the memory of another: whose, and how many bytes behind its first. Some of them have
    ``taken_over`` the place of a tensor that the kernel which makes them is the last to read."""

    arena: Arena
    hosted: dict[str, tuple[str, int]]
    taken_over: dict[str, str]


def plan_memory(graph: Graph, storage: Storage, steps: Sequence[Step], results: Collection[str]) -> MemoryPlan:
    """``results`` are the tensors that the caller gets, in new memory each time."""
    return _Planner(graph, storage, steps, frozenset(results)).plan()


class _Planner:
    def __init__(self, graph: Graph, storage: Storage, steps: Sequence[Step], results: frozenset[str]) -> None:
        self.graph, self.storage, self.steps, self.results = graph, storage, steps, results
        #: the steps that make a tensor and that use it as the last
        self.first: dict[str, int] = {}
        self.last: dict[str, int] = {}
        #: whose place a tensor has taken over
        self.places: dict[str, str] = {}

    def plan(self) -> MemoryPlan:
        self._find_lives()
        self._take_over()
        edges, own = self.graph.edges, [name for name in self.first if name not in self.places]
        lives = [Life(name, edges[name].nbytes, self.first[name], self.last[name]) for name in own]
        inner = [t for t in lives if t.name not in self.results]
        called = {self._place(n) for s in self.steps if isinstance(s, Opaque) for n in tensors_of(self.graph, s)}
        hosted = host([t for t in inner if t.name not in called], [t for t in lives if t.name in self.results])
        arena = pack([t for t in inner if t.name not in hosted])
        return MemoryPlan(arena, hosted | {n: hosted.get(p, (p, 0)) for n, p in self.places.items()}, self.places)

    def _find_lives(self) -> None:
        for n, step in enumerate(self.steps):
            for name in step.program.outputs if isinstance(step, Kernel) else ():
                root = self._stored(name).root  # of what is joined there, the first part begins it
                self.first.setdefault(root, n)
                self.last[root] = n
            for name in tensors_of(self.graph, step):
                root = self._stored(name).root
                if root in self.first:
                    self.last[root] = n
        for _, value in self.graph.updates:
            if self._stored(value).root in self.last:
                self.last[self._stored(value).root] = len(self.steps)

    def _take_over(self) -> None:
        for n, step in enumerate(self.steps):
            for output, given in step.in_place if isinstance(step, Kernel) else ():
                place, used = self._place(given), [self._place(name) for name in tensors_of(self.graph, step)]
                is_last = self.last.get(place) == n and used.count(place) == 1
                is_own = self._stored(output).root == output and self.first.get(output) == n
                if is_last and is_own and self._fills(given, output) and not self.results & {place, output}:
                    self.places[output], self.last[place] = place, self.last[output]

    def _fills(self, given: str, output: str) -> bool:
        """Whether ``given`` is all of its root, and ``output`` as large."""
        stored, edges = self._stored(given), self.graph.edges
        sizes = {edges[name].nbytes for name in (given, stored.root, output)}
        return len(sizes) == 1 and not stored.layout.offset

    def _place(self, name: str) -> str:
        root = self._stored(name).root
        return self.places.get(root, root)

    def _stored(self, name: str) -> Stored:
        found = self.storage.find(name)
        assert found is not None
        return found
