"""How long candidates for a group really take, on this machine, where the time model does not decide between them."""

from __future__ import annotations

import functools
import mmap
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.graph.graph import Call, Edge, Graph, dense_strides
from weft.graph.groups.compile_group import Kernel
from weft.graph.groups.storage import Storage
from weft.graph.run.arrays import Arrays, arguments
from weft.ir.numpy_dtypes import to_numpy
from weft.runtime.arrays import aligned_bytes

#: Runs of which the quickest counts, and seconds after which no further one is begun.
_RUNS, _ENOUGH = 5, 0.05
#: Seconds that Python takes to leave a table of kernels for a call and to enter the next; assumed, not measured.
BETWEEN = 15e-6


def measure_kernel(graph: Graph, storage: Storage, kernel: Kernel) -> float:
    """Seconds of a kernel on zeros in place of its tensors."""
    memory = []
    for name in kernel.tensors:
        found = storage.find(name)
        assert found is not None
        strides, edge = found.layout.strides, graph.edges[name]
        reach = 1 + sum((n - 1) * abs(s) for n, s in zip(edge.shape, strides))
        memory.append(aligned_bytes(reach * edge.dtype.itemsize))
    for block in memory:
        block[...] = 0
    values = [*(block.ctypes.data for block in memory), *kernel.fixed]
    return _quickest(lambda: kernel.code.loaded.run(values))


def measure_call(graph: Graph, call: Call, arrays: Arrays) -> float:
    """Seconds of a call of the framework on zeros, in the middle of a graph: its results lie in new memory."""
    given: dict[str, Any] = {name: _zeros(arrays, graph.edges[name]) for name in call.refs()}
    function = arrays.function(call.target)
    args, named = arguments(call, arrays, given.__getitem__)
    made = function(*args, **named)
    results = made if isinstance(made, (tuple, list)) else (made,)
    pages = sum(getattr(r, "nbytes", 0) for r in results) / mmap.PAGESIZE
    return _quickest(lambda: function(*args, **named)) + BETWEEN + pages * _page_seconds()


@functools.cache
def _page_seconds() -> float:
    """What the first touch of a page costs: allocators give memory back, and a loop of calls does not show it."""
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


def _quickest(run: Callable[[], Any]) -> float:
    run()
    best, spent = float("inf"), 0.0
    for _ in range(_RUNS):
        start = time.perf_counter()
        run()
        taken = time.perf_counter() - start
        best, spent = min(best, taken), spent + taken
        if spent > _ENOUGH:
            break
    return best
