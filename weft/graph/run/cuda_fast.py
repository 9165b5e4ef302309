"""Calls of a recorded graph without any Python: weights checked, inputs copied or pointed at, the graph launched.

What is recorded is described in words that stay where they are, for all recordings of an executable (`STATE`). While
Python runs a call it is ``busy`` there, and machine code leaves calls to Python; so it does on another stream than the
last call's, and while the caller records a graph. The GIL is kept, so no other call comes between.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.graph.graph import dense_strides
from weft.graph.run.fast_model import MODEL, FastModel, load_calls
from weft.runtime.cuda_driver import driver_address
from weft.runtime.fastcall import TensorLayout, fast_calls_available
from weft.runtime.fastcall_text import ON_CUDA
from weft.runtime.loader import LoadedObject
from weft.runtime.native_module import NativeModule, words
from weft.runtime.torch_layout import StateFields

if TYPE_CHECKING:
    from weft.graph.run.cuda_executable import CudaExecutable

#: What machine code knows of a recorded graph: functions of the driver and torch's that tells the stream; tables.
STATE = (
    "busy", "graph", "stream", "device", "ask", "launch", "change", "copy", "is_capturing",
    "groups", "ngroups", "before", "nbefore", "after", "nafter",
)  # fmt: skip
#: Launches that change together: the slots of their frame that an argument goes into, and their nodes.
GROUP = ("patches", "npatches", "nodes", "nnodes")
#: Which argument, that many bytes further on, goes to which address.
PATCH = ("argument", "offset", "place")
NODE = ("node", "params")
#: Which argument is copied to memory of the graph, or from there.
COPY = ("argument", "address", "bytes")

_SOURCE = '''
def weft_call_recorded(slots):
    model: Model = slots[model_slot]
    state: State = model.state
    if model.owner == 0 or state.busy != 0 or needs_python(model) or not weft_is_current(model):
        return missed
    found = room(2)
    ask = state.ask
    if ask(on_cuda, state.device, found) != 0:
        PyErr_Clear()
        return missed
    stream = found[0]
    found[1] = 0
    is_capturing = state.is_capturing
    if stream != state.stream or is_capturing(stream, found + 8) != 0 or found[1] != 0:
        return missed
    copy = state.copy
    for i in range(state.nbefore):
        before: Copy = state.before + i * copy_size
        if copy(before.address, slots[before.argument], before.bytes, stream) != 0:
            return missed
    for i in range(state.ngroups):
        if not change_group(state, state.groups + i * group_size, slots):
            return missed
    launch = state.launch
    if launch(state.graph, stream) != 0:
        return missed
    for i in range(state.nafter):
        after: Copy = state.after + i * copy_size
        if copy(slots[after.argument], after.address, after.bytes, stream) != 0:
            return missed
    return 0


def change_group(state: State, group: Group, slots):
    """Tells launches where tensors are that moved since the last call; what failed is told again in the next."""
    moved = 0
    for i in range(group.npatches):
        patch: Patch = group.patches + i * patch_size
        place = patch.place
        address = slots[patch.argument] + patch.offset
        if place[0] != address:
            place[0] = address
            moved = 1
    if moved == 0:
        return 1
    change = state.change
    for i in range(group.nnodes):
        node: Node = group.nodes + i * node_size
        if change(state.graph, node.node, node.params) != 0:
            place[0] = 0
            return 0
    return 1
'''


@functools.cache
def _native(model_slot: int, fields: StateFields) -> LoadedObject:
    records = {"State": STATE, "Group": GROUP, "Patch": PATCH, "Node": NODE, "Copy": COPY}
    structures = {"Model": words(*MODEL, "state"), **{name: words(*names) for name, names in records.items()}}
    sizes = {f"{name.lower()}_size": 8 * len(names) for name, names in records.items()}
    source = NativeModule(_SOURCE, {**sizes, "on_cuda": ON_CUDA}, structures)
    return load_calls(source, {}, model_slot, fields)


#: The fields of `COPY`.
Copied = tuple[int, int, int]


class Changes(NamedTuple):
    """Of one step of a recorded graph: places of parameters by the number of the argument, with bytes to add."""

    launches: Any
    places: Sequence[tuple[int, int, int]]


def driver_functions() -> dict[str, int]:
    """By what `STATE` calls them."""
    names = {
        "launch": "cuGraphLaunch", "change": "cuGraphExecKernelNodeSetParams_v2", "copy": "cuMemcpyDtoDAsync_v2",
        "is_capturing": "cuStreamIsCapturing",
    }  # fmt: skip
    return {name: driver_address(function) for name, function in names.items()}


class RecordedState:
    """The words of `STATE`, and what they point at."""

    def __init__(self) -> None:
        self.words = (ctypes.c_int64 * len(STATE))()
        self._kept: list[Any] = []
        self.is_described = False
        self.leave()

    def _set(self, **values: int) -> None:
        for name, value in values.items():
            self.words[STATE.index(name)] = value

    def leave(self) -> None:
        """Calls are Python's."""
        self._set(busy=1)

    def enter(self, stream: int) -> None:
        """Calls on ``stream`` may be machine code's again, if it knows the graph."""
        self._set(stream=stream, busy=0 if self.is_described else 1)

    def forget(self) -> None:
        self.leave()
        self.is_described, self._kept = False, []

    def describe(
        self,
        graph: int,
        device: int,
        ask: int,
        changes: Sequence[Changes],
        copies: Mapping[str, Sequence[Sequence[int]]],
    ) -> None:
        """A new recording; ``copies`` are those before its launch and after it, each a `COPY`."""
        groups: list[int] = []
        for step in changes:
            patches = [(argument, more, step.launches.slot_address(place)) for place, argument, more in step.places]
            groups += [*self._table(patches), *self._table(step.launches.nodes)]
        tables = {name: self._table(rows) for name, rows in copies.items()}
        counts = {f"n{name}": count for name, (_, count) in tables.items()}
        self._set(graph=graph, device=device, ask=ask, groups=self._words(groups), ngroups=len(changes))
        self._set(**driver_functions(), **{name: at for name, (at, _) in tables.items()}, **counts)
        self.is_described = True

    def _table(self, rows: Sequence[Sequence[int]]) -> tuple[int, int]:
        return self._words([field for row in rows for field in row]), len(rows)

    def _words(self, values: Sequence[int]) -> int:
        made = (ctypes.c_int64 * max(1, len(values)))(*values)
        self._kept.append(made)
        return ctypes.addressof(made)


class FastRecorded(FastModel):
    """As `FastModel`, of an executable for a GPU."""

    _entry = "weft_call_recorded"

    def _own_words(self, executable: CudaExecutable) -> list[int]:
        self._memory.append(executable.state.words)
        return [ctypes.addressof(executable.state.words)]

    @property
    def _code(self) -> LoadedObject:
        return _native(self._count, self._fields)

    def takes(self, executable: CudaExecutable) -> bool:
        return fast_calls_available() and executable.is_direct

    def _layouts(self, executable: CudaExecutable, framework: int) -> list[TensorLayout]:
        graph, streams = executable.graph, executable.streams
        given = [
            TensorLayout(e.dtype, e.shape, strides, streams.memory(), framework=framework)
            for e, strides in zip((graph.edges[n] for n in graph.inputs), executable.input_strides)
        ]
        results = [graph.edges[n] for n in executable.made]
        made = [
            TensorLayout(
                e.dtype, e.shape, dense_strides(e.shape), streams.memory(e.dtype, e.shape), framework=framework
            )
            for e in results
        ]
        return [*given, *made]
