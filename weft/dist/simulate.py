"""A schedule played as events: each rank takes its tasks in order, each when what it waits for has come."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from weft.dist.schedule import Schedule, Task
from weft.ir.errors import InternalError


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds of one chunk of layers and one micro-batch, and of sending what passes between stages."""

    forward: float
    backward: float
    weights: float = 0.0
    send: float = 0.0


class Event(NamedTuple):
    rank: int
    task: Task
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """What ran where and when."""

    events: tuple[Event, ...]
    ranks: int

    @property
    def end(self) -> float:
        return max(e.end for e in self.events)

    @property
    def busy(self) -> list[float]:
        """For each rank the seconds that it worked."""
        busy = [0.0] * self.ranks
        for e in self.events:
            busy[e.rank] += e.end - e.start
        return busy

    @property
    def bubble(self) -> float:
        """Idle time over working time of the rank that works most."""
        most = max(self.busy)
        return (self.end - most) / most


def simulate(schedule: Schedule, times: StageTimes) -> Timeline:
    """When every task of the schedule runs; what it waits for is the task before it in the pipeline."""
    return _Play(schedule, times).run()


class _Play:
    def __init__(self, schedule: Schedule, times: StageTimes) -> None:
        self.schedule, self.times = schedule, times
        self.stages = schedule.ranks * schedule.chunks
        self.ended: dict[tuple[str, int, int], float] = {}
        self.waiting: dict[tuple[str, int, int], int] = {}
        self.next, self.free = [0] * schedule.ranks, [0.0] * schedule.ranks
        self.events: list[Event] = []

    def run(self) -> Timeline:
        ready = deque(range(self.schedule.ranks))
        while ready:
            self._advance(ready.popleft(), ready)
        if len(self.events) != sum(map(len, self.schedule.tasks)):
            stuck = {r: t[self.next[r]] for r, t in enumerate(self.schedule.tasks) if self.next[r] < len(t)}
            raise InternalError(f"the schedule {self.schedule.name} waits for itself", why=f"{stuck} never start")
        return Timeline(tuple(self.events), self.schedule.ranks)

    def _advance(self, rank: int, ready: deque[int]) -> None:
        """Runs the tasks of a rank until one has to wait for another rank."""
        tasks = self.schedule.tasks[rank]
        while self.next[rank] < len(tasks):
            task = tasks[self.next[rank]]
            stage = task.chunk * self.schedule.ranks + rank
            before = self._before(task, stage)
            if before is not None and before not in self.ended:
                self.waiting[before] = rank
                return
            came = 0.0 if before is None else self.ended[before] + self._sending(before[1], stage)
            start = max(self.free[rank], came)
            end = start + getattr(self.times, task.kind)
            self.events.append(Event(rank, task, start, end))
            self.free[rank], self.ended[task.kind, stage, task.micro] = end, end
            self.next[rank] += 1
            if (waiter := self.waiting.pop((task.kind, stage, task.micro), None)) is not None:
                ready.append(waiter)

    def _before(self, task: Task, stage: int) -> tuple[str, int, int] | None:
        if task.kind == "forward":
            return ("forward", stage - 1, task.micro) if stage else None
        if task.kind == "weights":
            return "backward", stage, task.micro
        return ("forward", stage, task.micro) if stage == self.stages - 1 else ("backward", stage + 1, task.micro)

    def _sending(self, source: int, stage: int) -> float:
        return 0.0 if source % self.schedule.ranks == stage % self.schedule.ranks else self.times.send
