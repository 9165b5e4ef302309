"""Random tests: the same draws for everyone in ``make test``, fresh ones in ``make soak``.

A test is random where it draws from hypothesis, or asks for the fixture ``first_seed`` and counts its own seeds from
there. Without ``--seed`` both begin where they always do. ``pytest --seed 7`` runs the random tests alone, in an order
and with draws that follow from 7 alone, and says of each failure how to repeat it.
"""

from __future__ import annotations

import os
import random
import sys
import time
from typing import Any

import numpy as np
import pytest

#: How far apart the seeds are that two values of ``--seed`` begin at.
APART = 1_000_000

#: The generators that modules of tests share, with the state each has before the first test.
STATES = pytest.StashKey[dict[int, tuple[Any, Any]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("random tests")
    group.addoption("--seed", type=int, default=0, help="run the random tests alone, with the draws of this seed")
    group.addoption("--until", type=float, default=0.0, help="start no test after this time (seconds since 1970)")


def pytest_configure(config: pytest.Config) -> None:
    try:
        import hypothesis
    except ImportError:  # tests of GPUs run without it
        return
    never = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow], "print_blob": True}
    hypothesis.settings.register_profile("ci", derandomize=True, database=None, **never)
    hypothesis.settings.register_profile("soak", derandomize=False, database=None, **never)
    hypothesis.settings.load_profile("soak" if config.getoption("seed") else "ci")
    forget_constants()


def forget_constants() -> None:
    """Hypothesis also draws constants of modules that happen to be loaded, which differ from run to run."""
    from hypothesis.internal.conjecture import providers

    if hasattr(providers, "_get_local_constants"):
        nothing = type(providers.GLOBAL_CONSTANTS)()
        providers._get_local_constants = lambda: nothing


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[STATES] = {id(g): (g, state_of(g)) for item in items for g in shared_generators(item)}
    seed = config.getoption("seed")
    if not seed:
        return
    others = [item for item in items if not is_random(item)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if is_random(item)]
    random.Random(seed).shuffle(items)
    for item in items:
        if is_property(item):
            import hypothesis

            hypothesis.seed(seed)(item.function)  # type: ignore[attr-defined]


def is_random(item: pytest.Item) -> bool:
    return is_property(item) or "first_seed" in getattr(item, "fixturenames", ())


def is_property(item: pytest.Item) -> bool:
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


def shared_generators(item: pytest.Item) -> list[Any]:
    names = vars(getattr(item, "module", None) or object)
    return [value for value in names.values() if isinstance(value, (np.random.Generator, random.Random))]


def state_of(generator: Any) -> Any:
    return generator.getstate() if isinstance(generator, random.Random) else generator.bit_generator.state


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test draws does not depend on the tests that ran before it in the same process."""
    until = item.config.getoption("until")
    if until and time.time() > until:
        pytest.skip("the time is up")
    random.seed(0)
    np.random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
    for generator in shared_generators(item):
        _, state = item.config.stash[STATES][id(generator)]
        if isinstance(generator, random.Random):
            generator.setstate(state)
        else:
            generator.bit_generator.state = state


@pytest.fixture
def first_seed(request: pytest.FixtureRequest) -> int:
    """Where the seeds of a random test begin: 0, or far from there with ``--seed``."""
    return APART * int(request.config.getoption("seed"))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    seed = config.getoption("seed")
    failed = [r.nodeid for kind in ("failed", "error") for r in terminalreporter.stats.get(kind, ())]
    if seed and failed:
        terminalreporter.section("to repeat")
        for test in dict.fromkeys(os.path.relpath(config.rootpath / name) for name in failed):
            terminalreporter.write_line(f"{sys.executable} -m pytest --seed {seed} '{test}'")
