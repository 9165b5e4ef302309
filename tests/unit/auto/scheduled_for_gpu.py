"""Programs scheduled for a small GPU, and run as scheduled or as the grid of threads that CUDA text is made from."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.auto.driver import AutoSchedule
from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.ir.interpret import interpret
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.stmt import Kernel
from weft.lang.parse import parse_programs
from weft.schedules.merge_axes import merged_arguments
from weft.schedules.schedule import Schedule
from weft.target.cuda.lower import lower_kernel
from weft.target.cuda.machine import gpu_for_arch
from weft.tensor.evaluate import evaluate
from weft.tensor.lower import lower
from weft.tensor.normalize import normalize
from weft.tensor.program import TensorProgram
from weft.tensor.specialize import solve_sizes, specialize

sys.path.append(str(Path(__file__).parents[1] / "ops"))  # the cases of the operator library

H200 = gpu_for_arch("sm_90")
#: So few multiprocessors that small programs have blocks for all of them.
SMALL = replace(H200, name="small", sms=2)


class Case(NamedTuple):
    """A program for given arguments: its loops, what it is called with, what it should give."""

    kernel: Kernel
    inputs: list[Any]
    outputs: list[Any]
    expected: tuple[Any, ...]
    sizes: dict[str, int]


def make_case(program: TensorProgram | str, args: Sequence[Any], numerics: str) -> Case:
    """``expected`` is what the evaluator says; under strict numerics what the plain loops give, bit for bit.

    Nothing is computed for ``"unchecked"`` numerics.
    """
    found = parse_programs(program)["f"] if isinstance(program, str) else program
    given = dict(zip((p.name for p in found.params), args))
    shapes = {b.name: np.shape(given[b.name]) for b in found.inputs}
    sizes = solve_sizes(found, shapes, {c.name: int(given[c.name]) for c in found.constants})
    special = specialize(found, sizes)
    kernel, inputs = lower(normalize(special)), [given[p.name] for p in special.params]
    expected = () if numerics == "unchecked" else evaluate(found, args)
    if numerics == "strict":
        expected = tuple(np.zeros_like(e) for e in expected)
        interpret(kernel, [*inputs, *expected])
    outputs = [np.zeros([int(e.value) for e in b.shape], to_numpy(b.dtype)) for b in special.outputs]  # type: ignore[attr-defined]
    return Case(kernel, inputs, outputs, expected, sizes)


def schedule_case(case: Case, numerics: Any, machine: Any = SMALL) -> AutoSchedule:
    return auto_schedule_gpu(Schedule(case.kernel, numerics=numerics, sizes=case.sizes), machine)


def check_case(
    program: TensorProgram | str, args: Sequence[Any], numerics: Any = "fast", tolerance: float = 1e-4
) -> AutoSchedule:
    """Runs the scheduled program, and its grid of threads, and compares."""
    case = make_case(program, args, numerics)
    made = schedule_case(case, numerics)
    for kernel in (made.schedule.kernel, lower_kernel(made.schedule.kernel, SMALL, fast=numerics == "fast")):
        outputs = [np.full_like(o, 7) for o in case.outputs]
        interpret(kernel, merged_arguments(case.kernel, kernel, [*case.inputs, *outputs]))
        for got, want in zip(outputs, case.expected, strict=True):
            if numerics == "strict":
                np.testing.assert_array_equal(got, want)
            else:
                wide = [np.asarray(x).astype(np.float64) for x in (got, want)]
                np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)
    return made
