"""The driver: steps one after another, and what to do where a way that was taken turns out not to be possible.

No automatic schedule ends in an error. What one step refuses, or fails in, is left out (`AnyDraft.attempt`). What only
shows when the whole program is there (a machine with too few registers or too little shared memory for it) is found by
``misfit``: then the plan, or the step, that made this nest is barred, and all is done again without it, until what is
left fits. The simplest strategy of all always does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from weft.auto.draft import AnyDraft, Barred, Taken
from weft.auto.plan import Decision
from weft.ir.errors import Error
from weft.schedules.schedule import Schedule

D = TypeVar("D", bound=AnyDraft)


@dataclass(frozen=True, slots=True)
class AutoSchedule:
    """An ordinary schedule, and how it came about."""

    schedule: Schedule
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class Misfit:
    """Nests that the machine cannot run as they are: their blocks, and the error that says why."""

    blocks: frozenset[str]
    error: Error


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the driver: what it does, and whether the schedule is legal without it only as far as speed goes.

    ``simplest`` steps are those that are barred last: without them a nest runs on few threads.
    """

    run: Callable[..., object]
    simplest: bool = False

    @property
    def name(self) -> str:
        return self.run.__name__


@dataclass(slots=True)
class _Made:
    """One time through all steps."""

    draft: AnyDraft
    #: Steps that changed the program, and the blocks that each has scheduled.
    changed: dict[Step, set[str]] = field(default_factory=dict)


def drive(
    schedule: Schedule,
    start: Callable[[Schedule], D],
    steps: Sequence[Step],
    misfit: Callable[[D], Misfit | None] | None = None,
) -> AutoSchedule:
    """``steps`` on a draft that ``start`` makes of ``schedule``, which is changed."""
    barred = Barred()
    while True:
        draft = start(schedule.copy())
        draft.barred = barred
        made = _run(draft, steps)
        found = None if misfit is None else misfit(draft)
        if found is None:
            break
        if not _bar(made, found):
            raise found.error
    schedule.__dict__.update(draft.s.__dict__)
    return AutoSchedule(schedule, (*draft.decisions, *barred.told))


def _run(draft: AnyDraft, steps: Iterable[Step]) -> _Made:
    made = _Made(draft)
    for step in steps:
        if step.name in draft.barred.steps:
            continue
        kernel, done = draft.s.kernel, set(draft.scheduled)
        draft.attempt(step.run, draft)
        if draft.s.kernel is not kernel:
            made.changed[step] = draft.scheduled - done
    return made


def _bar(made: _Made, misfit: Misfit) -> bool:
    """Bars what is most likely to have made ``misfit``; whether there was anything left to bar."""
    barred, why = made.draft.barred, misfit.error.what
    taken = next(_taken(made.draft, misfit), None)
    if taken is not None:
        barred.bar(taken)
        barred.told.append(Decision("fallback", taken.block, f"not scheduled as {taken.strategy}, {taken.plan}", why))
        return True
    last_first = {step: -n for n, step in enumerate(made.changed)}
    steps = sorted(last_first, key=lambda x: (x.simplest, not made.changed[x] & misfit.blocks, last_first[x]))
    for step in steps[:1]:
        barred.steps.add(step.name)
        subject = min(misfit.blocks, default=made.draft.s.kernel.name)
        barred.told.append(Decision("fallback", subject, f"scheduled without `{step.name}`", why))
    return bool(steps)


def _taken(draft: AnyDraft, misfit: Misfit) -> Iterator[Taken]:
    """The plans that were followed for blocks of ``misfit``, the last first."""
    for taken in reversed(draft.taken):
        if taken.blocks & misfit.blocks:
            yield taken
