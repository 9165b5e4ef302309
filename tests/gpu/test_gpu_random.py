"""Random GPU programs on a device: results as the interpreter has them; random matrix work: as float64 has them.

Many more by hand: ``python tests/property/bulk_gpu_programs.py --device --jobs 15 --count 20000``, with
``--kind products`` (convolutions, attentions) matrix work.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "property"))
from check_gpu_program import check_fork_join_program, check_gpu_program
from check_matrix_program import DRAWN, compare_on_device


@pytest.mark.parametrize("group", range(10))
def test_random_programs(group: int) -> None:
    found = Counter(check_gpu_program(seed, ["device"]) for seed in range(group * 20, group * 20 + 20))
    assert found["checked"] >= 10, found


@pytest.mark.parametrize("group", range(2))
def test_random_fork_join_programs(group: int) -> None:
    found = Counter(check_fork_join_program(seed, ["device"]) for seed in range(group * 20, group * 20 + 20))
    assert found["checked"] >= 10, found


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kind", DRAWN)
def test_random_matrix_work(kind: str, seed: int) -> None:
    compare_on_device(DRAWN[kind](seed))
