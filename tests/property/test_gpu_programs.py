"""Random GPU programs with barriers: interpreter, split thread loops and compiled CPU code agree bit for bit.

Many more by hand: ``python tests/property/bulk_gpu_programs.py --count 20000``.
"""

from __future__ import annotations

from collections import Counter

import pytest
from check_gpu_program import check_gpu_program

pytestmark = pytest.mark.usefixtures("quick_code")

#: Programs of each test, and how many tests.
EACH, TESTS = 16, 5


@pytest.mark.parametrize("group", range(TESTS))
def test_gpu_programs_on_the_cpu(group: int, first_seed: int) -> None:
    outcomes = Counter(check_gpu_program(first_seed + group * EACH + n) for n in range(EACH))
    if not first_seed:
        assert outcomes["checked"] >= 0.7 * EACH, outcomes
        assert outcomes["refused"] <= 2, outcomes


@pytest.mark.parametrize("group", range(2))
def test_grid_barriers_on_the_cpu(group: int, first_seed: int) -> None:
    outcomes = Counter(check_gpu_program(first_seed + 5000 + group * EACH + n, wide=True) for n in range(EACH))
    if not first_seed:
        assert outcomes["checked"] >= 0.5 * EACH, outcomes


def test_gpu_programs_as_cuda(first_seed: int) -> None:
    """The text is made; a few are built, where NVRTC is there."""
    pytest.importorskip("cuda.bindings.nvrtc")
    outcomes = Counter(check_gpu_program(first_seed + n, ["nvrtc" if n < 5 else "cuda"]) for n in range(30))
    assert outcomes["checked"] >= 15, outcomes
