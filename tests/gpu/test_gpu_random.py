"""Random GPU programs with barriers on a device: results as the interpreter has them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "property"))
from check_gpu_program import NoMeaning, compare, copies, meaning
from gpu_programs import random_gpu_kernel

from weft.ir.errors import UnsupportedError


@pytest.mark.parametrize("group", range(10))
def test_random_programs(group: int, run_kernel: Callable[..., list[Any]]) -> None:
    checked = 0
    for seed in range(group * 20, group * 20 + 20):
        kernel = random_gpu_kernel(seed)
        try:
            args, want = meaning(kernel, seed)
            got = run_kernel(kernel, copies(args))
        except (NoMeaning, UnsupportedError):
            continue
        arrays = [a for a in want if isinstance(a, np.ndarray)]
        scalars = [a for a in want if not isinstance(a, np.ndarray)]
        compare("cuda", kernel, [*scalars, *got], [*scalars, *arrays])
        checked += 1
    assert checked >= 10
