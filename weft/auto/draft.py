"""An automatic schedule under way: steps can be tried and taken back, and decisions are written down."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, ParamSpec

from weft.auto.plan import Decision, Ranker, Topic, rank_plans
from weft.auto.read_stages import KnownStages, read_stages
from weft.auto.recurrence import find_steps
from weft.auto.stages import Stage, Stages
from weft.ir.errors import ScheduleError
from weft.ir.faults import is_fault, refused
from weft.ir.numerics import is_fast
from weft.ir.stmt import Kernel
from weft.schedules.schedule import Schedule
from weft.target.cpu.host import Machine

P = ParamSpec("P")

#: Plans of one way that are tried where none fits the machine.
MOST_TRIED = 8
#: Operations below which starting threads costs more than they save: some 20 microseconds on one core.
THREAD_WORK = 1 << 17


@dataclass(frozen=True, slots=True)
class Taken:
    """A plan of a strategy that was followed for the nest of ``block``, and all blocks that it scheduled."""

    strategy: str
    block: str
    plan: Any
    blocks: frozenset[str]


@dataclass(slots=True)
class Barred:
    """What turned out not to fit the machine once all was there: it is not taken again."""

    steps: set[str] = field(default_factory=set)
    plans: dict[tuple[str, str, str], set[Any]] = field(default_factory=dict)
    told: list[Decision] = field(default_factory=list)

    def bar(self, taken: Taken) -> None:
        self.plans.setdefault((taken.strategy, taken.block, taken.plan.way), set()).add(taken.plan)

    def has(self, strategy: str, block: str, plan: Any) -> bool:
        """Whether it is barred, or so many plans of its way are that sizes do not seem to matter."""
        barred = self.plans.get((strategy, block, plan.way), set())
        return plan in barred or len(barred) >= MOST_TRIED


class AnyDraft:
    """A schedule for any machine, and the decisions so far.

    ``constants`` are buffers with the same contents in every call: nests at the top of the program that read
    nothing else, such as a `pack` without ``at``, run once and cost nothing.
    """

    def __init__(self, schedule: Schedule, constants: frozenset[str] = frozenset()) -> None:
        self.s = schedule
        schedule.settled = find_steps(schedule.kernel)
        self.constants = constants
        self.rank: Ranker = rank_plans
        #: What the time model expected of each plan of a block, in seconds.
        self.expected: dict[str, dict[Any, float]] = {}
        self.decisions: list[Decision] = []
        self.scheduled: set[str] = set()  # blocks whose nests are done
        #: Plans that were followed, and those that are not to be.
        self.taken: list[Taken] = []
        self.barred = Barred()
        self._stages: tuple[Kernel, Stages] | None = None
        self._known: KnownStages = {}

    @property
    def steps(self) -> frozenset[str]:
        """The loops over steps of recurrences."""
        return self.s.settled

    @property
    def stages(self) -> Stages:
        """The stages as the program is now."""
        if self._stages is None or self._stages[0] is not self.s.kernel:
            self._stages = (self.s.kernel, read_stages(self.s.kernel, self.steps, self._known))
        return self._stages[1]

    def stage(self, name: str) -> Stage:
        return self.stages[name]

    @property
    def is_fast(self) -> bool:
        """Whether sums may be added in another order."""
        return is_fast(self.s.numerics)

    def only_reader(self, stage: Stage) -> Stage | None:
        """The formula that alone reads what ``stage`` computes, in the same loops, where that is not scheduled yet."""
        readers = self.stages.consumers(stage)
        if len(readers) != 1 or self.stages.is_output(stage) or len(self.stages.writers(stage.write.buffer.name)) != 1:
            return None
        (reader,) = readers
        fits = reader.op == "=" and reader.outer == stage.outer and reader.is_plain
        return reader if fits and reader.name not in self.scheduled else None

    def decide(self, topic: Topic, subject: str, what: str, why: str) -> None:
        self.decisions.append(Decision(topic, subject, what, why))

    def attempt(self, steps: Callable[P, object], *args: P.args, **named: P.kwargs) -> ScheduleError | None:
        """``steps(*args)`` as a whole or not at all: a refusal of one takes back those before it and is returned.

        So does a fault of ours, which is told.
        """
        count, taken, done = len(self.decisions), len(self.taken), set(self.scheduled)
        try:
            with self.s.attempt():
                _or_refused(steps, *args, **named)
        except ScheduleError as error:
            del self.decisions[count:]
            del self.taken[taken:]
            self.scheduled = done
            if error.__cause__ is not None and is_fault(error.__cause__):
                self.decide("fallback", self.s.kernel.name, "a step is left out", error.what)
            return error
        return None


def _or_refused(steps: Callable[P, object], *args: P.args, **named: P.kwargs) -> None:
    """``steps(*args)``, whose errors of any kind are refusals."""
    try:
        steps(*args, **named)
    except ScheduleError:
        raise
    except Exception as error:
        raise ScheduleError(refused(error)) from error


class Draft(AnyDraft):
    """A schedule for a CPU."""

    def __init__(
        self, schedule: Schedule, machine: Machine, threads: int, constants: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(schedule, constants)
        self.machine = machine
        self.model = machine.model
        #: Plans of stages as they are, or would be inside shared loops, by what they look like.
        self.plans: dict[Hashable, Any] = {}
        self.threads = threads

    def lanes(self, stage: Stage) -> int:
        """Elements of what ``stage`` writes that fit a vector."""
        return self.machine.lanes(stage.write.buffer.dtype.bits)

    @property
    def registers(self) -> int:
        """Vector registers."""
        return self.model.vector_registers

    @property
    def enough_sums(self) -> float:
        """Sums that keep the units busy while each waits for the one before."""
        return self.model.fma_latency * self.model.fma_units

    def cache(self, level: str) -> int:
        """Bytes of cache ``L1``, ``L2`` or ``L3``, or of the last one before it that there is."""
        caches = self.machine.caches
        return caches.get(level) or list(caches.values())[-1]

    def pays_threads(self, stage: Stage) -> bool:
        """Whether ``stage`` is work enough to start threads for; loops it shares with others are started already."""
        work = stage.points * max(1, stage.operations)
        return self.threads > 1 and not stage.is_inside and self.is_worth_threads(work)

    def is_worth_threads(self, operations: int) -> bool:
        return operations >= THREAD_WORK
