"""The time model of GPU programs: what it counts, that it orders schedules as hardware does, and how quick it is."""

from __future__ import annotations

import time
from dataclasses import fields, replace
from typing import Any

import pytest

import weft
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.estimate import GpuEstimate, estimate_gpu
from weft.auto.gpu.launch_time import LaunchWork, launch_time, resident_blocks
from weft.auto.gpu.points import POINTS, PointsPlan
from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.auto.gpu.streams import Stream
from weft.cli.machine import describe_gpu
from weft.target.cuda.machine import gpu_for_arch
from weft.target.cuda.rates import MEASURED, rates_of

H200, A100, L40S, B200 = map(gpu_for_arch, ("sm_90", "sm_80", "sm_89", "sm_100"))
COPY = "def f(float(M,N) X) -> (O) { O(m,n) = X(m,n) }"
TURN = "def f(float(M,N) X) -> (O) { O(n,m) = X(m,n) }"


def started(text: str, *shapes: tuple[int, ...]) -> Any:
    return weft.schedule(weft.define(text), *shapes, numerics="fast", target="cuda")


def by_hand(text: str, threads: int, *, turned: bool = False) -> GpuEstimate:
    """A thread for each element, neighbours along the last iterator or the first."""
    s = started(text, (4096, 4096))
    m, n = s.loops(s.blocks()[0])
    if turned:
        s.reorder(n, m)
    block, thread = s.split(s.fuse(*((n, m) if turned else (m, n))), threads)
    s.bind(block, "block")
    s.bind(thread, "thread")
    return estimate_gpu(s.kernel, H200)


def test_a_copy_is_bound_by_memory() -> None:
    s = started(COPY, (4096, 4096))
    auto_schedule_gpu(s, H200)
    found = estimate_gpu(s.kernel, H200)
    assert found.bound == "memory"
    work = found.launches[0].work
    assert work.dram == pytest.approx(2 * 4 * 4096**2)
    assert work.l2 == pytest.approx(2 * 4 * 4096**2)


def test_threads_across_memory_move_whole_sectors_for_an_element() -> None:
    along, across = by_hand(COPY, 256), by_hand(COPY, 256, turned=True)
    assert across.launches[0].work.l2 == pytest.approx(8 * along.launches[0].work.l2)
    assert across.seconds > 2 * along.seconds


def test_few_threads_do_not_keep_memory_busy() -> None:
    assert by_hand(COPY, 32).seconds > 1.2 * by_hand(COPY, 256).seconds


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks"),
    [(256, 32, 0, 8), (256, 255, 0, 1), (1024, 64, 0, 1), (128, 32, 100 << 10, 2), (64, 16, 0, 32)],
)
def test_occupancy(threads: int, registers: int, shared: int, blocks: int) -> None:
    assert resident_blocks(H200, threads, registers, shared) == blocks


def test_the_last_round_of_blocks_counts_as_a_whole() -> None:
    work = LaunchWork(H200.sms, 256, 128, 0, 0.0, 0.0, issued=1e6, lsu=0.0)
    full, one_more = launch_time(work, H200), launch_time(replace(work, blocks=H200.sms + 1), H200)
    assert one_more.seconds > 1.8 * full.seconds


def test_streams_of_a_warp() -> None:
    assert Stream(1, 16, 16, 0.0).sectors == 16
    assert Stream(1, 4, 4096, 0.0).sectors == 32
    assert Stream(1, 4, None, 0.0).cycles == 32
    assert Stream(1, 2, 2, 0.0, beside=4, aligned=2).sectors > 8


def test_shared_memory_whose_threads_meet_in_a_bank_is_slower() -> None:
    times = {}
    for pad in (0, 1):
        s = started(TURN, (4096, 4096))
        n, m = s.loops(s.blocks()[0])
        (mo, mi), (no, ni) = s.split(m, 32), s.split(n, 32)
        s.reorder(no, mo, ni, mi)
        load, storage = s.cache_read("X", at=mo, scope="shared")
        if pad:
            s.pad_rows(storage, 1)
        for loop in (mo, no):
            s.bind(loop, "block")
        for loop in (ni, mi, *s.loops(load)[2:]):
            s.bind(loop, "thread")
        times[pad] = estimate_gpu(s.kernel, H200).launches[0].work.lsu
    assert times[0] > 4 * times[1]


def test_the_model_ranks_what_it_lists() -> None:
    draft = GpuDraft(started(COPY, (4096, 4096)), H200)
    stage = next(iter(draft.stages))
    plans = POINTS.plans(draft, stage)
    assert len(set(plans)) == len(plans) > 10
    best, worst = POINTS.ranked(draft, stage)[0], POINTS.ranked(draft, stage)[-1]
    assert isinstance(best, PointsPlan)
    assert isinstance(worst, PointsPlan)
    assert best.lanes == 4
    assert worst.lanes < best.lanes
    assert eval(repr(best), {"PointsPlan": PointsPlan, "Shape": type(best.shape)}) == best  # printable


@pytest.mark.parametrize("name", ["softmax", "matmul", "transpose", "sum_columns", "layer_norm"])
def test_every_machine_is_given_legal_schedules_that_its_memory_decides(name: str) -> None:
    """The faster the machine, the less time; blocks fit each of them."""
    times = {}
    for machine in (L40S, A100, H200, B200):
        shapes = {"layer_norm": ((16384, 4096), (4096,), (4096,)), "matmul": ((4096, 4096),) * 2}
        op = weft.ops.get(name, "bfloat16")
        s = weft.schedule(op, *shapes.get(name, ((16384, 4096),)), numerics="fast", target="cuda")
        auto_schedule_gpu(s, machine)
        found = estimate_gpu(s.kernel, machine)
        times[machine.name] = found.seconds
        for launch in found.launches:
            assert launch.work.threads <= machine.max_threads_per_block
            assert launch.work.shared <= machine.shared_per_block
    assert times["L40S"] > times["H200"]
    assert times["A100"] > times["H200"]


def test_it_takes_milliseconds() -> None:
    s = weft.schedule(weft.ops.get("softmax", "bfloat16"), (16384, 4096), numerics="fast", target="cuda")
    auto_schedule_gpu(s, H200)
    estimate_gpu(s.kernel, H200)
    start = time.process_time()
    for _ in range(5):
        estimate_gpu(s.kernel, H200)
    assert (time.process_time() - start) / 5 < 0.03


def test_explain_says_what_to_expect() -> None:
    told = weft.ops.get("softmax", "bfloat16").explain((16384, 4096), target="cuda")
    assert "bound by memory" in told
    assert "16384 blocks of 128 threads, occupancy" in told


def test_the_machine_says_where_its_figures_come_from() -> None:
    told = describe_gpu(A100)
    assert "108, 1.41 GHz" in told
    assert "measured on one H200" in told
    assert {f.name for f in fields(rates_of(A100.capability))} >= MEASURED
