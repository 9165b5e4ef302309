"""Recurrences on a device: the examples against numpy, also in calls that Python no longer sees."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import weft

sys.path.append(str(Path(__file__).parents[1] / "unit" / "auto"))  # the cases and their references
from test_auto_recurrences import CASES, TEXT


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
