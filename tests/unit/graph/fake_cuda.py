"""A GPU that is none: kernels are the CPU's, and a recorded graph is a tape of calls with the arrays they had.

So all of an executable for GPUs but the driver runs here: what is in which memory, what is copied, what is recorded.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from weft.graph.from_torch.arrays import TorchArrays
from weft.graph.run import cuda_executable, cuda_fast
from weft.graph.run.cuda_processor import Cuda
from weft.runtime.executor import Executor

#: Recordings by their handles, and how often machine code asked the driver for what.
recordings: dict[int, Any] = {}
asked: Counter[str] = Counter()
#: The tape that calls go to at the moment; as on a GPU they do nothing else then.
tapes: list[list[Callable[[], None]]] = []


class _Loaded:
    def __init__(self, kernel: Any) -> None:
        self._kernel, self.params = kernel, kernel.params

    def run(self, values: Sequence[Any]) -> None:
        self._kernel.run(values)

    def plan(self, values: Sequence[Any]) -> Any:
        return SimpleNamespace(scratch_bytes=0)

    def start(self, plan: Any, values: Sequence[Any], stream: int, scratch: int) -> None:
        if tapes:
            tapes[-1].append(lambda: self._kernel.run(values))
        else:
            self._kernel.run(values)

    def record(self, plan: Any, values: Sequence[Any], stream: int, scratch: int) -> _Patched:
        now = _Patched(values)
        tapes[-1].append(lambda: self._kernel.run([*now.slots, *values[len(now.slots) :]]))
        return now


class _Patched:
    """Addresses are in memory that machine code writes too; a launch reads them there."""

    has_maps = False

    def __init__(self, values: Sequence[Any]) -> None:
        addresses = [v for v in values if isinstance(v, int)]
        self.slots = (ctypes.c_int64 * len(addresses))(*addresses)
        self.nodes = [(1, 2)]
        self.changes = 0

    def slot_address(self, place: int) -> int:
        return ctypes.addressof(self.slots) + 8 * place

    def change(self, handle: int, addresses: dict[int, int]) -> None:
        for place, address in addresses.items():
            self.slots[place] = address


class _Marks:
    def __init__(self, steps: int) -> None:
        self._times: list[int] = []

    def mark(self) -> None:
        self._times.append(time.perf_counter_ns())

    def nanoseconds(self) -> list[int]:
        return [t - self._times[0] for t in self._times]


class _Executor(Executor):
    def load(self, *args: Any) -> Any:
        return _Loaded(super().load(*args))


def _a_second(kernel: Any, fast: bool) -> tuple[float, str]:
    return 1.0, "memory"


class FakeCuda(Cuda):
    """Code is the CPU's; ``library`` names calls that are taken for faster than ours."""

    def __init__(self, *library: str) -> None:
        super().__init__(_Executor())
        self._library = library

    @property
    def machine(self) -> Any:
        return self.executor.machine("cpu")

    @property
    def key(self) -> str:
        return " ".join(("fake", *self._library))

    def estimate(self) -> Any:
        return _a_second

    bytes_per_second = 1e9
    tasks_for_workers = 99  # the CPU's code is made sooner than a process is started

    def candidates(self, group: Any, core: Any) -> list[Any]:
        return [group]

    def library_seconds(self, program: Any) -> float:
        return 1.0

    def measure_kernel(self, graph: Any, storage: Any, kernel: Any) -> Any:
        return lambda: 10.0  # the library's call, and then formulas of an expected second, are less

    def measure_call(self, graph: Any, call: Any, names: Any, arrays: Any) -> Any:
        return lambda: 0.1 if call.target in self._library else 100.0

    def epilogue_seconds(self, program: Any) -> float:
        return 0.0


class FakeArrays(TorchArrays):
    def function(self, target: str) -> Callable[..., Any]:
        found = super().function(target)

        def call(*args: Any, **named: Any) -> Any:
            made = found(*args, **named)
            if tapes:
                results = made if isinstance(made, (tuple, list)) else [made]
                tapes[-1].append(lambda: _again(results, found(*args, **named)))
            return made

        return call

    def arranged(self, array: Any, edge: Any, strides: Any) -> Any:
        made = super().arranged(array, edge, strides)
        if tapes:  # a copy is work of the GPU like any other
            tapes[-1].append(lambda: _again([made], array))
        return made


def _again(results: Sequence[Any], made: Any) -> None:
    for target, value in zip(results, made if isinstance(made, (tuple, list)) else [made]):
        if isinstance(target, torch.Tensor):
            target.copy_(value)


class _Recording:
    is_open = True

    def __init__(self, index: int) -> None:
        self.tape: list[Callable[[], None]] = []
        self.handle = id(self)
        recordings[self.handle] = self

    def __enter__(self) -> int:
        tapes.append(self.tape)
        return 0

    def __exit__(self, *error: Any) -> None:
        tapes.remove(self.tape)

    def launch(self) -> None:
        for call in self.tape:
            call()

    def reset(self) -> None:
        self.tape.clear()


class _Streams(cuda_executable.Streams):
    def __init__(self, executor: Executor) -> None:
        self.index, self._last = 0, None

    def device(self) -> Any:
        return contextlib.nullcontext()

    def current(self) -> int:
        return 0

    def is_recording(self) -> bool:
        return False

    def enter(self, memory: Any) -> int:
        return 0

    def wait(self) -> None:
        pass

    @property
    def asked(self) -> int:
        return _FUNCTIONS["ask"][0]

    def memory(self, dtype: Any = None, shape: Any = ()) -> None:
        return None


def _ask(kind: int, device: int, stream: int) -> int:
    ctypes.c_int64.from_address(stream).value = 0
    return 0


def _copy(target: int, source: int, size: int, stream: int) -> int:
    ctypes.memmove(target, source, size)
    return 0


def _function(name: str, count: int, function: Callable[..., int]) -> tuple[int, Any]:
    def call(*args: int) -> int:
        asked[name] += 1
        return function(*args)

    made = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_int64] * count)(call)
    return ctypes.cast(made, ctypes.c_void_p).value or 0, made


_FUNCTIONS = {
    "ask": _function("ask", 3, _ask),
    "launch": _function("launch", 2, lambda graph, stream: recordings[graph].launch() or 0),
    "change": _function("change", 3, lambda graph, node, params: 0),
    "copy": _function("copy", 4, _copy),
    "is_capturing": _function("is_capturing", 2, lambda stream, found: 0),
}


def _driver_functions() -> dict[str, int]:
    return {name: address for name, (address, _) in _FUNCTIONS.items() if name != "ask"}


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executables record tapes, on streams that are none."""
    monkeypatch.setattr(cuda_executable, "Recording", _Recording)
    monkeypatch.setattr(cuda_executable, "Marks", _Marks)
    monkeypatch.setattr(cuda_executable, "Streams", _Streams)
    monkeypatch.setattr(cuda_fast, "driver_functions", _driver_functions)
    asked.clear()
