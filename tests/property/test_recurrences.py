"""Random recurrences, scheduled for a GPU and for the CPU, against the evaluator."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from recurrence_programs import random_recurrence

import weft

sys.path.append(str(Path(__file__).parents[1] / "unit" / "auto"))
from scheduled_for_gpu import H200, make_case, schedule_case

from weft.ir.interpret import interpret
from weft.ir.stmt import Barrier
from weft.ir.visit import walk
from weft.passes.gpu_to_cpu.split_grids import split_grids
from weft.passes.plain.lower_blocks import lower_blocks
from weft.passes.plain.lower_reduce import lower_reduce
from weft.schedules.merge_axes import merged_arguments
from weft.target.cuda.lower import lower_kernel

EACH, GROUPS = 6, 2


@pytest.fixture(autouse=True)
def fold_small_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings also for what is as small as here."""
    monkeypatch.setattr("weft.auto.recurrence.WORTH_FOLDING", 1 << 40)


@pytest.mark.parametrize("group", range(GROUPS))
def test_on_a_gpu(group: int, first_seed: int) -> None:
    """As scheduled, as the grid that CUDA text is made from, and split at its grid barriers for a CPU."""
    waiting = 0
    for seed in range(first_seed + group * EACH, first_seed + (group + 1) * EACH):
        text, args = random_recurrence(seed)
        case = make_case(text, args, "fast")
        kernel = schedule_case(case, "fast", H200).schedule.kernel
        joined = lower_kernel(kernel, H200, fast=True)
        waiting += any(isinstance(n, Barrier) and n.scope == "grid" for n in walk(joined))
        for form in (kernel, joined, split_grids(lower_reduce(lower_blocks(kernel)))):
            outputs = [np.full_like(o, 7) for o in case.outputs]
            interpret(form, merged_arguments(case.kernel, form, [*case.inputs, *outputs]))
            for got, want in zip(outputs, case.expected, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=f"seed {seed}\n{text}")
    assert waiting >= EACH - 1, "most are one launch whose blocks wait"


@pytest.mark.parametrize("group", range(2))
def test_on_the_cpu(group: int, first_seed: int) -> None:
    for seed in range(first_seed + group * EACH, first_seed + (group + 1) * EACH):
        text, args = random_recurrence(seed)
        case = make_case(text, args, "fast")
        found = weft.define(text)(*args)
        for got, want in zip(found if isinstance(found, tuple) else (found,), case.expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=f"seed {seed}\n{text}")
