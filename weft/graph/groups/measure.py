"""How long candidates for a group really take, on this machine, where the time model does not decide between them."""

from __future__ import annotations

import contextlib
import functools
import math
import mmap
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.auto.parallel_loops import exchange_seconds
from weft.graph.graph import Call, Edge, Graph, dense_strides
from weft.graph.groups.compile_group import Kernel
from weft.graph.groups.storage import Storage
from weft.graph.groups.take_turns import Sampler
from weft.graph.run.arrays import Arrays, arguments, results_laid_out
from weft.ir.numpy_dtypes import to_numpy
from weft.runtime.arrays import aligned_bytes, describe
from weft.runtime.machine_model import local_machine
from weft.runtime.threads import get_num_threads

with contextlib.suppress(ImportError):  # which Windows has none of
    import resource

#: Runs of a sample until one is not disturbed.
_TRIES = 6
#: Seconds that Python takes to leave a table of kernels for a call and to enter the next; assumed, not measured.
BETWEEN = 15e-6

#: Results up to this size come to lie where one before was, as allocators keep so much; larger ones are given back to
#: the system and their pages are new in every call, which a loop of calls does not show. ResNet-18 for one image
#: (0.8 to 3 MB) had no new pages, VGG-16 (13 MB) and ResNet-18 for eight had ten thousand in a call.
KEPT_BYTES = 4 << 20


def measure_kernel(graph: Graph, storage: Storage, kernel: Kernel) -> Sampler:
    """What gives the seconds of a kernel on zeros in place of its tensors."""
    memory, constants = [], {}
    for name in kernel.tensors:
        if name in graph.constants:
            constants[name] = describe(graph.constants[name]).pointer
            continue
        found = storage.find(name)
        assert found is not None
        strides, edge = found.layout.strides, graph.edges[name]
        reach = 1 + sum((n - 1) * abs(s) for n, s in zip(edge.shape, strides))
        memory.append(aligned_bytes(reach * edge.dtype.itemsize))
    for block in memory:
        block[...] = 0
    blocks = iter(memory)
    tensors = [constants[name] if name in constants else next(blocks).ctypes.data for name in kernel.tensors]
    values = [*tensors, *kernel.fixed]
    return _timed(lambda: (memory, kernel.code.loaded.run(values)))


def measure_call(graph: Graph, call: Call, names: Sequence[str | None], arrays: Arrays) -> Sampler:
    """What gives the seconds of a call of the framework on zeros, in the middle of a graph: its results lie in new
    memory, and are copied where the tensors of these ``names`` lie otherwise."""
    given: dict[str, Any] = {
        name: _zeros(arrays, graph.edges[name]) if name in graph.edges else graph.constants[name]
        for name in call.refs()
    }
    function = arrays.function(call.target)
    args, named = arguments(call, arrays, given.__getitem__)

    def run() -> list[Any]:
        return results_laid_out(graph, names, function(*args, **named), arrays)

    sizes = [getattr(r, "nbytes", 0) for r in run()]
    pages = sum(size for size in sizes if size > KEPT_BYTES) / mmap.PAGESIZE
    # Our loops share out rows; how a library shares out work is not known, and a loop of calls does not show what it
    # then waits for.
    read = sum(edge.count * edge.dtype.itemsize for name, edge in graph.edges.items() if name in given)
    exchange = exchange_seconds(local_machine().model, get_num_threads(), read, sum(sizes))
    return _timed(run, BETWEEN + pages * _page_seconds() + exchange)


@functools.cache
def _page_seconds() -> float:
    """What the first touch of a page costs."""
    count = 1024
    with mmap.mmap(-1, count * mmap.PAGESIZE) as memory:
        start = time.perf_counter()
        memory[:: mmap.PAGESIZE] = bytes(count)
        return (time.perf_counter() - start) / count


def _zeros(arrays: Arrays, edge: Edge) -> Any:
    strides = edge.strides or dense_strides(edge.shape)
    memory = aligned_bytes((1 + sum((n - 1) * s for n, s in zip(edge.shape, strides))) * to_numpy(edge.dtype).itemsize)
    memory[...] = np.uint8(0)
    return arrays.over(memory, 0, edge, strides)


def _timed(run: Callable[[], Any], more: float = 0.0) -> Sampler:
    """Seconds of a run, and ``more``; one run before is not counted, nor is one during which others took a core."""
    run()

    def sample() -> float:
        least = math.inf
        for _ in range(_TRIES):
            switches, start = _switches(), time.perf_counter()
            run()
            least = min(least, time.perf_counter() - start)
            if _switches() == switches:
                break
        return least + more

    return sample


def _switches() -> int:
    """How often a thread of this process has had to leave its core to others."""
    with contextlib.suppress(NameError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    return 0
