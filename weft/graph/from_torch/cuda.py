"""torch's streams, events and recording of CUDA graphs, as executables use them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from weft.graph.from_torch.edge import torch
from weft.graph.graph import Call, Shape
from weft.ir.dtype import DType
from weft.runtime.cuda_arrays import allocator
from weft.runtime.cuda_driver import ask, driver
from weft.runtime.executor import ALIGNMENT, Executor
from weft.runtime.fastcall_cuda import torch_exchange
from weft.runtime.fastcall_records import DeviceMemory


class Streams:
    """The streams of one GPU: which is torch's current one, and an order among those that share memory of ours."""

    def __init__(self, executor: Executor) -> None:
        package = torch()
        self.index = int(executor.name.partition(":")[2])
        self._several = package.cuda.device_count() > 1
        self._current = package._C._cuda_getCurrentRawStream
        self._last: int | None = None

    @functools.cached_property
    def asked(self) -> int:
        """The function that machine code asks for the current stream; 0 where it cannot."""
        found = None if self._several else torch_exchange(self.index)
        return 0 if found is None else found.stream

    def memory(self, dtype: DType | None = None, shape: Shape = ()) -> DeviceMemory | None:
        """What machine code knows of tensors on this GPU, and how it makes such, where they have a type."""
        found = torch_exchange(self.index)
        make = None if dtype is None else allocator("torch", dtype, shape, self.index)
        return None if found is None else DeviceMemory(self.index, found.framework, ALIGNMENT, 0, make)

    def device(self) -> Any:
        """This GPU is torch's current one inside."""
        return torch().cuda.device(self.index) if self._several else contextlib.nullcontext()

    def current(self) -> int:
        return int(self._current(self.index))

    def is_recording(self) -> bool:
        """Whether the caller records a graph of its own."""
        return bool(torch().cuda.is_current_stream_capturing())

    def enter(self, memory: Any) -> int:
        """The current stream, after what was done with ``memory`` on the one before."""
        stream = self.current()
        if stream != self._last:
            cuda = torch().cuda
            now = cuda.current_stream(self.index)
            if self._last is not None:
                done = cuda.Event()
                done.record(cuda.ExternalStream(self._last, device=self.index))
                now.wait_event(done)
            memory.record_stream(now)
            self._last = stream
        return stream

    def wait(self) -> None:
        """Until the GPU has done all it was given."""
        torch().cuda.synchronize(self.index)

    def aligned(self, array: Any) -> Any:
        """``array``, or a copy that begins where code counts on."""
        return array if array.data_ptr() % ALIGNMENT == 0 else array.clone()

    def copied(self, array: Any) -> Any:
        """A copy with the same strides."""
        package = torch()
        made = package.empty_strided(array.shape, array.stride(), dtype=array.dtype, device=array.device)
        return made.copy_(array)


class Marks:
    """Points in time on the current stream; steps are queued before they run, so that none waits for Python."""

    def __init__(self, steps: int) -> None:
        self._events: list[Any] = []
        torch().cuda._sleep(_CYCLES + steps * _CYCLES_OF_A_STEP)

    def mark(self) -> None:
        event = torch().cuda.Event(enable_timing=True)
        event.record()
        self._events.append(event)

    def nanoseconds(self) -> list[int]:
        """Of all marks since the first."""
        self._events[-1].synchronize()
        return [int(self._events[0].elapsed_time(e) * 1e6) for e in self._events]


#: Cycles of a GPU in which Python starts the first step, which is the slowest, and any other; or more.
_CYCLES, _CYCLES_OF_A_STEP = 4_000_000, 200_000

#: Streams that only recordings use, those free at the moment by GPU. A recorded graph keeps its own: libraries have
#: memory for each stream, which two graphs that run at once must not share.
_free_streams: dict[int, list[int]] = {}


def _take_stream(index: int) -> int:
    """A stream that nobody else uses, as no stream of torch's pool is."""
    try:
        return _free_streams.setdefault(index, []).pop()
    except IndexError:
        return int(ask("cuStreamCreate", driver().CUstream_flags.CU_STREAM_NON_BLOCKING))


class Recording:
    """A CUDA graph of what is done inside ``with``, on a stream of its own; memory that torch allocates there is
    kept for it."""

    def __init__(self, index: int) -> None:
        self._index, self._stream = index, _take_stream(index)
        #: whether what was recorded can be changed: not by a torch that keeps its graphs to itself
        self.is_open = hasattr(torch().cuda.CUDAGraph, "raw_cuda_graph_exec")
        self._graph = torch().cuda.CUDAGraph(**({"keep_graph": True} if self.is_open else {}))
        self.launch: Callable[[], None] = self._graph.replay

    def __enter__(self) -> int:
        cuda = torch().cuda
        cuda.synchronize(self._index)
        self._inside = cuda.stream(cuda.ExternalStream(self._stream, device=self._index))
        self._inside.__enter__()
        cuda.current_blas_handle()  # which a thread's first product would make, and must not while it records
        _clear_workspaces()  # the handle comes with one, which is not the graph's
        self._graph.capture_begin(capture_error_mode="thread_local")
        return self._stream

    def __exit__(self, *error: Any) -> None:
        try:
            self._graph.capture_end()
            if self.is_open:
                self._graph.instantiate()
        except RuntimeError:
            if error[0] is None:
                raise
        finally:
            _clear_workspaces()
            self._inside.__exit__(*error)

    @functools.cached_property
    def handle(self) -> int:
        """What the driver knows the graph by that is launched."""
        return int(self._graph.raw_cuda_graph_exec())

    def reset(self) -> None:
        """Gives back what it has; it is done on the GPU."""
        self._graph.reset()
        _free_streams[self._index].append(self._stream)


def _clear_workspaces() -> None:
    """Memory that cuBLAS has for a stream is its graph's own: made anew inside, and not handed on to others after."""
    clear = getattr(torch()._C, "_cuda_clearCublasWorkspaces", None)
    if clear is not None:
        clear()


def is_recordable(call: Call) -> bool:
    """Whether a call can be part of a CUDA graph: it neither draws random numbers nor waits for values."""
    operator = _operator(call.target)
    kinds = torch().Tag
    bad = {kinds.nondeterministic_seeded, kinds.data_dependent_output, kinds.dynamic_output_shape}
    found = bad & set(getattr(operator, "tags", ()))
    return not found or (found == {kinds.nondeterministic_seeded} and _drops_nothing(operator, call))


def _drops_nothing(operator: Any, call: Call) -> bool:
    """Whether an operator that draws random numbers for dropout alone has none to do."""
    names = [a.name for a in operator._schema.arguments]
    given = {**dict(zip(names, call.args)), **dict(call.named)}
    return "dropout_p" in names and not given.get("dropout_p", 0.0)


@functools.cache
def _operator(target: str) -> Any:
    found: Any = torch().ops
    for part in target.split("."):
        found = getattr(found, part)
    return found
