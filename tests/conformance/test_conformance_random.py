"""Some random PyTorch programs; thousands of them: `python -m tests.conformance.random_models`."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from random_models import try_seed

#: Programs, and how many are one test: what starts once for each process of pytest is shared.
COUNT, EACH = 200, 20


@pytest.mark.parametrize("first", range(0, COUNT, EACH))
def test_random_programs_are_as_eager(first: int, first_seed: int) -> None:
    outcomes = {seed: try_seed(seed) for seed in range(first_seed + first, first_seed + first + EACH)}
    assert {seed: why for seed, (verdict, why) in outcomes.items() if verdict != "right"} == {}
