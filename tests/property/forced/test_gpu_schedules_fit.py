"""No automatic schedule for a GPU ends in an error: whatever is written, some way to run it is found, and its text.

Nothing is computed: results are those of `test_forced_decisions`. ``WEFT_SCHEDULES_THAT_FIT`` says how many to try.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest
from forced_formulas import Drawn, draw_program

import weft
from weft.auto.gpu.fits import surely_fits
from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.operators.scheduling import Scheduling
from weft.operators.signature import check_call
from weft.operators.stages import build
from weft.schedules.find import top_nests
from weft.schedules.schedule import Schedule
from weft.target.cpu.host import host_machine
from weft.target.cuda.lower import emit_kernel
from weft.target.cuda.machine import GpuMachine, gpu_for_arch

#: Programs in all, of about so many iterations, in parts that tests run side by side.
CASES, POINTS, PARTS = int(os.environ.get("WEFT_SCHEDULES_THAT_FIT", "210")), 200_000, 6


def schedule_of(drawn: Drawn, numerics: str) -> Schedule | None:
    """The loops of a program for its arguments; None where these do not go together."""
    try:
        op = weft.define(drawn.text)
        signature = check_call(op.interface, drawn.arguments, None).signature
        made = build(op.program, signature, host_machine(), True, Scheduling("naive", "strict"))
        return Schedule(made.unscheduled(), numerics=numerics, sizes=made.sizes)  # type: ignore[arg-type]
    except weft.Error:
        return None


def draw_machine(rng: random.Random) -> GpuMachine:
    machine = gpu_for_arch(rng.choice(["sm_80", "sm_90"]))
    return replace(machine, name="small", sms=rng.choice([1, 2, 8])) if rng.random() < 0.4 else machine


@pytest.mark.filterwarnings("ignore::weft.Warning")
@pytest.mark.parametrize("part", range(PARTS))
def test_some_way_fits(part: int, first_seed: int) -> None:
    scheduled = 0
    for seed in range(first_seed + 10_000 * part, first_seed + 10_000 * part + CASES // PARTS):
        rng = random.Random(seed)
        s = schedule_of(draw_program(rng, POINTS), rng.choice(["fast", "fast", "strict"]))
        if s is None:
            continue
        machine, start = draw_machine(rng), s.kernel
        fast = s.numerics != "strict"
        emit_kernel(start, machine, fast=fast)  # as it is written, it fits
        try:
            auto_schedule_gpu(s, machine)
            emit_kernel(s.kernel, machine, fast=fast, aligned={b.name: 256 for b in s.kernel.buffers})
        except Exception as error:
            sure = all(surely_fits(nest, machine) for nest in top_nests(s.kernel))
            raise AssertionError(f"seed {seed} on {machine.arch}, {sure=}: {error}") from error
        scheduled += 1
    assert scheduled > CASES // PARTS // 2
