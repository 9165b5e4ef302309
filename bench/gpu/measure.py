"""Times by events on the device: contenders in turns, many calls between two events, medians.

Arguments are drawn several times, so that what one call leaves in the second cache is not what the next one reads.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.gpu.workloads import Workload

#: Bytes of arguments that are gone through before any comes again: some times the second cache.
ROTATED = 256 << 20
#: Seconds that the calls between two events take, about, and how often that is repeated.
SPAN, ROUNDS = 0.004, 15
#: Calls of a CUDA graph.
RECORDED = 12


@dataclass(frozen=True)
class Result:
    """Microseconds of each contender, the error against float64, seconds from the definition to the first result."""

    workload: Workload
    times: dict[str, float]
    error: float
    first: float
    failures: dict[str, str]


def measure(torch: Any, workload: Workload, *, compiled: bool, graphs: bool = False) -> Result:
    """``graphs``: calls are launched by CUDA graphs, so that no contender's host time counts."""
    sets = _argument_sets(torch, workload)
    start = time.perf_counter()
    op = workload.op()
    result = op(*sets[0])
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    failures: dict[str, str] = {}
    error = _error(torch, workload, sets[0], result)
    if not error <= workload.tolerance:
        failures["weft"] = f"error {error:.2g} is more than {workload.tolerance:.2g}"
    contenders: dict[str, Callable[..., Any]] = {
        "weft": op,
        "eager": lambda *args: workload.torch_run(torch, *args),
    }
    if compiled and workload.compiled:
        torch.compiler.reset()  # or it gives up after some programs
        contenders["compiled"] = torch.compile(contenders["eager"], dynamic=False)
    for name in [n for n in contenders if n != "weft"]:
        try:
            for args in sets:
                contenders[name](*args)
            torch.cuda.synchronize()
        except Exception as problem:  # a contender that cannot do it is left out, and told
            failures[name] = f"{type(problem).__name__}: {str(problem)[:200]}"
            del contenders[name]
    timed = graph_times if workload.recorded and (graphs or workload.graphs) else times_of
    return Result(workload, timed(torch, contenders, sets), error, first, failures)


def _argument_sets(torch: Any, workload: Workload) -> list[Sequence[Any]]:
    first = workload.make(torch)
    size = sum(a.numel() * a.element_size() for a in first if hasattr(a, "numel"))
    return [first, *(workload.make(torch) for _ in range(min(15, ROTATED // max(1, size))))]


def _error(torch: Any, workload: Workload, args: Sequence[Any], result: Any) -> float:
    """How far the result is from that of float64 arguments, as a part of its size; of several the farthest."""
    wide = [a.double() if hasattr(a, "is_floating_point") and a.is_floating_point() else a for a in args]
    want = (workload.exact or workload.torch_run)(torch, *wide)
    if isinstance(want, tuple):
        return max(_distance(torch, one, other) for one, other in zip(want, result, strict=True))
    return _distance(torch, want, result)


def _distance(torch: Any, want: Any, result: Any) -> float:
    if not want.is_floating_point():
        return float((want != result.to(want.dtype)).double().mean())
    got = result.double()
    if got.shape != want.shape or not bool(torch.isfinite(got).all()):
        return float("inf")
    return float((got - want).norm() / want.norm().clamp_min(1e-30))


def times_of(torch: Any, contenders: dict[str, Callable[..., Any]], sets: Sequence[Sequence[Any]]) -> dict[str, float]:
    """Median microseconds of a call of each."""
    counts = {name: _calls(torch, run, sets) for name, run in contenders.items()}
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, run in contenders.items():
            found[name].append(_span(torch, run, sets, counts[name]) / counts[name])
    return {name: statistics.median(times) for name, times in found.items()}


def graph_times(
    torch: Any, contenders: dict[str, Callable[..., Any]], sets: Sequence[Sequence[Any]]
) -> dict[str, float]:
    """As `times_of`, of calls that were recorded: what the host does for each is not in it."""
    graphs = {name: _recorded(torch, run, sets) for name, run in contenders.items()}
    times = times_of(torch, {name: graph.replay for name, (graph, _) in graphs.items()}, [()])
    return {name: t / RECORDED for name, t in times.items()}


def _recorded(torch: Any, run: Callable[..., Any], sets: Sequence[Sequence[Any]]) -> tuple[Any, list[Any]]:
    """A CUDA graph of some calls, and what they return, which lives as long as it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for args in sets:  # libraries choose among their algorithms the first time
            run(*args)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [run(*sets[n % len(sets)]) for n in range(RECORDED)]
    return graph, results


def _calls(torch: Any, run: Callable[..., Any], sets: Sequence[Sequence[Any]]) -> int:
    _span(torch, run, sets, 5)
    each = _span(torch, run, sets, 5) / 5
    return max(3, min(400, round(SPAN * 1e6 / max(each, 1.0))))


def _span(torch: Any, run: Callable[..., Any], sets: Sequence[Sequence[Any]], count: int) -> float:
    """Microseconds on the device for ``count`` calls in a row."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for n in range(count):
        run(*sets[n % len(sets)])
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e3


def copy_bandwidth(torch: Any) -> float:
    """Bytes a second that a copy on the device reads and writes."""
    source = [torch.randn(16384, 4096, device="cuda").to(torch.bfloat16) for _ in range(2)]
    target = torch.empty_like(source[0])
    times = times_of(torch, {"copy": target.copy_}, [[x] for x in source])
    return 2 * target.numel() * target.element_size() / (times["copy"] * 1e-6)
