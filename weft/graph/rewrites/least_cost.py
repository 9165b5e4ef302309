"""How to answer many yes-or-no questions so that a sum of costs, each of a few of them, is least.

Questions are eliminated one after another, the one with the fewest neighbours first, as dynamic programming along a
chain does and across joins of chains as well: the costs that ask it become one cost of the questions around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

#: Questions that one cost may ask: tables grow with two to the power of it.
MOST_ASKED = 12


@dataclass(frozen=True)
class Cost:
    """What each combination of answers costs; answers are in the order of the questions."""

    asks: tuple[str, ...]
    of: Mapping[tuple[bool, ...], float]

    def at(self, answers: Mapping[str, bool]) -> float:
        return self.of[tuple(answers[q] for q in self.asks)]


def least_cost(questions: Sequence[str], costs: Sequence[Cost]) -> dict[str, bool]:
    """The answers; no where yes costs as much."""
    left, open_costs = list(questions), list(costs)
    eliminated: list[tuple[str, list[Cost]]] = []
    answers: dict[str, bool] = {}
    while left:
        question = min(left, key=lambda q: len(_around(q, open_costs)))
        left.remove(question)
        asking = [c for c in open_costs if question in c.asks]
        around = _around(question, asking)
        if len(around) > MOST_ASKED:  # answered for itself, with all others at no
            answers[question] = _better(question, asking, dict.fromkeys(around, False))
            open_costs = [_fixed(c, question, answers[question]) for c in open_costs]
            continue
        eliminated.append((question, asking))
        open_costs = [c for c in open_costs if question not in c.asks]
        table = {
            values: min(_sum(asking, {**dict(zip(around, values)), question: answer}) for answer in (False, True))
            for values in product((False, True), repeat=len(around))
        }
        open_costs.append(Cost(around, table))
    for question, asking in reversed(eliminated):
        answers[question] = _better(question, asking, answers)
    return answers


def _around(question: str, costs: Sequence[Cost]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(q for c in costs if question in c.asks for q in c.asks if q != question))


def _sum(costs: Sequence[Cost], answers: Mapping[str, bool]) -> float:
    return sum(c.at(answers) for c in costs)


def _better(question: str, costs: Sequence[Cost], others: Mapping[str, bool]) -> bool:
    return _sum(costs, {**others, question: True}) < _sum(costs, {**others, question: False})


def _fixed(cost: Cost, question: str, answer: bool) -> Cost:
    """``cost`` with one question answered."""
    if question not in cost.asks:
        return cost
    place = cost.asks.index(question)
    asks = cost.asks[:place] + cost.asks[place + 1 :]
    return Cost(asks, {k[:place] + k[place + 1 :]: v for k, v in cost.of.items() if k[place] is answer})
