"""torch's streams, events and recording of CUDA graphs, as executables use them."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from weft.graph.torch_edge import torch
from weft.runtime.executor import ALIGNMENT, Executor


class Streams:
    """The streams of one GPU: which is torch's current one, and an order among those that share memory of ours."""

    def __init__(self, executor: Executor) -> None:
        package = torch()
        self.index = int(executor.name.partition(":")[2])
        self._several = package.cuda.device_count() > 1
        self._current = package._C._cuda_getCurrentRawStream
        self._last: int | None = None
        self._event: Any = None

    def device(self) -> Any:
        """This GPU is torch's current one inside."""
        return torch().cuda.device(self.index) if self._several else contextlib.nullcontext()

    def current(self) -> int:
        return int(self._current(self.index))

    def is_recording(self) -> bool:
        """Whether the caller records a graph of its own."""
        return bool(torch().cuda.is_current_stream_capturing())

    def enter(self, memory: Any) -> int:
        """The current stream, after what was done with ``memory`` on others."""
        stream = self.current()
        if self._last is not None and stream != self._last:
            package = torch()
            now = package.cuda.current_stream(self.index)
            if self._event is not None:
                now.wait_event(self._event)
            memory.record_stream(now)
        return stream

    def leave(self, stream: int) -> None:
        """What `enter` began is on its way."""
        if self._event is None:
            self._event = torch().cuda.Event()
        self._event.record(torch().cuda.current_stream(self.index))
        self._last = stream

    def wait(self) -> None:
        """Until all of it is done."""
        if self._event is not None:
            self._event.synchronize()

    def aligned(self, array: Any) -> Any:
        """``array``, or a copy that begins where code counts on."""
        return array if array.data_ptr() % ALIGNMENT == 0 else array.clone()

    def copied(self, array: Any) -> Any:
        """A copy with the same strides."""
        package = torch()
        made = package.empty_strided(array.shape, array.stride(), dtype=array.dtype, device=array.device)
        return made.copy_(array)


class Recording:
    """A CUDA graph of what is done inside ``with``, on a stream of its own; memory that torch allocates there is
    kept for it."""

    def __init__(self) -> None:
        package = torch()
        self._graph = package.cuda.CUDAGraph()
        self.launch = self._graph.replay

    def __enter__(self) -> int:
        package = torch()
        package.cuda.synchronize()
        self._stream = package.cuda.Stream()
        self._inside = package.cuda.stream(self._stream)
        self._inside.__enter__()
        self._graph.capture_begin(capture_error_mode="thread_local")
        return int(self._stream.cuda_stream)

    def __exit__(self, *error: Any) -> None:
        try:
            self._graph.capture_end()
        except Exception:
            if error[0] is None:
                raise
        finally:
            self._inside.__exit__(*error)

    def reset(self) -> None:
        self._graph.reset()


@functools.cache
def is_recordable(target: str) -> bool:
    """Whether an operator can be part of a CUDA graph: it neither draws random numbers nor waits for values."""
    found: Any = torch().ops
    for part in target.split("."):
        found = getattr(found, part)
    kinds = torch().Tag
    bad = {kinds.nondeterministic_seeded, kinds.data_dependent_output, kinds.dynamic_output_shape}
    return not bad & set(getattr(found, "tags", ()))
