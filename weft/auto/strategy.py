"""What a strategy is: plans for a stage, what the time model says of each, and steps that follow one of them.

A plan is a frozen dataclass, printable and comparable; its fields are the knobs of the strategy. All that are listed
are legal as far as sizes and the machine decide; a step of one may still be refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from weft.auto.draft import AnyDraft, Taken
from weft.auto.plan import OnlyPlan, Plan
from weft.auto.stages import Stage

D = TypeVar("D", bound=AnyDraft)


@dataclass(frozen=True)
class Strategy(Generic[D]):
    """``plans(draft, stage)`` lists how ``stage`` can be scheduled, the usual way first; none where it is not meant
    for it.

    ``apply(draft, name, plan)`` schedules the nest of block ``name`` (and of blocks it takes along, which it adds to
    ``draft.scheduled``), or raises `ScheduleError`; then what it did is taken back. ``prices(draft, stage)`` is a
    function: what the time model expects of a plan, in seconds; without it, plans are tried as they are listed.
    """

    name: str
    plans: Callable[[D, Stage], Sequence[Plan]]
    apply: Callable[[D, str, Any], None]
    prices: Callable[[D, Stage], Callable[[Any], float]] | None = None

    def ranked(self, draft: D, stage: Stage) -> list[Plan]:
        """Plans for ``stage``, the one expected to be fastest first."""
        plans = self.plans(draft, stage)
        if self.prices is None or not plans:
            return draft.rank(stage.name, plans, None)
        price = self.prices(draft, stage)
        times = draft.expected.setdefault(stage.name, {})

        def expected(plan: Plan) -> float:
            times[plan] = price(plan)
            return times[plan]

        return draft.rank(stage.name, plans, expected)

    def schedule(self, draft: D, name: str) -> bool:
        """Follows the best plan for the nest of block ``name`` that is not refused; whether there was one."""
        refused: set[str] = set()
        for plan in self.ranked(draft, draft.stage(name)):
            if plan.way in refused or draft.barred.has(self.name, name, plan):
                continue
            done = set(draft.scheduled)
            refusal = draft.attempt(self.apply, draft, name, plan)
            if refusal is None:
                tell_others(draft, name, plan)
                draft.scheduled.add(name)
                draft.taken.append(Taken(self.name, name, plan, frozenset(draft.scheduled - done)))
                return True
            refused.add(plan.way)
            draft.decide("fallback", name, f"not scheduled as {self.name}", refusal.why or refusal.what)
        return False


def one_way(name: str, fits: Callable[[D, Stage], bool], schedule: Callable[[D, str], None]) -> Strategy[D]:
    """A strategy with nothing to choose: stages that it ``fits`` get what ``schedule`` does."""

    def plans(draft: D, stage: Stage) -> Sequence[Plan]:
        return (OnlyPlan(),) if fits(draft, stage) else ()

    return Strategy(name, plans, lambda draft, block, _: schedule(draft, block))


#: Nests over nothing stay as they are: there is nothing to divide by.
NOTHING: Strategy[Any] = one_way("nothing", lambda draft, stage: stage.is_empty, lambda draft, name: None)


def schedule_nests(draft: D, strategies: Iterable[Strategy[D]]) -> None:
    """Every nest that is not scheduled yet, in program order; a strategy may take others along."""
    for name in [s.name for s in draft.stages]:
        if name in draft.stages and name not in draft.scheduled:
            schedule_nest(draft, name, strategies)


def schedule_nest(draft: D, name: str, strategies: Iterable[Strategy[D]]) -> None:
    """The nest of block ``name`` by the first strategy with a plan that is not refused."""
    for strategy in strategies:
        draft.attempt(strategy.schedule, draft, name)
        if name in draft.scheduled or name not in draft.stages:
            break
    draft.scheduled.add(name)


#: Plans that lost which are told.
_RUNNERS_UP = 3


def tell_others(draft: AnyDraft, name: str, chosen: Plan) -> None:
    """The plan that was chosen where there were others, and what was expected of the best of those."""
    times = draft.expected.get(name, {})
    if chosen not in times or len(times) < 2:
        return
    others = sorted((t, str(plan)) for plan, t in times.items() if plan != chosen)[:_RUNNERS_UP]
    why = "; ".join(f"{_milliseconds(t)} {plan}" for t, plan in others)
    draft.decide("plans", name, f"{_milliseconds(times[chosen])} expected of {chosen}", f"not {why}")


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
