"""How long candidates for a group really take on a GPU: many runs recorded as one CUDA graph, on random values.

Runs go through several sets of arrays, so that what one leaves in the second cache is not what the next one reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from weft.graph.from_torch.arrays import torch_type
from weft.graph.from_torch.cuda import Recording, Streams
from weft.graph.from_torch.edge import torch
from weft.graph.graph import Call, Edge, Graph, Shape, dense_strides
from weft.graph.groups.compile_group import Kernel
from weft.graph.groups.storage import Storage
from weft.graph.run.arrays import Arrays, arguments, results_laid_out
from weft.runtime.executor import Executor

#: A tensor and its strides.
Laid = tuple[Edge, Shape]
#: Runs in a recorded graph, how often it is launched, and bytes of arrays that runs go through.
_RUNS, _LAUNCHES, _ROTATED = 16, 5, 128 << 20
#: Runs that are enough of what takes long, and seconds beyond which no more are recorded: a call of a library takes the
#: host up to a tenth of a millisecond, so that much says nothing.
_FEWEST, _ENOUGH = 3, 4e-3


def measure_kernel(graph: Graph, storage: Storage, kernel: Kernel, executor: Executor) -> float:
    """Seconds of a kernel."""
    streams, loaded = Streams(executor), kernel.code.loaded
    edges = [graph.edges[name] for name in kernel.tensors]
    found = [storage.find(name) for name in kernel.tensors]
    strides = [f.layout.strides for f in found if f is not None]
    sets = _sets(list(zip(edges, strides)), executor.name)
    plan = loaded.plan([*(0 for _ in edges), *kernel.fixed])
    scratch = torch().empty(max(plan.scratch_bytes, 1), dtype=torch().uint8, device=executor.name)

    def run(arrays: Sequence[Any]) -> None:
        values = [*(a.data_ptr() for a in arrays), *kernel.fixed]
        loaded.start(plan, values, streams.current(), scratch.data_ptr())

    return _seconds(run, sets, executor)


def measure_call(graph: Graph, call: Call, names: Sequence[str | None], arrays: Arrays) -> float:
    """Seconds of a call of the framework, and of copying results that lie otherwise than these ``names``."""
    edges, run = _caller(graph, call, names, arrays)
    return _seconds(run, _sets(edges, arrays.processor.executor.name), arrays.processor.executor)


def call_once(calls: Sequence[tuple[Graph, Call]], arrays: Arrays) -> None:
    """For what libraries set up at first calls, in this thread: cuDNN's plans are found anew in each. Calls that fail
    are passed over."""
    for graph, call in calls:
        with contextlib.suppress(Exception):
            edges, run = _caller(graph, call, (), arrays)
            run(_sets(edges, arrays.processor.executor.name, most=1)[0])


def _caller(
    graph: Graph, call: Call, made: Sequence[str | None], arrays: Arrays
) -> tuple[list[Laid], Callable[[Sequence[Any]], None]]:
    """What a call takes, and what calls it."""
    names = list(dict.fromkeys(call.refs()))
    edges = [graph.edges[name] for name in names]
    function = arrays.function(call.target)

    def run(given: Sequence[Any]) -> None:
        args, named = arguments(call, arrays, dict(zip(names, given)).__getitem__)
        results_laid_out(graph, made, function(*args, **named), arrays)

    return [(e, e.strides or dense_strides(e.shape)) for e in edges], run


def _sets(edges: Sequence[Laid], device: str, most: int = _RUNS) -> list[list[Any]]:
    size = sum(e.nbytes for e, _ in edges)
    count = max(1, min(most, _ROTATED // max(size, 1)))
    return [[_values(e, s, device) for e, s in edges] for _ in range(count)]


def _values(edge: Edge, strides: tuple[int, ...], device: str) -> Any:
    """Random numbers; whole numbers are zero, for they may be subscripts."""
    reach = 1 + sum((n - 1) * abs(s) for n, s in zip(edge.shape, strides))
    kind = torch_type(edge.dtype)
    flat = torch().randn(reach, device=device).to(kind) if edge.dtype.is_float else None
    flat = torch().zeros(reach, dtype=kind, device=device) if flat is None else flat
    return flat.as_strided(edge.shape, strides)


def _seconds(run: Callable[[Sequence[Any]], None], sets: Sequence[Sequence[Any]], executor: Executor) -> float:
    """The median over launches of a graph of many runs."""
    run(sets[0])  # what libraries set up when first called
    once = _span(lambda: run(sets[-1]))
    count = max(_FEWEST, min(_RUNS, int(_ENOUGH / max(once, 1e-9))))
    recording = Recording(Streams(executor).index)
    with recording:
        for n in range(count):
            run(sets[n % len(sets)])
    recording.launch()
    times = sorted(_span(recording.launch) / count for _ in range(_LAUNCHES))
    recording.reset()
    return times[len(times) // 2]


def _span(work: Callable[[], None]) -> float:
    """Seconds of the GPU, and of the host where that is slower."""
    before, after = (torch().cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    work()
    after.record()
    after.synchronize()
    return float(before.elapsed_time(after)) / 1e3
