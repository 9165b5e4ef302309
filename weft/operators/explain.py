"""`op.explain`: what the schedule for given arguments does and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from weft.auto.plan import Decision, Topic
from weft.operators.schedule import explained_schedule

if TYPE_CHECKING:
    from weft.operators.operator import Operator


def explain(op: Operator, args: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    schedule, decisions = explained_schedule(op, args, named)
    how = op._definition.how
    mode = "a given trace" if how.trace is not None else f'schedule="{how.how}"'
    lines = [f'{op.name}, scheduled by {mode}, numerics="{how.numerics}"', ""]
    lines += describe_decisions(decisions)
    return "\n".join([*lines, "", schedule.explain()])


def describe_decisions(decisions: tuple[Decision, ...]) -> list[str]:
    """Decisions under their topics, each with its reason."""
    lines: list[str] = []
    for topic in get_args(Topic):
        found = [d for d in decisions if d.topic == topic]
        if found:
            lines.append(f"{topic}:")
            lines += [f"  {d.subject}: {d.what}; {d.why}" for d in found]
    return lines or ["nothing was changed: the loops run as written"]
