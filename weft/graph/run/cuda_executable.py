"""A compiled graph on a GPU. The first call runs its steps in order; the second records them as a CUDA graph, which
later calls launch: one call of the driver, whatever their number.

A recorded graph reads and writes memory of its own. What kernels of ours alone read of a caller, and results that they
make, are in the caller's memory: their launches are changed before each launch of the graph. Other inputs are copied,
other results copied from there, so what a caller has is never written again. Large results of the last steps are not
recorded: these steps follow the graph. Calls on other streams wait for each other on the GPU, so there is one set of
memory however many threads call.
"""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from weft.graph.from_torch.cuda import Marks, Recording, Streams, is_recordable
from weft.graph.graph import Graph, Opaque, dense_strides
from weft.graph.groups.compile_group import Kernel
from weft.graph.groups.storage import Storage
from weft.graph.run.arrays import Arrays
from weft.graph.run.cuda_fast import Changes, RecordedState
from weft.graph.run.cuda_steps import CudaSteps, Memory, makes
from weft.graph.run.segments import Step
from weft.ir.errors import ArgumentError
from weft.locks import new_lock

#: Graphs that a process keeps recorded, those called last: each has memory for the tensors between its steps.
MOST_RECORDED = 16
#: Bytes from which on a result is better written by a step after the graph than copied.
LARGE = 1 << 20
#: Steps up to which the graph is changed for a tensor that they have, rather than the tensor copied.
MOST_PATCHED = 3
#: Steps that may follow a graph.
MOST_FOLLOWING = 4


class CudaExecutable:
    """``run(inputs)`` gives the outputs of the graph; inputs fit its edges (see `check_inputs`)."""

    def __init__(self, graph: Graph, storage: Storage, steps: Sequence[Step], arrays: Arrays) -> None:
        self.graph, self.storage, self.arrays = graph, storage, arrays
        #: why there is no recorded graph, where there is none
        self.reason = _why_not_recorded(graph, steps)
        first, following = _split(graph, storage, steps) if self.reason is None else (list(steps), [])
        self._steps = CudaSteps(graph, storage, [*first, *following], arrays, len(first))
        self.steps, self.arena = self._steps.steps, self._steps.arena
        self.kernels = [s for s in self.steps if isinstance(s, Kernel)]
        self.streams = Streams(arrays.processor.executor)
        self.input_strides = [self._steps.find(name).layout.strides for name in graph.inputs]
        made = {name for k in self.kernels for name in k.program.outputs}
        roots = dict.fromkeys(map(self._steps.root, graph.outputs))
        #: results that kernels make, which the caller gets in new memory
        self.roots = [name for name in roots if name in made]
        #: outputs that machine code can make and fill: tensors of their own, dense
        self.made = list(dict.fromkeys(graph.outputs))
        self.is_direct = self._is_direct()
        self.state = RecordedState()
        self._lock = new_lock()
        self._recorded: _Recorded | None = None
        self._calls = 0

    def _is_direct(self) -> bool:
        """Whether a recorded graph and copies are all that a call is."""
        graph = self.graph
        if self.reason is not None or graph.updates or self._steps.following < len(self.steps):
            return False
        plain = [name for name in self.made if name in graph.edges and self._steps.root(name) == name]
        own = {name for step in self.steps for name in makes(step)}
        return len(plain) == len(graph.outputs) and all(
            name in own and self._steps.find(name).layout.strides == dense_strides(graph.edges[name].shape)
            and graph.edges[name].strides in (None, dense_strides(graph.edges[name].shape))
            for name in plain
        )  # fmt: skip

    # A call

    def check_inputs(self, given: Sequence[Any]) -> list[Any]:
        """The inputs as code counts on them, copied where only their strides differ."""
        if len(given) != len(self.graph.inputs):
            raise ArgumentError(f"{self.graph.name} takes {len(self.graph.inputs)} tensors, not {len(given)}")
        edges = [self.graph.edges[name] for name in self.graph.inputs]
        fits, arranged = self.arrays.fits, self.arrays.arranged
        return [a if fits(a, e, s) else arranged(a, e, s) for a, e, s in zip(given, edges, self.input_strides)]

    def run(self, given: Sequence[Any]) -> list[Any]:
        """One call; inputs are checked first."""
        return self.run_checked(self.check_inputs(given), given)

    def run_checked(self, checked: Sequence[Any], given: Sequence[Any] | None = None) -> list[Any]:
        """One call with inputs that fit; ``given`` are the arrays that updates write to, where they are others."""
        given = checked if given is None else given
        with self.streams.device():
            self._calls += 1
            if self.reason is None and self._calls > 1 and not self.streams.is_recording():
                with self._lock:
                    recorded = self._recorded or self._record(checked)
                    if recorded is not None:
                        _keep(self)
                        self.state.leave()
                        made = recorded.run(checked, given)
                        self.state.enter(self.streams.current())
                        return made
            return self._run_in_order(checked, given)

    def run_timed(self, checked: Sequence[Any]) -> list[tuple[Step, int, int]]:
        """One call in order, and when each step began and ended, in nanoseconds."""
        with self.streams.device():
            held = dict(zip(self.graph.inputs, map(self.streams.aligned, checked))) | self.fresh(self.roots)
            memory, marks = self._steps.allocate(), Marks(len(self.steps))
            self._steps.run_timed(held, memory, self.streams.current(), marks.mark)
            times = marks.nanoseconds()
        return list(zip(self.steps, times, times[1:]))

    def _run_in_order(self, checked: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        aligned = [self.streams.aligned(a) for a in checked]
        held = dict(zip(self.graph.inputs, aligned)) | self.fresh(self.roots)
        memory = self._steps.allocate()
        self._steps.run(range(len(self.steps)), held, memory, self.streams.current())
        return self.finish(held, memory, dict(zip(self.graph.inputs, checked)), given)

    def fresh(self, names: Sequence[str]) -> dict[str, Any]:
        """New arrays for these tensors."""
        found = {name: self._steps.find(name) for name in names}
        return {name: self.arrays.empty(self.graph.edges[name], f.layout.strides) for name, f in found.items()}

    def finish(self, held: dict[str, Any], memory: Memory, inputs: dict[str, Any], given: Sequence[Any]) -> list[Any]:
        """The outputs, and updates written; ``inputs`` are the caller's own, in whose memory results may be."""
        held |= inputs
        outputs = [self._steps.output(name, held, memory) for name in self.graph.outputs]
        values = [self._steps.tensor(value, held, memory) for _, value in self.graph.updates]
        targets = dict(zip(self.graph.inputs, given))
        for (name, _), value in zip(self.graph.updates, values):
            self.arrays.copy(targets[name], value)
        return outputs

    def notes(self) -> list[str]:
        """For `explain`: how calls run."""
        if self.reason is not None:
            return [f"launches in order: {self.reason}"]
        after = len(self.steps) - self._steps.following
        return [f"one CUDA graph of {self._steps.following} steps" + (f", and {after} after it" if after else "")]

    def _record(self, checked: Sequence[Any]) -> _Recorded | None:
        try:
            self._recorded = _Recorded(self, self._steps, checked)
        except Exception as error:  # whatever torch cannot record, it can still run
            self.reason = f"recording failed: {type(error).__name__}: {str(error).splitlines()[:1]}"
            warnings.warn(f"weft: {self.graph.name} runs without a CUDA graph: {self.reason}", stacklevel=5)
            return None
        return self._recorded

    def forget(self) -> None:
        """Gives the memory of a recorded graph back, unless a call is using it; the next call records it again."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            recorded, self._recorded = self._recorded, None
            self.state.forget()
            if recorded is not None:
                self.streams.wait()
                recorded.recording.reset()
        finally:
            self._lock.release()


#: Executables with a recorded graph, the one called longest ago first.
_recorded: OrderedDict[int, weakref.ref[CudaExecutable]] = OrderedDict()


def _keep(executable: CudaExecutable) -> None:
    """``executable`` was called last; beyond `MOST_RECORDED` the others lose their graphs."""
    number = id(executable)
    known = _recorded.get(number)
    if known is None or known() is not executable:  # it may have the number of one that is gone
        known = weakref.ref(executable, lambda gone: _gone(number, gone))
    _recorded[number] = known
    _recorded.move_to_end(number)
    while len(_recorded) > MOST_RECORDED:
        oldest = _recorded.popitem(last=False)[1]()
        if oldest is not None:
            oldest.forget()


def _gone(number: int, executable: weakref.ref[CudaExecutable]) -> None:
    if _recorded.get(number) is executable:
        del _recorded[number]


def _why_not_recorded(graph: Graph, steps: Sequence[Step]) -> str | None:
    for step in steps:
        if isinstance(step, Opaque) and not is_recordable(step.call):
            return f"{step.call.target} draws random numbers or waits for the GPU"
        if isinstance(step, Opaque) and any(n is not None and n not in graph.edges for n in step.outputs):
            return f"{step.call.target} gives what is not a tensor on the GPU"
    return None if steps else "there is nothing to run"


def _split(graph: Graph, storage: Storage, steps: Sequence[Step]) -> tuple[list[Step], list[Step]]:
    """The steps of the recorded graph, and those after it: a few that make large results which no other step reads."""

    def root(name: str) -> str:
        found = storage.find(name)
        return name if found is None else found.root

    shown = {*map(root, graph.outputs)} - {root(value) for _, value in graph.updates}
    read = {
        root(name)
        for step in steps
        for name in (step.inputs if isinstance(step, Opaque) else step.tensors)
        if name not in makes(step)
    }
    first: list[Step] = []
    last: list[Step] = []
    for step in steps:
        made = makes(step)
        is_large = sum(graph.edges[name].nbytes for name in made) >= LARGE
        is_last = is_large and all(name in shown and name not in read for name in made)
        (last if is_last else first).append(step)
    return (first, last) if first and len(last) <= MOST_FOLLOWING else (list(steps), [])


class _Recorded:
    """The CUDA graph of an executable, and the memory that is its own."""

    def __init__(self, executable: CudaExecutable, steps: CudaSteps, checked: Sequence[Any]) -> None:
        self.executable, self.steps, self.streams = executable, steps, executable.streams
        graph = executable.graph
        self.memory, self.recording = steps.allocate(), Recording(self.streams.index)
        first = range(steps.following)
        self.following = range(steps.following, len(steps.steps))
        read = {name for step in steps.steps for name in steps.reads(step)}
        inside = {name for n in first for name in makes(steps.steps[n])}
        #: what is in the caller's memory: by name, the numbers of steps and their places
        self.patches = self._find_patches(first, [*(n for n in graph.inputs if n in read), *executable.roots])
        self.launched: dict[int, Any] = dict.fromkeys(n for steps_of in self.patches.values() for n in steps_of)
        self.inputs = {n: self.streams.copied(a) for n, a in zip(graph.inputs, checked) if n in read}
        self.places = [n for n, name in enumerate(graph.inputs) if name in self.inputs and name not in self.patches]
        self.targets = [self.inputs[graph.inputs[n]] for n in self.places]
        self.patched_inputs = [(n, name) for n, name in enumerate(graph.inputs) if name in self.patches]
        patched = [name for name in executable.roots if name in self.patches]
        self.copied = [name for name in executable.roots if name in inside and name not in self.patches]
        self.new = [name for name in executable.roots if name not in inside or name in self.patches]
        self.fresh = [(name, graph.edges[name], steps.find(name).layout.strides) for name in self.new]
        self.patched_results = patched
        #: what calls in the graph make and steps after it or the caller read
        self.made: dict[str, Any] = self.inputs | executable.fresh(patched)
        with self.recording as stream:
            steps.run(first, self.made, self.memory, stream, self.launched)
        roots = dict.fromkeys(map(steps.root, graph.outputs))
        self.cloned = [n for n in roots if n in self.made and n in inside and n not in self.patches]
        for name in self.patches:
            self.made.pop(name, None)
        if executable.is_direct:
            self._describe(executable.state)

    def _describe(self, state: RecordedState) -> None:
        """Tells machine code about calls, where it can make them."""
        graph, steps = self.executable.graph, self.steps
        numbers = {name: n for n, name in enumerate((*graph.inputs, *self.executable.made))}
        by_step: dict[int, list[tuple[int, int, int]]] = {}
        for name, places in self.patches.items():
            for step, own in places.items():
                by_step.setdefault(step, []).extend((place, numbers[name], more) for place, more in own.items())
        before = [(n, self.executable.arrays.pointer(t), t.nbytes) for n, t in zip(self.places, self.targets)]
        pointer = self.executable.arrays.pointer
        after = [
            (numbers[name], pointer(steps.tensor(name, self.made, self.memory)), graph.edges[name].nbytes)
            for name in (*self.copied, *self.cloned)
        ]
        launches = {n: self.launched[n] for n in by_step}
        is_plain = all(t.is_contiguous() for t in self.targets) and {n for n, *_ in after}.issuperset(
            numbers[name] for name in self.executable.made if name not in self.patches
        )
        ask = self.streams.asked
        if ask and is_plain and not any(step.has_maps for step in launches.values()):
            changes = [Changes(launches[n], places) for n, places in by_step.items()]
            state.describe(self.recording.handle, self.streams.index, ask, changes, {"before": before, "after": after})

    def _find_patches(self, first: range, names: Sequence[str]) -> dict[str, dict[int, dict[int, int]]]:
        """The tensors that a few launches have, and no library; others are better copied."""
        if not self.recording.is_open:
            return {}
        found = {name: self.steps.places(name, first) for name in names}
        return {name: places for name, places in found.items() if places and len(places) <= MOST_PATCHED}

    def run(self, checked: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        executable, steps, empty = self.executable, self.steps, self.executable.arrays.empty
        stream = self.streams.enter(self.memory.arena)
        for target, place in zip(self.targets, self.places):
            target.copy_(checked[place])
        held = self.made | {name: empty(edge, strides) for name, edge, strides in self.fresh}
        for place, name in self.patched_inputs:
            held[name] = self.streams.aligned(checked[place])
        self._patch(held)
        self.recording.launch()
        steps.run(self.following, held, self.memory, stream)
        for name in self.copied:
            held[name] = steps.tensor(name, {}, self.memory).clone()
        for name in self.cloned:
            held[name] = held[name].clone()
        return executable.finish(held, self.memory, dict(zip(executable.graph.inputs, checked)), given)

    def _patch(self, held: Mapping[str, Any]) -> None:
        """Tells the graph where tensors are."""
        pointer = self.executable.arrays.pointer
        addresses: dict[int, dict[int, int]] = {}
        for name, steps in self.patches.items():
            address = pointer(held[name])
            for number, places in steps.items():
                addresses.setdefault(number, {}).update((place, address + more) for place, more in places.items())
        for number, now in addresses.items():
            self.launched[number].change(self.recording.handle, now)
