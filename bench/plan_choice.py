"""Is the plan that the time model chooses the fastest of its own list? Every plan of a list measured.

    python -m bench.plan_choice
    python -m bench.plan_choice --only matmul conv --random-shapes 7 --most 8 --threads 1 --save plans.json

For each workload of the field bench and each choice in it (a stage with more than one plan) the plans that the model
likes best are applied one after another, all else as chosen, and timed in turns; constants are bound, as there. Told
is how much slower the model's choice is than the fastest, by workload; then how many workloads are within 5 %.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import weft
from bench.field.command import chosen_workloads
from bench.field.peers.weft_itself import arguments, bound, define
from bench.field.statistics import geometric_mean, median
from bench.field.workloads import Workload
from weft.auto.plan import Ranker, rank_plans
from weft.auto.scheduler import auto_schedule
from weft.target.cpu.host import host_machine

#: How near to the best of its list a choice is as good as that.
NEAR = 1.05
#: Plans expected to take so many times as long as the chosen one are not measured.
HOPELESS = 8.0


@dataclass(frozen=True)
class Choice:
    """One list: the plans in the model's order with what it expected (ms) and what was measured."""

    workload: str
    subject: str
    plans: tuple[str, ...]
    expected: tuple[float, ...]
    measured: tuple[float, ...]

    @property
    def loss(self) -> float:
        """How many times longer the choice takes than the fastest."""
        return self.measured[0] / min(self.measured)


class Lists:
    """A ranker that remembers every list, and puts one plan first where it is told to."""

    def __init__(self, first: tuple[str, Any] | None = None) -> None:
        self.found: dict[str, list[tuple[Any, float]]] = {}
        self.first = first

    def __call__(self, subject: str, plans: Sequence[Any], seconds: Callable[[Any], float] | None) -> list[Any]:
        times: dict[Any, float] = {}

        def noted(plan: Any) -> float:
            times[plan] = seconds(plan) if seconds is not None else math.nan
            return times[plan]

        ranked = rank_plans(subject, plans, None if seconds is None else noted)
        if len(times) > 1:
            self.found[subject] = [(plan, times[plan]) for plan in ranked]
        if self.first is not None and self.first[0] == subject and self.first[1] in ranked:
            ranked.remove(self.first[1])
            ranked.insert(0, self.first[1])
        return ranked


def scheduled(workload: Workload, args: list[Any], threads: int, rank: Ranker) -> Any:
    s = weft.schedule(define(workload), *args, numerics="fast")
    auto_schedule(s, host_machine(), threads, frozenset(workload.family.constants), rank=rank)
    return s


def call_of(workload: Workload, inputs: Mapping[str, Any], schedule: Any) -> Callable[[], object]:
    """A call that fills given results, as `bench.field` times them."""
    op, args = bound(define(workload).with_schedule(schedule.trace), workload, inputs)
    given = op(*args)
    return lambda: op(*args, out=given)


def choices(workload: Workload, threads: int, most: int, turns: int) -> Iterator[Choice]:
    inputs = workload.inputs()
    args = arguments(workload, inputs)
    lists = Lists()
    scheduled(workload, args, threads, lists)
    for subject, ranked in lists.found.items():
        tried = [entry for entry in ranked[:most] if entry[1] <= HOPELESS * ranked[0][1]]
        ways = [scheduled(workload, args, threads, Lists((subject, plan))) for plan, _ in tried]
        measured = timed([call_of(workload, inputs, way) for way in ways], turns)
        expected = tuple(seconds * 1e3 for _, seconds in tried)
        yield Choice(workload.name, subject, tuple(str(p) for p, _ in tried), expected, tuple(measured))


def timed(calls: Sequence[Callable[[], object]], turns: int, turn_s: float = 0.01) -> list[float]:
    """Milliseconds of each call: the median of turns that all take one after another."""
    taken: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(turns):
        for call, found in zip(calls, taken):
            samples: list[float] = []
            end = time.perf_counter() + turn_s
            while not samples or time.perf_counter() < end:
                start = time.perf_counter()
                call()
                samples.append(time.perf_counter() - start)
            found.append(float(np.min(samples)) * 1e3)
    return [median(found) for found in taken]


def describe(choice: Choice, verbose: bool) -> list[str]:
    lines = [f"{choice.workload:<40} {choice.subject:<10} {choice.loss:6.2f}  of {len(choice.plans)} plans"]
    if verbose:
        each = zip(choice.plans, choice.expected, choice.measured)
        lines += [f"    {measured:9.3f} ms, expected {expected:9.3f}: {plan}" for plan, expected, measured in each]
    return lines


def summary(found: Sequence[Choice]) -> list[str]:
    """By workload, its worst list counts."""
    worst: dict[str, float] = {}
    for choice in found:
        worst[choice.workload] = max(choice.loss, worst.get(choice.workload, 1.0))
    if not worst:
        return ["no workload has more than one plan"]
    near = sum(loss <= NEAR for loss in worst.values())
    name = max(worst, key=lambda n: worst[n])
    return [
        f"within {NEAR - 1:.0%} of the fastest of its list: {near} of {len(worst)} workloads, {near / len(worst):.0%}",
        f"time lost by the model's choices: {geometric_mean(worst.values()) - 1:.1%}, geometric mean",
        f"worst: {worst[name]:.2f} times the fastest, {name}",
    ]


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.plan_choice", description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", help="workloads whose names have one of these in them")
    parser.add_argument("--random-shapes", type=int, metavar="SEED", help="odd sizes instead of the usual ones")
    parser.add_argument("--most", type=int, default=8, help="plans of a list that are measured")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="every plan")
    parser.add_argument("--save", type=Path, help="all lists as JSON")
    options = parser.parse_args(given)
    weft.set_num_threads(options.threads)
    found: list[Choice] = []
    for workload in chosen_workloads(options.only, options.random_shapes):
        for choice in choices(workload, options.threads, options.most, options.turns):
            found.append(choice)
            print("\n".join(describe(choice, options.verbose)), flush=True)
    print("\n".join(["", *summary(found)]))
    if options.save is not None:
        options.save.write_text(json.dumps([asdict(c) for c in found], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
