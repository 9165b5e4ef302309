"""Recurrences on a device: the examples against numpy, also in calls that Python no longer sees."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel

sys.path.append(str(Path(__file__).parents[1] / "unit" / "auto"))  # the cases and their references
sys.path.append(str(Path(__file__).parents[1] / "unit" / "passes"))
sys.path.append(str(Path(__file__).parents[1] / "unit" / "target"))
from run_compiled import make_arguments
from test_auto_recurrences import CASES, TEXT
from test_passes_split_grids import PROGRAMS


@pytest.mark.parametrize("name", CASES)
def test_against_numpy(name: str) -> None:
    reference, cases = CASES[name]
    op = weft.define(TEXT, entry=name)
    for args in cases:
        given = [weft.cuda.DeviceArray.from_numpy(a) for a in args]
        wanted = reference(*(a.astype(np.float64) for a in args))
        for _ in range(3):
            found = op(*given)
            weft.cuda.synchronize()
            for got, want in zip(found if isinstance(found, tuple) else (found,), wanted):
                np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_grid_barriers(name: str) -> None:
    """Many calls one after another: the counter that blocks wait at is as it was after each of them."""
    kernel = parse_kernel(PROGRAMS[name])
    given, want = make_arguments(kernel)
    interpret(kernel, [given, want])
    device, got = weft.cuda.DeviceArray.from_numpy(given), weft.cuda.DeviceArray.from_numpy(np.zeros_like(want))
    run = weft.kernel(kernel)
    for _ in range(5):
        run(device, got)
        weft.cuda.synchronize()
        np.testing.assert_array_equal(got.numpy(), want)
