"""A compiled graph: a flat table of kernels and the slots of their arguments, with calls of the framework between.

All that does not change from call to call is written into a frame once: the arena, the table, every slot but those of
inputs, results and what calls of the framework give. A call patches these and runs the table. Each call has a frame to
itself, so several threads may call at once.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from weft.graph.graph import Graph, Opaque
from weft.graph.groups.compile_group import Kernel
from weft.graph.groups.layout import canonical
from weft.graph.groups.storage import Storage
from weft.graph.run.arenas import Arenas
from weft.graph.run.arrays import Arrays, arguments, laid_out, results_of
from weft.graph.run.native_call import NativeCall
from weft.graph.run.plan_memory import plan_memory
from weft.graph.run.rows import Row, Rows
from weft.graph.run.run_table import KEPT_FRAMES, frame_keeper, table_runner, table_timer
from weft.graph.run.segments import Segment, Step, segments_of, tensors_of
from weft.ir.errors import ArgumentError, Error
from weft.runtime.arrays import describe
from weft.runtime.kernel import RECORD_LENGTH, LoadedKernel


@dataclass(eq=False)
class _Frame:
    """What one call at a time uses."""

    arena: Any
    slots: Any
    #: of kernels, and of all steps, where none needs Python
    table: Any
    whole: Any
    record: Any
    #: a structure that has where the table of all steps and the slots begin
    head: Any
    #: arrays over the arena that calls of the framework are given
    views: dict[str, Any] = field(default_factory=dict)


class Executable:
    """``run(inputs)`` gives the outputs of the graph; inputs fit its edges (see `check_inputs`)."""

    #: whether the graph keeps the values of all constants, for those who evaluate it beside its code
    keeps_constants = False

    def __init__(self, graph: Graph, storage: Storage, steps: Sequence[Step], arrays: Arrays) -> None:
        self.graph, self.storage, self.steps, self.arrays = graph, storage, tuple(steps), arrays
        self.kernels = [s for s in self.steps if isinstance(s, Kernel)]
        self._fresh = self._output_roots()
        self.arena, self._hosted, self.taken_over = plan_memory(graph, storage, self.steps, self._fresh)
        self._rows = Rows(self.steps, self._native_calls(), self._place)
        self._slots = self._rows.slots
        self._segments = segments_of(self.steps)
        self._input_strides = [self.strides(name) for name in graph.inputs]
        #: addresses of the frames that no call has, and all frames by address
        self._free = (ctypes.c_int64 * KEPT_FRAMES)()
        self._frames: dict[int, _Frame] = {}
        #: memory that executables for other sizes of the same model share
        self.arenas = Arenas()
        self._run_table = table_runner()
        self._take_frame, self._give_frame = frame_keeper()
        self._places = [self._slots.get(name, []) for name in (*graph.inputs, *self._fresh)]
        self._makers = [(graph.edges[name], self.strides(name)) for name in self._fresh]
        self._direct = self._direct_results()
        self._calls: dict[str, Callable[..., Any]] = {
            s.name: arrays.function(s.call.target) for s in self.steps if isinstance(s, Opaque)
        }
        if not self.keeps_constants:
            self._release_constants()

    def _release_constants(self) -> None:
        """Forgets the values of constants that only code was made of: kernels have what they read of them."""
        roots = [found.root for name in self.graph.results if (found := self.storage.find(name)) is not None]
        calls = [s for s in self.steps if isinstance(s, Opaque)]
        read = {
            *roots,
            *self._slots,
            *(name for s in calls for name in (*s.inputs, *map(self._root, tensors_of(self.graph, s)))),
        }
        constants = {name: self.graph.constants[name] if name in read else None for name in self.graph.constants}
        self.graph = replace(self.graph, constants=constants)
        self.storage = self.storage.over(self.graph)

    # What machine code asks (`fast_model`)

    @property
    def is_direct(self) -> bool:
        """Whether a call is machine code alone, whose results are the outputs as they are, each once and in order."""
        return self._direct == list(range(len(self._fresh)))

    @property
    def made(self) -> list[str]:
        """Tensors that calls make new memory for."""
        return self._fresh

    @property
    def patches(self) -> list[tuple[int, int, int]]:
        """Which input or made tensor, by number, has its address in which slot, how many bytes further on."""
        return [(n, slot.place, slot.offset) for n, slots in enumerate(self._places) for slot in slots]

    @property
    def row_count(self) -> int:
        """Rows of the table of all steps."""
        return len(self._rows.whole)

    @property
    def frames_address(self) -> int:
        return ctypes.addressof(self._free)

    # Before the first call

    def strides(self, name: str) -> tuple[int, ...]:
        found = self.storage.find(name)
        assert found is not None
        return found.layout.strides

    def _output_roots(self) -> list[str]:
        """Tensors that kernels make and the caller gets: new memory in every call."""
        made = {self._root(name) for k in self.kernels for name in k.program.outputs}
        roots = dict.fromkeys(self._root(name) for name in self.graph.outputs if name in self.graph.edges)
        return [name for name in roots if name in made]

    def _direct_results(self) -> list[int] | None:
        """Which of the tensors that kernels make each output is; None where a call needs more than those."""
        edges = [self.graph.edges.get(name) for name in self.graph.outputs]
        strides = [None if e is None else e.strides for e in edges]
        plain = all(
            name in self._fresh and s in (None, self.strides(name)) for name, s in zip(self.graph.outputs, strides)
        )
        if not plain or self.graph.updates or len(self._rows.whole) < len(self.steps):
            return None
        return [self._fresh.index(name) for name in self.graph.outputs]

    def _root(self, name: str) -> str:
        found = self.storage.find(name)
        assert found is not None
        return found.root

    def _native_calls(self) -> dict[str, NativeCall] | None:
        """Of all calls; None where some needs Python."""
        calls = [s for s in self.steps if isinstance(s, Opaque)]
        made = {s.name: self.arrays.native_call(self.graph, s, self.strides) for s in calls}
        return None if None in made.values() else {name: call for name, call in made.items() if call is not None}

    def _place(self, name: str) -> tuple[str, int]:
        """In whose memory a tensor is, and how many bytes behind its first."""
        found = self.storage.find(name)
        assert found is not None
        root, first = self._hosted.get(found.root, (found.root, 0))
        return root, first + found.layout.offset * self.graph.edges[name].dtype.itemsize

    def _make_frame(self) -> _Frame:
        arena = self.arenas.take(max(self.arena.size, 1), self)
        record = (ctypes.c_int64 * RECORD_LENGTH)()
        slots = (ctypes.c_uint64 * max(self._rows.count, 1))()
        for place, value in self._rows.fixed:
            slots[place] = value
        base, first = ctypes.addressof(slots), arena.ctypes.data
        for row in self._rows.kernels:
            assert isinstance(row.step, Kernel)
            slots[row.start + len(row.step.code.loaded.params)] = ctypes.addressof(record)
        for name, offset in self.arena.offsets.items():
            self._patch(slots, name, first + offset)
        for name, array in self.graph.constants.items():
            if name in self._slots:
                self._patch(slots, name, describe(array).pointer)
        table, whole = _table(self._rows.kernels, base), _table(self._rows.whole, base)
        return _Frame(arena, slots, table, whole, record, (ctypes.c_int64 * 2)(ctypes.addressof(whole), base))

    def notes(self) -> list[str]:
        """For `explain`: how calls run, where that is not one table."""
        return []

    # A call

    def check_inputs(self, given: Sequence[Any]) -> list[Any]:
        """The inputs as code counts on them, copied where only their strides differ."""
        if len(given) != len(self.graph.inputs):
            raise ArgumentError(f"{self.graph.name} takes {len(self.graph.inputs)} tensors, not {len(given)}")
        checked = []
        for name, array, strides in zip(self.graph.inputs, given, self._input_strides):
            edge = self.graph.edges[name]
            checked.append(laid_out(array, edge, strides, self.arrays))
        return checked

    def run(self, given: Sequence[Any]) -> list[Any]:
        """One call; inputs are checked first."""
        return self.run_checked(self.check_inputs(given), given)

    def run_checked(self, checked: Sequence[Any], given: Sequence[Any] | None = None) -> list[Any]:
        """One call with inputs that fit; ``given`` are the arrays that updates write to, where they are others."""
        frame = self._take()
        try:
            if self._direct is not None:
                return self._run_direct(frame, checked, self._direct)
            return self._run(frame, checked if given is None else given, checked)
        finally:
            self._give(frame)

    def _run_direct(self, frame: _Frame, checked: Sequence[Any], results: list[int]) -> list[Any]:
        """Machine code alone, whose results are the outputs as they are: nothing is looked up by name."""
        slots, pointer, empty = frame.slots, self.arrays.pointer, self.arrays.empty
        made = [empty(edge, strides) for edge, strides in self._makers]
        for array, places in zip((*checked, *made), self._places):
            first = pointer(array)
            for slot in places:
                slots[slot.place] = first + slot.offset
        status = self._run_table(frame.head[0], 0, self.row_count)
        if not status:
            return [made[n] for n in results]
        row = self._rows.whole[(status >> 32) - 1]
        if isinstance(row.step, Kernel):
            raise self._failure(row.step, status, frame)
        return self._run(frame, checked, checked)  # a library that refuses says why in Python, or does it after all

    def _take(self) -> _Frame:
        address = self._take_frame(self.frames_address)
        if address:
            return self._frames[address]
        frame = self._make_frame()
        self._frames[ctypes.addressof(frame.head)] = frame
        return frame

    def _give(self, frame: _Frame) -> None:
        address = ctypes.addressof(frame.head)
        if not self._give_frame(self.frames_address, address):
            del self._frames[address]

    @property
    def held_bytes(self) -> int:
        """Of the arenas of all frames."""
        return sum(frame.arena.nbytes for frame in list(self._frames.values()))

    def release(self) -> list[Any]:
        """The arenas of frames that no call has."""
        released = []
        while address := self._take_frame(self.frames_address):
            released.append(self._frames.pop(address).arena)
        return released

    def _patch(self, slots: Any, root: str, pointer: int) -> None:
        for slot in self._slots.get(root, ()):
            slots[slot.place] = pointer + slot.offset

    def run_timed(self, checked: Sequence[Any]) -> list[tuple[Step, int, int]]:
        """One call, and when each step began and ended, in nanoseconds."""
        spans: list[tuple[Step, int, int]] = []

        def run(segment: Segment, frame: _Frame, held: dict[str, Any]) -> None:
            if isinstance(segment, Opaque):
                start = time.perf_counter_ns()
                self._call(segment, frame, held)
                spans.append((segment, start, time.perf_counter_ns()))
                return
            first, end = segment
            stamps = (ctypes.c_int64 * (end - first + 1))()
            status = table_timer()(ctypes.addressof(frame.table), first, end, ctypes.addressof(stamps))
            if status:
                raise self._failure(self.kernels[(status >> 32) - 1], status, frame)
            spans.extend(zip(self.kernels[first:end], stamps, stamps[1:]))

        frame = self._take()
        try:
            self._run(frame, checked, checked, run)
        finally:
            self._give(frame)
        return spans

    def _run_segment(self, segment: Segment, frame: _Frame, held: dict[str, Any]) -> None:
        if isinstance(segment, Opaque):
            self._call(segment, frame, held)
        else:
            self._run_kernels(frame, *segment)

    def _run(
        self,
        frame: _Frame,
        given: Sequence[Any],
        checked: Sequence[Any],
        run: Callable[[Segment, _Frame, dict[str, Any]], None] | None = None,
    ) -> list[Any]:
        held: dict[str, Any] = dict(zip(self.graph.inputs, checked))
        for name in self._fresh:
            held[name] = self.arrays.empty(self.graph.edges[name], self.strides(name))
        for name, array in held.items():
            if name in self._slots:
                self._patch(frame.slots, name, self.arrays.pointer(array))
        for segment in self._segments:
            (run or self._run_segment)(segment, frame, held)
        shown = {name: self._output(name, frame, held) for name in dict.fromkeys(self.graph.outputs)}
        outputs = [shown[name] for name in self.graph.outputs]
        if self.graph.updates:
            held |= dict(zip(self.graph.inputs, given))
            values = [self._tensor(value, frame, held) for _, value in self.graph.updates]
            for (name, _), value in zip(self.graph.updates, values):
                self.arrays.copy(held[name], value)
            outputs = self._with_updates(outputs, frame, held)
        return outputs

    def _with_updates(self, outputs: list[Any], frame: _Frame, held: dict[str, Any]) -> list[Any]:
        """Outputs that show what an input was left with are views of the input, as its layout lets them."""
        left = {
            self._root(value): self._left_in(held[name], value)
            for name, value in self.graph.updates
            if self._is_whole(value) and self.arrays.fits(held[name], self.graph.edges[name], self.strides(value))
        }
        held |= left
        return [
            self._output(name, frame, held) if name in self.graph.edges and self._root(name) in left else made
            for name, made in zip(self.graph.outputs, outputs)
        ]

    def _is_whole(self, name: str) -> bool:
        """Whether a tensor shows all of what this call has made, and not of an input or a constant."""
        found = self.storage.find(name)
        assert found is not None
        given = found.root in self.graph.inputs or found.root in self.graph.constants
        counts = [self.graph.edges[n].count for n in (name, found.root) if n in self.graph.edges]
        return not given and len(counts) == 2 and counts[0] == counts[1] and not found.layout.offset

    def _left_in(self, array: Any, name: str) -> Any:
        """The tensor that ``name`` shows all of, in the memory of ``array``, which lies as ``name`` does."""
        root = self._root(name)
        return array if root == name else self.arrays.view(array, self.graph.edges[root].shape, self.strides(root), 0)

    def _run_kernels(self, frame: _Frame, first: int, end: int) -> None:
        status = self._run_table(ctypes.addressof(frame.table), first, end)
        if status:
            raise self._failure(self.kernels[(status >> 32) - 1], status, frame)

    def _failure(self, kernel: Kernel, status: int, frame: _Frame) -> Error:
        loaded: LoadedKernel = kernel.code.loaded
        return loaded.error(ctypes.c_int32(status & 0xFFFFFFFF).value, list(frame.record))

    def _call(self, node: Opaque, frame: _Frame, held: dict[str, Any]) -> None:
        args, named = arguments(node.call, self.arrays, lambda name: self._tensor(name, frame, held))
        made = self._calls[node.name](*args, **named)
        for name, array in zip(node.outputs, results_of(made)):
            if name is None:
                continue
            if name not in self.graph.edges:
                held[name] = array
                continue
            held[name] = laid_out(array, self.graph.edges[name], self.strides(name), self.arrays)
            self._patch(frame.slots, name, self.arrays.pointer(held[name]))

    def _output(self, name: str, frame: _Frame, held: dict[str, Any]) -> Any:
        """A tensor with just the strides that the caller counts on, those of axes of one element among them."""
        found, edge = self.storage.find(name), self.graph.edges.get(name)
        if found is None or edge is None or edge.strides in (None, found.layout.strides) or name in held:
            return self._tensor(name, frame, held)
        strides = edge.strides or ()
        if canonical(edge.shape, strides) != canonical(edge.shape, found.layout.strides):
            return self.arrays.arranged(self._tensor(name, frame, held), edge, strides)
        root = held.get(found.root, self.graph.constants.get(found.root))
        return self.arrays.view(root, edge.shape, strides, found.layout.offset)

    def _tensor(self, name: str, frame: _Frame, held: dict[str, Any]) -> Any:
        """A tensor of the graph as an array of the framework."""
        if name not in self.graph.edges:
            return held[name] if name in held else self.graph.constants[name]
        found, edge = self.storage.find(name), self.graph.edges[name]
        assert found is not None
        strides, offset = found.layout
        root = held.get(found.root)
        if root is None and found.root in self.graph.constants:
            root = self.graph.constants[found.root]
        if root is None:
            if name not in frame.views:
                place, first = self._hosted.get(found.root, (found.root, 0))
                start = self.arena.offsets[place] + first + offset * edge.dtype.itemsize
                frame.views[name] = self.arrays.over(frame.arena, start, edge, strides)
            return frame.views[name]
        return root if name == found.root else self.arrays.view(root, edge.shape, strides, offset)


def _table(rows: Sequence[Row], slots: int) -> Any:
    """As machine code reads it: the address of each function and that of its slots."""
    words = [word for row in rows for word in (row.address, slots + 8 * row.start)]
    return (ctypes.c_uint64 * max(len(words), 1))(*words)
