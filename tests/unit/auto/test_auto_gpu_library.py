"""Automatic GPU schedules of the whole operator library: the right results, as scheduled and as a grid of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scheduled_for_gpu import H200, check_case, make_case, schedule_case
from test_ops_library import CASES, make_argument

from weft.ops import library
from weft.target.cuda.lower import compile_kernel


def arguments(name: str, dtype: str) -> list[Any]:
    rng = np.random.default_rng(len(name))
    return [make_argument(spec, dtype, rng) for spec in CASES[name].args]


@pytest.mark.parametrize("name", sorted(CASES))
def test_fast(name: str) -> None:
    made = check_case(library.program(name, "float32"), arguments(name, "float32"))
    assert made.decisions


@pytest.mark.parametrize(
    "name", ["layer_norm", "softmax", "sum_columns", "scatter_add", "max_pool2d", "moments", "mlp1"]
)
def test_strict_keeps_every_bit(name: str) -> None:
    check_case(library.program(name, "float32"), arguments(name, "float32"), "strict")


@pytest.mark.parametrize("name", ["softmax", "rms_norm", "sum_rows", "lut1", "avg_pool2d", "transpose"])
def test_narrow_elements(name: str) -> None:
    check_case(library.program(name, "bfloat16"), arguments(name, "bfloat16"), tolerance=2e-2)


@pytest.mark.parametrize(
    "name", ["softmax", "layer_norm", "bias_gelu", "sum_columns", "transpose", "scatter_add", "lut1"]
)
def test_nvrtc_builds_it(name: str) -> None:
    case = make_case(library.program(name, "bfloat16"), arguments(name, "bfloat16"), "fast")
    made = schedule_case(case, "fast", H200)
    kernel = made.schedule.kernel
    built = compile_kernel(kernel, H200, fast=True, aligned={b.name: 16 for b in kernel.buffers})
    assert built.cubin
    assert built.launches
