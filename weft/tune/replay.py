"""Strategies compared on measurements that are there already, without the machine they were made on.

The candidates of a task are those of its records. A strategy draws from them, finds those near to one by the distance
of their numbers, and is told what was measured: what it finds in so many trials is known in milliseconds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import exp, inf, log
from random import Random

from weft.ir.errors import Error
from weft.runtime.records import Measurement, Task
from weft.tune.point import Point, distance
from weft.tune.strategies import STRATEGIES, find_strategy
from weft.tune.trace_space import vector_of

#: Records of a task from which on a comparison says something.
_ENOUGH = 8
_NEAREST = 6


class RecordedSpace:
    """The candidates of one task that were measured, in the order of their traces."""

    name = "recorded"

    def __init__(self, times: Mapping[str, float]) -> None:
        self.times = dict(times)
        self.refused: Counter[str] = Counter()
        self._points = [Point("", vector_of(trace), trace) for trace in sorted(times)]

    def points(self) -> Iterator[Point]:
        return iter(self._points)

    def draw(self, rng: Random) -> Point | None:
        return rng.choice(self._points)

    def near(self, point: Point, rng: Random) -> Point | None:
        others = [p for p in self._points if p.trace != point.trace]
        return rng.choice(sorted(others, key=lambda p: _apart(point, p))[:_NEAREST]) if others else None

    def cross(self, a: Point, b: Point, rng: Random) -> Point | None:
        others = [p for p in self._points if p.trace not in (a.trace, b.trace)]
        return min(others, key=lambda p: _apart(a, p) + _apart(b, p), default=None)


def _apart(a: Point, b: Point) -> float:
    """By numbers where the steps are alike, else by how many lines differ, which is further."""
    near = distance(a, b)
    return near if near < inf else 100.0 + len({*a.trace.splitlines()} ^ {*b.trace.splitlines()})


def recorded_times(measured: Iterable[Measurement]) -> dict[Task, dict[str, float]]:
    """Seconds of each trace of each task; infinite where it has none."""
    found: dict[Task, dict[str, float]] = defaultdict(dict)
    for m in measured:
        if m.ended not in ("refused", "automatic", "best"):
            try:
                vector_of(m.trace)
            except Error:
                continue  # a record of a trace that does not read
            found[m.task][m.trace] = inf if m.median is None else m.median
    return {task: times for task, times in found.items() if len(times) >= _ENOUGH and min(times.values()) < inf}


def replay(times: Mapping[str, float], strategy: str, trials: int, seed: int) -> float:
    """The least time that ``strategy`` finds in so many trials."""
    space = RecordedSpace(times)
    asked = find_strategy(strategy, space, seed, lambda point: 1.0)
    best, least = inf, min(times.values())
    for _ in range(trials):
        point = asked.ask()
        if point is None:
            break
        best = min(best, times[point.trace])
        asked.tell(point, times[point.trace] / least)
    return best


def compare_strategies(measured: Iterable[Measurement], trials: int, seed: int = 0) -> str:
    """A table: each strategy's share of the best speed there is, geometric mean over the tasks."""
    tasks = recorded_times(measured)
    if not tasks:
        return f"no task has {_ENOUGH} measurements yet: tune something first"
    lines = [f"{len(tasks)} tasks, {trials} trials each, seed {seed}"]
    rows = []
    for name in STRATEGIES:
        shares = [min(t.values()) / replay(t, name, trials, seed) for t in tasks.values()]
        rows.append((exp(sum(log(max(s, 1e-3)) for s in shares) / len(shares)), min(shares), name))
    lines += [
        f"{name:10}  {mean:6.3f} of the best recorded, least {least:6.3f}" for mean, least, name in sorted(rows)[::-1]
    ]
    return "\n".join(lines)
