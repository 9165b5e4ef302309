"""The order of work in a pipeline of devices: for each rank a list of tasks, which the simulator and the executor read.

Stages are dealt out in turn: rank ``r`` of ``p`` has stages ``r``, ``p + r``, ``2p + r`` …, its chunks 0, 1, 2 ….
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from weft.ir.errors import ArgumentError

#: forward; backward (all of it, or the gradient of what came in); the gradient of weights where it is apart
TaskKind: TypeAlias = Literal["forward", "backward", "weights"]
ScheduleName: TypeAlias = Literal["gpipe", "1f1b", "interleaved", "zero-bubble"]


class Task(NamedTuple):
    """A pass of one micro-batch through one chunk of a rank's layers."""

    kind: TaskKind
    chunk: int
    micro: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """What each of ``len(tasks)`` ranks does, in order; ``chunks`` stages lie on each rank."""

    name: ScheduleName
    chunks: int
    micro_batches: int
    tasks: tuple[tuple[Task, ...], ...]

    @property
    def ranks(self) -> int:
        return len(self.tasks)


def make_schedule(name: ScheduleName, ranks: int, micro_batches: int, chunks: int = 1) -> Schedule:
    """The schedule of that name for so many ranks, micro-batches, and chunks of layers on each rank."""
    if ranks < 1 or micro_batches < 1 or chunks < 1:
        raise ArgumentError(
            f"a schedule of {ranks} ranks, {micro_batches} micro-batches and {chunks} chunks has no work"
        )
    if name != "interleaved" and chunks != 1:
        raise ArgumentError(
            f"the schedule {name} has one chunk of layers on a rank, not {chunks}", help='use "interleaved"'
        )
    if name == "interleaved" and chunks > 1 and micro_batches % ranks:
        raise ArgumentError(
            f"{micro_batches} micro-batches do not divide over {ranks} ranks",
            why="the interleaved schedule runs each chunk for as many micro-batches as there are ranks",
            help=f"use {-(-micro_batches // ranks) * ranks} micro-batches, or 1f1b",
        )
    makers = {"gpipe": _gpipe, "1f1b": _one_by_one, "zero-bubble": _zero_bubble}
    if name == "interleaved" and chunks > 1:
        made = [_interleaved(ranks, rank, micro_batches, chunks) for rank in range(ranks)]
    else:
        make = makers["1f1b" if name == "interleaved" else name]
        made = [make(ranks, rank, micro_batches) for rank in range(ranks)]
    return Schedule(name, chunks, micro_batches, tuple(map(tuple, made)))


def _gpipe(ranks: int, rank: int, count: int) -> list[Task]:
    """All forward, then all backward in the opposite order."""
    forward = [Task("forward", 0, m) for m in range(count)]
    return forward + [Task("backward", 0, m) for m in reversed(range(count))]


def _one_by_one(ranks: int, rank: int, count: int) -> list[Task]:
    """As many forward as the pipeline is deep from here, then one forward, one backward, in turn."""
    ahead = min(ranks - rank - 1, count)
    order = [Task("forward", 0, m) for m in range(ahead)]
    for done in range(count):
        if ahead + done < count:
            order.append(Task("forward", 0, ahead + done))
        order.append(Task("backward", 0, done))
    return order


def _zero_bubble(ranks: int, rank: int, count: int) -> list[Task]:
    """One forward, one backward in turn; gradients of weights ``rank`` micro-batches later, in what would be idle time.

    No rank holds more micro-batches than with 1F1B by more than that delay (ZB-H1).
    """
    order, waiting = [], 0
    for task in _one_by_one(ranks, rank, count):
        order.append(task)
        if task.kind == "backward" and task.micro >= rank:
            order.append(Task("weights", 0, waiting))
            waiting += 1
    return order + [Task("weights", 0, m) for m in range(waiting, count)]


def _interleaved(ranks: int, rank: int, count: int, chunks: int) -> list[Task]:
    """Megatron's: a chunk for as many micro-batches as there are ranks, then the next one."""
    total, together = count * chunks, ranks * chunks

    def task(kind: TaskKind, number: int) -> Task:
        group, within = divmod(number, together)
        chunk, micro = divmod(within, ranks)
        return Task(kind, chunk if kind == "forward" else chunks - 1 - chunk, group * ranks + micro)

    ahead = min((ranks - rank - 1) * 2 + (chunks - 1) * ranks, total)
    order = [task("forward", n) for n in range(ahead)]
    for done in range(total):
        if ahead + done < total:
            order.append(task("forward", ahead + done))
        order.append(task("backward", done))
    return order
