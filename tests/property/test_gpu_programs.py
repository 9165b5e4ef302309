"""Random GPU programs with barriers: interpreter, split thread loops and compiled CPU code agree bit for bit.

Many more by hand: ``python tests/property/bulk_gpu_programs.py --count 20000``.
"""

from __future__ import annotations

from collections import Counter

import pytest
from check_gpu_program import check_gpu_program

#: Programs of each test, and how many tests.
EACH, TESTS = 22, 10


@pytest.mark.parametrize("group", range(TESTS))
def test_gpu_programs_on_the_cpu(group: int) -> None:
    found = Counter(check_gpu_program(group * EACH + n) for n in range(EACH))
    assert found["checked"] >= 0.7 * EACH, found
    assert found["refused"] <= 2, found


def test_gpu_programs_as_cuda() -> None:
    """The text is made; a few are built, where NVRTC is there."""
    pytest.importorskip("cuda.bindings.nvrtc")
    found = Counter(check_gpu_program(seed, ["nvrtc" if seed < 5 else "cuda"]) for seed in range(30))
    assert found["checked"] >= 15, found
