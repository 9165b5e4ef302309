"""What a strategy is: a test whether it is meant for a stage, and steps, any of which may be refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from weft.auto.draft import AnyDraft
from weft.auto.stages import Stage
from weft.ir.errors import ScheduleError

D = TypeVar("D", bound=AnyDraft)


@dataclass(frozen=True)
class Strategy(Generic[D]):
    """``schedule(draft, name)`` schedules the nest of block ``name`` (and of blocks it takes along, which it adds to
    ``draft.scheduled``), or raises `ScheduleError`; then what it did is taken back."""

    name: str
    fits: Callable[[D, Stage], bool]
    schedule: Callable[[D, str], None]


def schedule_nests(draft: D, strategies: Iterable[Strategy[D]]) -> None:
    """Every nest that is not scheduled yet, in program order; a strategy may take others along."""
    for name in [s.name for s in draft.stages]:
        if name in draft.stages and name not in draft.scheduled:
            schedule_nest(draft, name, strategies)


def schedule_nest(draft: D, name: str, strategies: Iterable[Strategy[D]]) -> None:
    """The nest of block ``name`` by the first strategy that fits it and is not refused."""
    refusal: ScheduleError | None = None
    for strategy in strategies:
        stage = draft.stage(name)
        if not strategy.fits(draft, stage):
            continue
        refusal = draft.attempt(lambda s=strategy: s.schedule(draft, name))  # type: ignore[misc]
        if refusal is None:
            draft.scheduled.add(name)
            return
        draft.decide("fallback", name, f"not scheduled as {strategy.name}", refusal.why or refusal.what)
    draft.scheduled.add(name)
