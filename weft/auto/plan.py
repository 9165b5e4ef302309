"""What the scheduler may do and what it decided, as data: plans, how they are ranked, and decisions in words."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol

#: What a decision is about, in the order `explain` tells them.
Topic = Literal[
    "fusion", "tiling", "registers", "vector", "parallel", "packing", "storage", "order", "plans", "fallback"
]

#: Times of the model that are closer than this are taken for the same: then the plan listed first is better.
SAME_TIME = 1.035


@dataclass(frozen=True, slots=True)
class Decision:
    """``what`` was done to block ``subject``, and ``why``; both are sentences without a full stop.

    >>> Decision("tiling", "C", "tiles of 8 x 32 sums", "16 of 32 registers; 3 loads for 16 multiplications")
    """

    topic: Topic
    subject: str
    what: str
    why: str


class Plan(Protocol):
    """How a strategy would schedule a stage."""

    @property
    def way(self) -> str:
        """What plans have in common that differ in sizes alone: where one is refused, the others would be."""


@dataclass(frozen=True, slots=True)
class OnlyPlan:
    """The plan of a strategy that has nothing to choose."""

    way: str = "the only way"


#: Orders plans for a block, best first, given what the model expects of each (None: nothing is known).
Ranker = Callable[[str, Sequence[Any], Callable[[Any], float] | None], list[Any]]


def rank_plans(
    subject: str, plans: Sequence[Any], seconds: Callable[[Any], float] | None, same: float = SAME_TIME
) -> list[Any]:
    """The plan expected to be fastest first; of those about as fast, the one listed first."""
    if seconds is None or len(plans) < 2:
        return list(plans)
    times = [seconds(plan) for plan in plans]
    usual = next(n for n, t in enumerate(times) if t <= same * min(times))
    return [plans[n] for n in sorted(range(len(plans)), key=lambda n: (n != usual, times[n]))]


def knobs(plans: Iterable[Any]) -> dict[str, list[Any]]:
    """The fields of plans of one kind, each with the values that the list has for it."""
    found: dict[str, list[Any]] = {}
    for plan in plans:
        for f in fields(plan):
            value = getattr(plan, f.name)
            if value not in found.setdefault(f.name, []):
                found[f.name].append(value)
    return found


def read_plan(text: str, kinds: Iterable[type]) -> Any:
    """The plan that ``repr`` wrote as ``text``; ``kinds`` are the classes that may be in it."""
    known = {kind.__name__: kind for kind in kinds}

    def read(node: ast.expr) -> Any:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in known:
            return known[node.func.id](**{k.arg: read(k.value) for k in node.keywords if k.arg is not None})
        if isinstance(node, ast.Tuple):
            return tuple(map(read, node.elts))
        return ast.literal_eval(node)

    return read(ast.parse(text, mode="eval").body)
