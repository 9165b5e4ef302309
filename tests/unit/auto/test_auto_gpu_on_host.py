"""Automatic GPU schedules down to CUDA text, which the host runs: matrix instructions, shuffles, copies in rings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scheduled_for_gpu import H200, SMALL, make_case, schedule_case

sys.path.append(str(Path(__file__).parents[1] / "target"))  # how CUDA text is run on the host

from cuda_on_host import HostRunner, needs_compiler
from run_compiled import Fenced

from weft.ir.dtype import SCALAR_TYPES
from weft.ir.numpy_dtypes import to_numpy
from weft.ops import library

pytestmark = needs_compiler

CASES: dict[str, list[tuple[int, ...]]] = {
    "matmul": [(64, 72), (72, 80)],
    "transposed_batched_matmul": [(2, 32, 48), (2, 64, 48)],
    "softmax": [(5, 640)],
    "layer_norm": [(3, 1000), (1000,), (1000,)],
    "sum_columns": [(70, 90)],
    "transpose": [(40, 70)],
    "bias_gelu": [(9, 136), (136,)],
}


#: Rows that begin anywhere in memory.
ODD: dict[str, list[tuple[int, ...]]] = {
    "softmax": [(9, 1101)],
    "layer_norm": [(9, 1273), (1273,), (1273,)],
    "rms_norm": [(9, 1279), (1279,)],
    "sum_rows": [(9, 1025)],
    "sum_columns": [(200, 301)],
    "bias_gelu": [(9, 1037), (1037,)],
}


def run(name: str, dtype: str, machine: Any, cases: dict[str, list[tuple[int, ...]]] = CASES) -> str:
    """The CUDA text, after its results were compared with the evaluator's."""
    rng = np.random.default_rng(0)
    element = to_numpy(SCALAR_TYPES[dtype])
    args = [rng.integers(-3, 4, shape).astype(element) for shape in cases[name]]
    case = make_case(library.program(name, dtype), args, "fast")
    kernel = schedule_case(case, "fast", machine).schedule.kernel
    runner = HostRunner(kernel, machine, fast=True, aligned=16)
    given = [Fenced(a) for a in (*case.inputs, *case.outputs)]
    assert runner(*(a.array for a in given)) == 0
    assert all(a.is_whole() for a in given)
    for got, want in zip(given[len(case.inputs) :], case.expected, strict=True):
        wide = [np.asarray(x).astype(np.float64) for x in (got.array, want)]
        np.testing.assert_allclose(*wide, rtol=2e-2 if dtype != "float32" else 1e-5, atol=1e-5)
    return runner.program.source


@pytest.mark.parametrize("machine", [H200, SMALL], ids=["H200", "small"])
@pytest.mark.parametrize("name", CASES)
def test_bfloat16(name: str, machine: Any) -> None:
    source = run(name, "bfloat16", machine)
    assert name != "matmul" or "mma_bf16" in source


@pytest.mark.parametrize("name", ODD)
def test_rows_that_begin_anywhere(name: str) -> None:
    source = run(name, "bfloat16", SMALL, ODD)
    if name in ("softmax", "layer_norm", "rms_norm", "sum_rows"):
        assert "load<16>" in source
        assert ") & 7)" in source
    assert ("load_cut(" in source) == (name in ("layer_norm", "rms_norm", "bias_gelu"))


@pytest.mark.parametrize("name", ["matmul", "softmax"])
def test_float32(name: str) -> None:
    assert "mma" not in run(name, "float32", SMALL)


def test_float16_products() -> None:
    assert "mma_f16" in run("matmul", "float16", SMALL)
