"""A GPU that is none: kernels are the CPU's, and a recorded graph is a tape of calls with the arrays they had.

So all of an executable for GPUs but the driver runs here: what is in which memory, what is copied, what is recorded.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from weft.graph.from_torch.arrays import TorchArrays
from weft.graph.run import cuda_executable
from weft.graph.run.cuda_processor import Cuda
from weft.runtime.executor import Executor

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
        now = list(values)
        tapes[-1].append(lambda: self._kernel.run(now))
        return _Patched(now)


class _Patched:
    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def change(self, handle: int, addresses: dict[int, int]) -> None:
        for place, address in addresses.items():
            self._values[place] = address


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

    def measure_call(self, graph: Any, call: Any, arrays: Any) -> Any:
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


def _again(results: Sequence[Any], made: Any) -> None:
    for target, value in zip(results, made if isinstance(made, (tuple, list)) else [made]):
        if isinstance(target, torch.Tensor):
            target.copy_(value)


class _Recording:
    is_open, handle = True, 0

    def __init__(self, index: int) -> None:
        self.tape: list[Callable[[], None]] = []

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


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executables record tapes, on streams that are none."""
    monkeypatch.setattr(cuda_executable, "Recording", _Recording)
    monkeypatch.setattr(cuda_executable, "Marks", _Marks)
    monkeypatch.setattr(cuda_executable, "Streams", _Streams)
