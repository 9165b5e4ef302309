"""Where the arguments of steps are in a frame, and the tables of rows that run them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from weft.graph.graph import Opaque
from weft.graph.groups.compile_group import Kernel
from weft.graph.run.native_call import ROW, NativeCall
from weft.graph.run.segments import Step
from weft.runtime.kernel import LoadedKernel, scalar_bits


class Slot(NamedTuple):
    """A slot that holds the address of a tensor: its place among all slots, and bytes behind the root's first one."""

    place: int
    offset: int


class Row(NamedTuple):
    """A function, and the first of the slots that it is given; ``step`` is None for what frees a result."""

    address: int
    start: int
    step: Step | None


class Rows:
    """``kernels`` are the rows of kernels alone, ``whole`` those of all steps, where none needs Python.

    ``find`` says in whose memory a tensor is, and how many bytes behind its first.
    """

    def __init__(
        self, steps: Sequence[Step], natives: Mapping[str, NativeCall] | None, find: Callable[[str], tuple[str, int]]
    ) -> None:
        self._natives, self._find = natives, find
        #: places of tensors, by the roots whose memory they are in; and values that are the same in every call
        self.slots: dict[str, list[Slot]] = {}
        self.fixed: list[tuple[int, int]] = []
        self.kernels: list[Row] = []
        self.whole: list[Row] = []
        self.count = 0
        self._keeps: list[Any] = [natives]
        last = {find(name)[0]: n for n, step in enumerate(steps) for name in self._tensors(step)}
        results: dict[str, Row] = {}
        for n, step in enumerate(steps):
            if isinstance(step, Kernel):
                self.kernels.append(self._kernel(step))
                self.whole.append(self.kernels[-1])
            elif natives is not None:
                self.whole.append(self._call(step, natives[step.name]))
                results[step.outputs[0] or ""] = self.whole[-1]
            done = [name for name in results if last.get(name, n) <= n]
            self.whole += [self._release(results.pop(name)) for name in done]
        if natives is None:
            self.whole = []
        for row in self.whole:
            if isinstance(row.step, Opaque):
                self._hand_over(row, self.slots.get(row.step.outputs[0] or "", []))

    def _tensors(self, step: Step) -> tuple[str, ...]:
        if isinstance(step, Kernel):
            return step.tensors
        return () if self._natives is None else self._natives[step.name].tensors

    def _kernel(self, kernel: Kernel) -> Row:
        start, first = self.count, self.count + len(kernel.tensors)
        loaded: LoadedKernel = kernel.code.loaded
        self._place(kernel.tensors, start)
        types = loaded.params[len(kernel.tensors) :]
        for n, (dtype, value) in enumerate(zip(types, kernel.fixed), first):
            self.fixed.append((n, int(value) if dtype is None else scalar_bits(dtype, value)))
        self.count = start + len(loaded.params) + 1
        return Row(loaded.address, start, kernel)

    def _call(self, node: Opaque, native: NativeCall) -> Row:
        start, first = self.count, self.count + len(ROW)
        self.fixed.append((start, native.call))
        self._place(native.tensors, first)
        self.count = first + len(native.tensors)
        return Row(native.address, start, node)

    def _place(self, tensors: Sequence[str], first: int) -> None:
        for place, name in enumerate(tensors, first):
            root, offset = self._find(name)
            self.slots.setdefault(root, []).append(Slot(place, offset))

    def _release(self, made: Row) -> Row:
        """A row that gives the result of a call back."""
        assert self._natives is not None
        assert isinstance(made.step, Opaque)
        start, self.count = self.count, self.count + 1
        self.fixed.append((start, made.start - start))
        return Row(self._natives[made.step.name].release, start, None)

    def _hand_over(self, row: Row, readers: Sequence[Slot]) -> None:
        """Tells a call whose slots the address of its result goes to."""
        words = [word for slot in readers for word in (slot.place - row.start, slot.offset)]
        memory = (ctypes.c_int64 * max(len(words), 1))(*words)
        self._keeps.append(memory)
        self.fixed += [(row.start + 2, ctypes.addressof(memory)), (row.start + 3, len(readers))]
