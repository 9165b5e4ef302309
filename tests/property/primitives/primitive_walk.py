"""Steps tried on small programs: one that a check accepts must leave the meaning as it was.

What a step makes is a valid program, and the interpreter finds the same results before and after it, on several kinds
of arguments and sizes. A chain of steps is charged to its last one: each before was found right.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from primitive_arguments import arguments_for
from primitive_case import Case, Setting, make_case, sizes_of
from primitive_judge import Found, judge, judge_compiled, where
from primitive_recipes import BEFORE, COMMON, FAST, TOPICS, Here, Recipe, Step
from small_programs import listed, random_program

import weft
from weft.ir.errors import ScheduleError
from weft.operators.schedule import OperatorSchedule
from weft.schedules.trace import Step as TraceStep

#: How many arguments of one primitive are tried on one schedule.
TRIES = 6


#: Primitives that few programs and arguments are legal for: more is tried.
SELDOM = {*BEFORE, *TOPICS, "recompute", "fuse", "compute_at", "swap", "cache_read"}


@dataclass(frozen=True)
class Fault:
    """What a step did that it should not have."""

    primitive: str
    #: See `primitive_judge.Found`.
    kind: str
    why: str
    setting: Setting
    trace: str

    def __str__(self) -> str:
        return f"{self.primitive}: {self.kind}: {self.why}\n{self.setting}\n{self.trace}"


@dataclass
class Walk:
    """Steps tried so far: counts of what was tried, accepted, wrong, and the faults."""

    rng: random.Random
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    #: Of how many programs the compiled code is tried too.
    compiled: float = 0.0

    def count(self, primitive: str, what: str) -> None:
        self.counts.setdefault(primitive, Counter())[what] += 1

    def take(self, case: Case, s: OperatorSchedule, step: Step) -> OperatorSchedule | None:
        """``s`` after ``step``; None where that is refused or at fault."""
        name, args, kwargs = step
        self.count(name, "tried")
        after = s.copy()
        after._trying = True
        found = None
        try:
            getattr(after, name)(*args, **kwargs)
        except ScheduleError:
            return None
        except Exception as error:
            found = Found("internal", where(error))
        self.count(name, "accepted")
        if found is None and after.kernel is not s.kernel:
            found = judge(case, after)
            if found is None and self.rng.random() < self.compiled:
                found = judge_compiled(case, after)
        if found is None:
            return after
        trace = s.trace.then(TraceStep(name, args, tuple(kwargs.items())))
        return self.fail(Fault(name, *found, case.setting, str(trace)))

    def fail(self, fault: Fault) -> None:
        self.count(fault.primitive, "wrong")
        self.faults.append(fault)

    def follow(self, case: Case, s: OperatorSchedule, recipe: Recipe) -> OperatorSchedule:
        """``s`` after those steps of ``recipe`` that are legal and right."""
        here = Here(self.rng, s)
        for step in recipe(here):
            here.s = self.take(case, here.s, step) or here.s
        return here.s

    def try_out(self, case: Case, s: OperatorSchedule, name: str) -> Iterator[OperatorSchedule]:
        """Schedules after some of the steps that there are of primitive ``name``."""
        options = arguments_for(s, name)
        most = TRIES if name not in SELDOM else 5 * TRIES
        accepted = 0
        for given in self.rng.sample(options, min(most, len(options))):
            after = self.take(case, s, (name, *given))
            if after is not None:
                yield after
            accepted += after is not None
            if accepted >= TRIES // 2:
                return

    def visit(self, case: Case, names: Iterable[str], chains: int = 2) -> None:
        """Primitives ``names`` on the program as it is and after recipes, then chains of steps."""
        for name in names:
            start = self.prepared(case, name)
            for after in self.try_out(case, start, name):
                if self.rng.random() < 0.1 * chains:
                    self.go_on(case, after, names)

    def go_on(self, case: Case, s: OperatorSchedule, names: Iterable[str]) -> None:
        """One to three more steps."""
        for name in self.rng.choices([*names], k=self.rng.choice((1, 2, 3))):
            s = next(self.try_out(case, s, name), s)

    def prepared(self, case: Case, name: str) -> OperatorSchedule:
        """The schedule before any step, or after a recipe: mostly one that leads to primitive ``name``."""
        start, own, chance = case.start, BEFORE.get(name, ()), self.rng.random()
        if own and chance < 0.7:
            return self.follow(case, start, self.rng.choice(own))
        return self.follow(case, start, self.rng.choice(COMMON)) if chance < 0.9 and chance > 0.4 else start


def draw_case(
    rng: random.Random,
    topics: tuple[str, ...] = (),
    part_of_random: float = 0.5,
    choices: tuple[str, ...] = ("strict", "fast"),
) -> Case | None:
    """A case; None where the program that was drawn is refused, or means nothing for these sizes."""
    if rng.random() < part_of_random:
        text = random_program(rng)
    else:
        text = rng.choice([p for p in listed() if not topics or p[4:].startswith(topics)])
    numerics, symbolic = rng.choice(choices), rng.random() < 0.33
    try:
        sizes = tuple((name, rng.choice((0, 1, 2, 3, 3, 4, 4, 5))) for name in sizes_of(text))
        case = make_case(Setting(text, numerics, symbolic, sizes))
    except weft.Error:
        return None
    return case if case.calls else None


def reach(walk: Walk, name: str, goal: int, programs: int) -> None:
    """Tries primitive ``name`` on one program after another until ``goal`` of its steps were accepted."""
    for _ in range(programs):
        if walk.counts.get(name, Counter())["accepted"] >= goal:
            return
        topics, choices = TOPICS.get(name, ()), ("fast",) if name in FAST else ("strict", "fast")
        case = draw_case(walk.rng, topics, 0.2 if topics else 0.4, choices)
        if case is not None:
            walk.visit(case, [name], chains=0)
