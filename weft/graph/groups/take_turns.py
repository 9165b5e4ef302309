"""Candidates timed in turns: what else the machine does meanwhile hits all of them, and the least of each counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

#: One sample: seconds of a run.
Sampler: TypeAlias = "Callable[[], float]"
#: Samples before a candidate may be left out, how many times the quickest it then takes, and seconds of one candidate
#: after which no further turn begins.
_SURE, _SLOW, _ENOUGH = 2, 1.5, 0.08


def take_turns(samplers: Sequence[Sampler], turns: int) -> list[float]:
    """The least of ``turns`` samples of each. Those far behind are not asked again."""
    least = [math.inf] * len(samplers)
    spent = 0.0
    for turn in range(turns):
        still = [n for n in range(len(samplers)) if turn < _SURE or least[n] <= _SLOW * min(least)]
        for n in still:
            taken = samplers[n]()
            least[n] = min(least[n], taken)
            spent += taken if math.isfinite(taken) else 0.0
        if turn >= _SURE and spent > _ENOUGH * len(samplers):
            break
    return least
