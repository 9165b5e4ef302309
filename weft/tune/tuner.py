"""The tuner: candidates of a strategy, compiled and measured in a budget of wall time; what wins takes the lead.

The reference is the plain loops. The automatic schedule is checked first, as every candidate is. The next candidate is
compiled while one is measured, where there is a core for it. At the end the leader meets the automatic schedule again
in a fresh process: only what wins there is kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import Any

from weft.ir.errors import Error
from weft.runtime.records import Measurement, Records, Task
from weft.tune.candidate_process import CandidateProcess, LostError
from weft.tune.compare import LOOKS
from weft.tune.job import PLAIN_LOOPS, Job, Outcome
from weft.tune.point import Point
from weft.tune.run_candidates import Turns, check_and_time, compile_candidate, compute_reference
from weft.tune.strategies.strategy import Strategy
from weft.tune.tuned import Tuned

#: Of the budget: what the last comparison may take, and what is left over to end in time.
_LAST, _SLACK = 0.25, 0.03
#: Seconds that a candidate may take to compile, and to run once, beside what the automatic one takes many times over.
_COMPILE, _RUN, _TIMES = 30.0, 1.0, 30.0


@dataclass
class Tuner:
    """One search; ``progress`` is told after every candidate."""

    job: Job
    task: Task
    name: str
    automatic: str
    strategy: Callable[[], Strategy]
    records: Records
    seeds: Sequence[str] = ()
    labels: tuple[str, int] = ("", 0)
    progress: Callable[[Tuned], object] | None = None
    _codes: dict[str, Any] = field(default_factory=dict)

    def run(self, begun: float, seconds: float) -> Tuned:
        """Searches until ``seconds`` after ``begun``, then says what is fastest and keeps it."""
        self._end = begun + seconds * (1 - _SLACK)
        self._found = Tuned(self.name, self.automatic, self.automatic, *self.labels)
        self._compiler, self._runner = CandidateProcess(self.job), CandidateProcess(self.job)
        try:
            self._guarded_run(seconds)
        finally:
            self._compiler.close()
            self._runner.close()
            self._found.took = time.monotonic() - begun
        return self._found

    def _guarded_run(self, seconds: float) -> None:
        self._start()
        last = min(_LAST * seconds, self._last_seconds())
        try:
            self._search(self._end - last)
        except KeyboardInterrupt:
            self._found.interrupted = True
            self._end = min(self._end, time.monotonic() + max(last, 1.0))
        self._confirm()

    def _start(self) -> None:
        """The reference, and the automatic schedule against itself: how long it takes."""
        self._compiler.ask(compile_candidate, self.automatic, self._end)
        outcome = self._compile_answer(self.automatic)
        if outcome.ended != "won":
            raise Error(f"{self.name} cannot be tuned", why=f"its automatic schedule: {outcome.why}")
        plain = self._compile(PLAIN_LOOPS)
        code = self._codes.get(PLAIN_LOOPS, self._codes[self.automatic])
        if plain.ended == "won":
            code = self._codes[PLAIN_LOOPS]
        try:
            reference = self._runner.also(compute_reference, code, self._end)
        except LostError as error:
            reference = Outcome(error.ended, why=error.why)
        if not isinstance(reference, Outcome):
            reference = Outcome("failed", why="they do not run")
        if reference.ended != "won":
            raise Error(
                f"{self.name} cannot be tuned in this time",
                why=f"its plain loops, that all results are compared with: {reference.why}",
                help="allow more seconds=, or tune for smaller sizes",
            )
        turns = Turns(self._codes[self.automatic], self._codes[self.automatic], 0.1, 3)
        outcome = self._measure_code(turns, self._end)
        if not outcome.seconds:
            self._record(self.automatic, outcome)
            raise Error(f"{self.name} cannot be tuned", why=f"its automatic schedule {outcome.ended}: {outcome.why}")
        self._found.automatic_seconds = self._found.best_seconds = median(outcome.seconds)

    def _last_seconds(self) -> float:
        """What the last comparison takes: another process, the reference, and all turns."""
        return 2.0 + 2 * LOOKS[-1] * max(2.5e-3, self._found.automatic_seconds)

    def _search(self, end: float) -> None:
        candidates = self._candidates()
        is_beside = (os.cpu_count() or 1) > self.job.threads
        point = self._next(candidates)
        compiled = None if point is None else self._compile(point.trace, end)
        while point is not None and compiled is not None and time.monotonic() < end:
            is_ready = compiled.ended == "won"
            following: Point | None = None
            if is_ready:
                self._runner.ask(check_and_time, self._turns(point.trace), self._limit(end))
            if is_beside or not is_ready:
                following = self._next(candidates)
                if following is not None:
                    self._compiler.ask(compile_candidate, following.trace, self._limit(end))
            outcome = self._answer(self._limit(end)) if is_ready else compiled
            if time.monotonic() < end or outcome.seconds:
                self._judge(point, outcome)
            if is_ready and not is_beside:
                following = self._next(candidates)
                if following is not None and time.monotonic() < end:
                    self._compiler.ask(compile_candidate, following.trace, self._limit(end))
            self._codes.pop(point.trace, None) if point.trace not in self._kept else None
            compiled = None
            if following is not None and time.monotonic() < end:
                compiled = self._compile_answer(following.trace, end)
            point = following

    @property
    def _kept(self) -> set[str]:
        return {self.automatic, self._found.trace, PLAIN_LOOPS}

    def _candidates(self) -> Iterator[Point]:
        """What earlier records say is good, then what the strategy asks for."""
        self._strategy = self.strategy()
        self._strategy.tell(Point("automatic", (), self.automatic), 1.0)
        for trace in self.seeds:
            yield Point("record", (), trace)
        while (asked := self._strategy.ask()) is not None:
            yield asked

    def _next(self, candidates: Iterator[Point]) -> Point | None:
        for point in candidates:
            if point.trace not in (self.automatic, self._found.trace):
                return point
        return None

    def _judge(self, point: Point, outcome: Outcome) -> None:
        ratio = inf
        if outcome.seconds:
            lead = self._found.best_seconds / self._found.automatic_seconds
            ratio = lead * median(a / b for a, b in zip(outcome.seconds, outcome.against))
        if outcome.ended == "won":
            self._found.trace, self._found.best_seconds = point.trace, ratio * self._found.automatic_seconds
        self._strategy.tell(point, ratio)
        self._record(point.trace, outcome)
        self._found.count(outcome, ratio)
        if self.progress is not None:
            self.progress(self._found)

    def _confirm(self) -> None:
        """The leader against the automatic schedule in a process that has run nothing yet."""
        found = self._found
        if found.trace == self.automatic:
            self._record(self.automatic, Outcome("automatic", why="nothing was faster"))
            return
        self._runner.close()
        left = self._end - time.monotonic()
        codes = self._codes[found.trace], self._codes[self.automatic]
        outcome = self._measure_code(Turns(*codes, max(0.0, left - 0.3)), self._end)
        if outcome.ended == "won":
            ratio = median(a / b for a, b in zip(outcome.seconds, outcome.against))
            found.best_seconds, found.automatic_seconds = median(outcome.seconds), median(outcome.against)
            found.ratio = ratio
            self._record(found.trace, outcome._replace(ended="best"))
            return
        why = f"what led was not faster when it was measured again: {outcome.ended} {outcome.why}".strip()
        found.trace, found.best_seconds, found.unconfirmed = self.automatic, found.automatic_seconds, True
        self._record(self.automatic, Outcome("automatic", why=why))

    def _compile(self, trace: str, end: float | None = None) -> Outcome:
        self._compiler.ask(compile_candidate, trace, self._limit(end))
        return self._compile_answer(trace, end)

    def _compile_answer(self, trace: str, end: float | None = None) -> Outcome:
        try:
            code, outcome = self._compiler.answer(min(self._limit(end), time.monotonic() + _COMPILE))
        except LostError as error:
            return Outcome(error.ended, why=f"while it was compiled: {error.why}")
        if code is not None:
            self._codes[trace] = code
        return outcome if isinstance(outcome, Outcome) else Outcome("failed", why=str(outcome))

    def _turns(self, trace: str) -> Turns:
        left = self._end - time.monotonic()
        return Turns(self._codes[trace], self._codes[self._found.trace], left)

    def _measure_code(self, turns: Turns, end: float) -> Outcome:
        try:
            self._runner.ask(check_and_time, turns, end)
        except LostError as error:
            return Outcome(error.ended, why=error.why)
        return self._answer(end)

    def _answer(self, end: float) -> Outcome:
        once = self._found.automatic_seconds
        most = time.monotonic() + _RUN + _TIMES * once + 4 * LOOKS[-1] * max(2.5e-3, once)
        try:
            answer = self._runner.answer(min(end, most) if once else end)
        except LostError as error:
            return Outcome(error.ended, why=error.why)
        return answer if isinstance(answer, Outcome) else Outcome("failed", why=str(answer))

    def _limit(self, end: float | None) -> float:
        return self._end if end is None else end

    def _record(self, trace: str, outcome: Outcome) -> None:
        strategy, seed = self.labels
        self.records.add(
            Measurement(
                self.task,
                trace,
                outcome.ended,
                outcome.seconds,
                outcome.against,
                outcome.why,
                self.name,
                strategy,
                seed,
            )
        )
