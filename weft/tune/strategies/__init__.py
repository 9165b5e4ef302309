"""Strategies that search a space: each is asked for a candidate and told how it ended. The same seed asks the same, as
long as it is told the same."""

from __future__ import annotations

from weft.ir.errors import ArgumentError, did_you_mean
from weft.tune.spaces import Space
from weft.tune.strategies.annealing import Annealing
from weft.tune.strategies.evolution import Evolution
from weft.tune.strategies.genetic import Genetic
from weft.tune.strategies.grid import Grid
from weft.tune.strategies.halving import Halving
from weft.tune.strategies.hill_climbing import HillClimbing
from weft.tune.strategies.random_draws import RandomDraws
from weft.tune.strategies.strategy import Price, Strategy

STRATEGIES: dict[str, type[Strategy]] = {
    "evolution": Evolution,
    "genetic": Genetic,
    "annealing": Annealing,
    "hill": HillClimbing,
    "halving": Halving,
    "random": RandomDraws,
    "grid": Grid,
}


def check_strategy(name: str) -> None:
    if name not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise ArgumentError(
            f"there is no strategy `{name}`", help=did_you_mean(name, STRATEGIES) or f"use one of: {known}"
        )


def find_strategy(name: str, space: Space, seed: int, price: Price) -> Strategy:
    """The strategy called ``name``; ``price`` is what a model expects of a candidate, in seconds."""
    check_strategy(name)
    return STRATEGIES[name](space, seed, price)
