"""Random products, layers, convolutions, attentions and their gradients as scheduled for an H200: built by NVRTC, and
the same schedules run on the CPU against float64. On a device, more and larger ones: `tests/gpu/test_gpu_random.py`."""

from __future__ import annotations

import pytest
from check_matrix_program import DRAWN, check_matrix_program

#: How many of each kind; products and convolutions take a fraction of what attentions do.
COUNTS = {"products": 54, "blocks": 12, "layers": 3, "convolutions": 36, "attentions": 6, "gradients": 1}
#: Seeds that are checked one after another in one test.
TOGETHER = 4


@pytest.mark.usefixtures("quick_code")
@pytest.mark.parametrize(("kind", "first"), [(k, n) for k, count in COUNTS.items() for n in range(0, count, TOGETHER)])
def test_random_matrix_work(kind: str, first: int) -> None:
    for seed in range(first, min(first + TOGETHER, COUNTS[kind])):
        assert check_matrix_program(DRAWN[kind](seed, small=True), ["nvrtc", "cpu"]) == "checked"
