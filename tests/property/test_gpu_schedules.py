"""Random programs times random schedules with loops bound to blocks and threads: the grid form computes the same.

Some of the grids are built by NVRTC too, as far as it is there. ``WEFT_RANDOM_GPU_SCHEDULES`` says how many to try.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from error_bounds import error_bounds
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from schedule_cases import Case, NoMeaning, _interpreted, assert_same, draw_case, take_steps

from weft.ir.errors import ScheduleError, TargetError, UnsupportedError
from weft.ir.printer import print_kernel
from weft.ir.stmt import For, Kernel
from weft.ir.verify import verify
from weft.ir.visit import walk
from weft.schedules.schedule import Schedule
from weft.target.cuda.lower import compile_kernel, lowering_passes
from weft.target.cuda.machine import gpu_for_arch

EXAMPLES = int(os.environ.get("WEFT_RANDOM_GPU_SCHEDULES", "80"))
MACHINE = gpu_for_arch("sm_90")


def bind_loops(draw: Any, s: Schedule) -> None:
    """Loops made blocks and threads, here and there, as far as that is legal."""
    for loop in [n for n in walk(s.kernel.body) if isinstance(n, For)]:
        level = draw(st.sampled_from(["block", "thread", "thread", None]))
        if level is not None:
            try:
                s.bind(loop.var.name, level)
            except ScheduleError:
                continue


def joined(kernel: Kernel, fast: bool) -> Kernel:
    """``kernel`` in grid form, before sums are kept in variables, which may load what is not written yet."""
    for name, apply in lowering_passes(MACHINE, fast).items():
        kernel = apply(kernel)
        if name == "join_threads":
            break
    return kernel


def check_grid(case: Case, s: Schedule, *, build: bool) -> None:
    fast = s.numerics == "fast"
    with np.errstate(all="ignore"):
        expected = _interpreted(case, case.kernel)
        if expected is None:
            raise NoMeaning
        text = f"{case.text}\n{s.trace}\n{print_kernel(s.kernel)}"
        try:
            grid = joined(s.kernel, fast)
        except (UnsupportedError, TargetError, ScheduleError):
            return
        verify(grid)
        found = _interpreted(case, grid)
        assert found is not None
        limits = error_bounds(case.kernel, case.arguments) if fast else [None] * len(found)
        for actual, right, limit in zip(found, expected, limits):
            assert_same(actual, right, limit, f"{text}\n{print_kernel(grid)}")
    if build:
        compile_kernel(s.kernel, MACHINE, fast=fast)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(st.data())
def test_grids_keep_the_result(data: Any) -> None:
    try:
        case = draw_case(data.draw)
        take_steps(case, data.draw, most=4)
        assert case.schedule is not None
        bind_loops(data.draw, case.schedule)
        check_grid(case, case.schedule, build=not data.draw(st.integers(0, 3)))
    except NoMeaning:
        assume(False)
