"""The steps of a graph on a GPU, one after another on torch's current stream: launches of kernels, calls of torch.

Every tensor that kernels make has a place in an arena, as have the temporaries of kernels of several launches. What
calls make is torch's, and given back to its allocator after the last step that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.graph.graph import Edge, Graph, Opaque
from weft.graph.groups.compile_group import Kernel
from weft.graph.groups.layout import Stored, canonical
from weft.graph.groups.storage import Storage
from weft.graph.run.arrays import Arrays, arguments, laid_out, results_of
from weft.graph.run.memory import Arena, Life, pack
from weft.graph.run.segments import Step
from weft.ir import dtype as dt


@dataclass(eq=False)
class Memory:
    """What one run at a time uses: an arena, and arrays over it that calls are given."""

    arena: Any
    address: int
    views: dict[str, Any] = field(default_factory=dict)


class CudaSteps:
    """Runs steps by number; ``held`` has the arrays of inputs, of results of calls, and of what is not in the arena,
    as which all that the steps from number ``following`` on make counts."""

    def __init__(self, graph: Graph, storage: Storage, steps: Sequence[Step], arrays: Arrays, following: int) -> None:
        self.graph, self.storage, self.steps, self.arrays = graph, storage, tuple(steps), arrays
        self.following = following
        self._calls = {s.name: arrays.function(s.call.target) for s in self.steps if isinstance(s, Opaque)}
        self._last = self._last_uses()
        self.arena = self._pack()
        self._ends: list[list[str]] = [[] for _ in self.steps]
        shown = {self.root(name) for name in self._shown()}
        for name, step in self._last.items():
            if name not in shown and step < len(self.steps):
                self._ends[step].append(name)

    def find(self, name: str) -> Stored:
        found = self.storage.find(name)
        assert found is not None
        return found

    def root(self, name: str) -> str:
        """The tensor in whose memory ``name`` is; an object of the framework is its own."""
        return self.find(name).root if name in self.graph.edges else name

    def _shown(self) -> list[str]:
        return [*self.graph.outputs, *(value for _, value in self.graph.updates)]

    def reads(self, step: Step) -> list[str]:
        """The roots of what a step reads."""
        made = () if isinstance(step, Opaque) else step.program.outputs
        names = step.inputs if isinstance(step, Opaque) else step.tensors
        return [self.root(name) for name in names if name not in made]

    def _last_uses(self) -> dict[str, int]:
        last: dict[str, int] = {}
        for n, step in enumerate(self.steps):
            last |= dict.fromkeys((*self.reads(step), *makes(step)), n)
        return last | dict.fromkeys(map(self.root, self._shown()), len(self.steps))

    def _pack(self) -> Arena:
        lives = []
        for n, step in enumerate(self.steps):
            if isinstance(step, Kernel):
                made = step.program.outputs if n < self.following else ()
                lives += [Life(x, self.graph.edges[x].nbytes, n, self._last[x]) for x in made]
                scratch = _launches(step).scratch_bytes
                lives += [Life(_scratch(n), scratch, n, n)] if scratch else []
        return pack(lives)

    def allocate(self) -> Memory:
        """Memory for a run, from torch's allocator."""
        size = max(self.arena.size, 1)
        made = self.arrays.empty(Edge("arena", dt.uint8, (size,), None), (1,))
        return Memory(made, self.arrays.pointer(made))

    def run(
        self,
        numbers: Sequence[int],
        held: dict[str, Any],
        memory: Memory,
        stream: int,
        patched: dict[int, Any] | None = None,
    ) -> None:
        """Steps in order, each on ``stream``, which is torch's current one. Launches of steps that are among
        ``patched`` are recorded so that they can be changed, and go there."""
        for n in numbers:
            step = self.steps[n]
            if not isinstance(step, Kernel):
                self._call(step, held, memory)
            elif patched is not None and n in patched:
                patched[n] = self._launch(n, step, held, memory, stream, record=True)
            else:
                self._launch(n, step, held, memory, stream)
            for name in self._ends[n]:
                held.pop(name, None)

    def run_timed(self, held: dict[str, Any], memory: Memory, stream: int, mark: Callable[[], None]) -> None:
        """All steps, with a mark before each and after the last."""
        for n in range(len(self.steps)):
            mark()
            self.run([n], held, memory, stream)
        mark()

    def _launch(
        self, number: int, kernel: Kernel, held: Mapping[str, Any], memory: Memory, stream: int, record: bool = False
    ) -> Any:
        values = [*(self.address(name, held, memory) for name in kernel.tensors), *kernel.fixed]
        scratch = self.arena.offsets.get(_scratch(number), 0) + memory.address
        loaded = kernel.code.loaded
        start = loaded.record if record else loaded.start
        return start(loaded.plan(values), values, stream, scratch)

    def places(self, root: str, numbers: Sequence[int]) -> dict[int, dict[int, int]] | None:
        """Where steps have a tensor: by their numbers, the places of parameters and bytes from its beginning.

        None where not only kernels have it.
        """
        found: dict[int, dict[int, int]] = {}
        for n in numbers:
            step = self.steps[n]
            names = step.inputs if isinstance(step, Opaque) else step.tensors
            own = [(place, name) for place, name in enumerate(names) if self.root(name) == root]
            if own and isinstance(step, Opaque):
                return None
            offsets = {p: self.find(x).layout.offset * self.graph.edges[x].dtype.itemsize for p, x in own}
            found |= {n: offsets} if own else {}
        return found

    def address(self, name: str, held: Mapping[str, Any], memory: Memory) -> int:
        """Where the first element of a tensor is."""
        found, edge = self.find(name), self.graph.edges[name]
        root = held.get(found.root)
        if root is None:
            root = self.graph.constants.get(found.root)
        start = memory.address + self.arena.offsets[found.root] if root is None else self.arrays.pointer(root)
        return start + found.layout.offset * edge.dtype.itemsize

    def _call(self, node: Opaque, held: dict[str, Any], memory: Memory) -> None:
        args, named = arguments(node.call, self.arrays, lambda name: self.tensor(name, held, memory))
        made = self._calls[node.name](*args, **named)
        for name, array in zip(node.outputs, results_of(made)):
            if name is None:
                continue
            held[name] = self._arranged(name, array) if name in self.graph.edges else array

    def _arranged(self, name: str, array: Any) -> Any:
        return laid_out(array, self.graph.edges[name], self.find(name).layout.strides, self.arrays)

    def tensor(self, name: str, held: Mapping[str, Any], memory: Memory) -> Any:
        """A tensor of the graph as an array of the framework."""
        if name not in self.graph.edges:
            return held[name]
        found, edge = self.find(name), self.graph.edges[name]
        root = held.get(found.root)
        if root is None:
            root = self.graph.constants.get(found.root)
        if root is not None:
            is_whole = name == found.root
            return root if is_whole else self.arrays.view(root, edge.shape, found.layout.strides, found.layout.offset)
        if name not in memory.views:
            start = self.arena.offsets[found.root] + found.layout.offset * edge.dtype.itemsize
            memory.views[name] = self.arrays.over(memory.arena, start, edge, found.layout.strides)
        return memory.views[name]

    def output(self, name: str, held: Mapping[str, Any], memory: Memory) -> Any:
        """A tensor with just the strides that the caller counts on, those of axes of one element among them."""
        edge = self.graph.edges.get(name)
        if edge is None or edge.strides is None or edge.strides == self.find(name).layout.strides or name in held:
            return self.tensor(name, held, memory)
        found = self.find(name)
        if canonical(edge.shape, edge.strides) != canonical(edge.shape, found.layout.strides):
            return self.arrays.arranged(self.tensor(name, held, memory), edge, edge.strides)
        root = held.get(found.root, self.graph.constants.get(found.root))
        return self.arrays.view(root, edge.shape, edge.strides, found.layout.offset)


def makes(step: Step) -> list[str]:
    """The tensors and objects that a step makes."""
    made = step.outputs if isinstance(step, Opaque) else step.program.outputs
    return [name for name in made if name is not None]


def _launches(kernel: Kernel) -> Any:
    loaded = kernel.code.loaded
    return loaded.plan([*(0 for _ in kernel.tensors), *kernel.fixed])


def _scratch(step: int) -> str:
    return f"temporaries of step {step}"
