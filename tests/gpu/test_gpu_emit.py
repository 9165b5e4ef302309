"""Everything the CUDA target has, run on a device against the interpreter."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "unit" / "target"))  # the programs and how results are compared

from cuda_programs import samples
from run_compiled import assert_same_bits, make_arguments

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel

SAMPLES = {s.name: s for s in samples()}


@pytest.mark.parametrize("name", SAMPLES)
def test_results(name: str, run_kernel: Callable[..., list[np.ndarray[Any, Any]]]) -> None:
    sample = SAMPLES[name]
    kernel = parse_kernel(sample.text)
    args = make_arguments(kernel) if sample.args is None else sample.args
    want = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    with np.errstate(all="ignore"):
        interpret(kernel, want)
        got = run_kernel(kernel, args, numerics="fast" if sample.fast else "strict")
        for buffer, g, w in zip(kernel.buffers, got, (w for w in want if isinstance(w, np.ndarray))):
            if sample.tolerance:
                wide = g.astype(np.float64), w.astype(np.float64)
                np.testing.assert_allclose(*wide, rtol=sample.tolerance, atol=sample.tolerance, err_msg=buffer.name)
            else:
                assert_same_bits(buffer.name, g, w)
