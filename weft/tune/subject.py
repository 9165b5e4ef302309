"""What is tuned, as spaces see it: schedules of one operator for one kind of call, checked by the steps themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import cast

from weft.auto.estimate import estimate
from weft.auto.plan import Ranker, rank_plans
from weft.auto.scheduler import auto_schedule
from weft.ir.errors import Error
from weft.ir.numerics import is_fast
from weft.operators.operator import Operator
from weft.operators.scheduling import Scheduling
from weft.operators.signature import Signature
from weft.operators.stages import Build, build
from weft.passes.plain.separate_constants import separate_constants
from weft.runtime.executor import HOST
from weft.runtime.threads import get_num_threads
from weft.schedules.schedule import Schedule
from weft.target import every_intrinsic as _every_intrinsic  # noqa: F401  which steps may name
from weft.target.cpu.host import Machine
from weft.tune.point import Point

#: Schedules that are kept until they are asked about.
_KEPT = 64


@dataclass(frozen=True)
class Subject:
    op: Operator
    signature: Signature
    _schedules: dict[str, Schedule] = field(default_factory=dict)
    _starts: dict[str, Schedule] = field(default_factory=dict)
    _prices: dict[str, float] = field(default_factory=dict)

    @property
    def machine(self) -> Machine:
        return cast(Machine, HOST.machine(self.op._target_on("cpu")))

    @property
    def constants(self) -> frozenset[str]:
        return frozenset(self.op._definition.bound)

    def build(self, how: Scheduling) -> Build:
        definition = self.op._definition
        whole = definition.complete(self.signature)
        return build(definition.program, whole, self.machine, self.op._checks, how, constants=self.constants)

    def unscheduled(self) -> Schedule:
        """The schedule that others begin with."""
        return self._start(self.op._definition.how)

    def _start(self, how: Scheduling) -> Schedule:
        """Lowered once for each form of the program."""
        if how.form not in self._starts:
            self._starts[how.form] = self.build(how).start()
        return self._starts[how.form].copy()

    def automatic(self, rank: Ranker = rank_plans) -> Schedule:
        """What Weft chooses, where ``rank`` orders plans."""
        schedule = self.unscheduled()
        auto_schedule(schedule, self.machine, get_num_threads(), self.constants, rank)
        return schedule

    def scheduled(self, trace: str) -> Schedule:
        """By ``trace``; raises `ScheduleError` where a step of it is refused."""
        schedule = self._start(self.op._definition.how._replace(how=trace))
        with schedule.attempt():
            schedule.apply(trace)
        return schedule

    def known(self, schedule: Schedule) -> str:
        """The trace of ``schedule``; what the model expects of it is not to be scheduled again for."""
        text = str(schedule.trace)
        if len(self._schedules) >= _KEPT:
            self._schedules.clear()
        self._schedules[text] = schedule
        return text

    def price(self, point: Point) -> float:
        """Seconds that the time model expects of a candidate; infinite where its trace does not apply."""
        if point.trace not in self._prices:
            try:
                schedule = self._schedules.pop(point.trace, None) or self.scheduled(point.trace)
                self._prices[point.trace] = self.expected(schedule)
            except Error:
                self._prices[point.trace] = inf
        return self._prices[point.trace]

    def expected(self, schedule: Schedule) -> float:
        """Seconds that the time model expects of a call."""
        main = separate_constants(schedule.kernel, self.constants).main
        fast = is_fast(schedule.numerics)
        return estimate(main, self.machine.model, get_num_threads(), fast=fast, sizes=schedule.sizes).seconds
