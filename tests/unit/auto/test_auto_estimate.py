"""The time model: counts that can be computed by hand, and the order of schedules whose order is known."""

from __future__ import annotations

import time

import pytest

import weft
from weft.auto.estimate import Estimate, estimate
from weft.auto.estimate_compute import BROADCAST
from weft.operators.schedule import OperatorSchedule
from weft.schedules.schedule import Schedule
from weft.target.cpu.host import NAMED
from weft.target.cpu.host_facts import CacheFacts, HostFacts
from weft.target.cpu.machine_model import MachineModel, assume_model

CACHES = (CacheFacts(1, 32 << 10, 8, 64, 1), CacheFacts(2, 1 << 20, 8, 64, 1), CacheFacts(3, 32 << 20, 16, 64, 4))
MODEL = assume_model(NAMED["x86-64-avx512"], HostFacts("GenuineIntel", 6, "model", 3000.0, 4, 4, CACHES))


def matmul(m: int = 256, n: int = 256, k: int = 256) -> OperatorSchedule:
    return weft.schedule(weft.ops.matmul, A=(m, k), B=(k, n), numerics="fast")


def tiled(rows: int = 8, columns: int = 32, *, register: bool = True, m: int = 256, n: int = 256) -> Schedule:
    s = matmul(m, n)
    s.split("m", rows)
    s.split("n", columns)
    s.reorder("n_o", "m_o", "k", "m_i", "n_i")
    s.vectorize("n_i")
    s.unroll("m_i")
    if register:
        s.cache_write("C", scope="register", at="m_o")
    return s


def run(s: Schedule, threads: int = 1, model: MachineModel = MODEL, *, fast: bool = True) -> Estimate:
    return estimate(s.kernel, model, threads, fast=fast)


def seconds(s: Schedule, threads: int = 1) -> float:
    return run(s, threads).seconds


def test_a_register_tile_comes_near_the_peak() -> None:
    found = run(tiled())
    assert found.flops == pytest.approx(2 * 256**3, rel=0.01)
    assert 0.6 * MODEL.peak < found.flops / found.seconds < MODEL.peak
    assert found.bound == "compute"


def test_instructions_of_a_register_tile() -> None:
    (body,) = (n for n in run(tiled()).nests if n.block == "C")
    times = 256 // 8 * (256 // 32) * 256
    assert body.counts.multiplies == 16 * times  # 8 rows of 2 vectors
    assert body.counts.loads == pytest.approx((2 + 8 * BROADCAST) * times)  # vectors of B, elements of A for all lanes
    assert body.counts.stores == 0
    assert body.lanes == 32


def test_strict_sums_take_a_product_and_a_sum() -> None:
    (strict,) = (n for n in run(tiled(), fast=False).nests if n.block == "C")
    (fused,) = (n for n in run(tiled()).nests if n.block == "C")
    assert strict.counts.simple == fused.counts.multiplies
    assert fused.counts.simple == 0


def test_sums_in_memory_and_tiles_beyond_the_registers_are_slower() -> None:
    assert seconds(tiled(register=False)) > 1.5 * seconds(tiled())
    assert seconds(tiled(16, 64)) > 1.5 * seconds(tiled())
    assert run(tiled(16, 64)).bound == "spills"


def test_one_sum_waits_for_itself() -> None:
    assert run(tiled(1, 16)).bound == "latency"
    assert seconds(tiled(1, 16)) > 3 * seconds(tiled())


def test_edges_of_tiles_cost_what_is_computed_of_them() -> None:
    """All but the last tiles are full, and run without tests; rows begin at a line."""
    assert 0.95 * seconds(tiled()) < seconds(tiled(m=250, n=272)) < 1.12 * seconds(tiled())


def test_tiles_that_two_loops_count_run_without_tests() -> None:
    """As those of one loop do; and what the tests around keep out is not left out twice."""
    one, two = tiled(m=140), tiled(m=140)
    two.split("m_o", 5)
    work = [next(n for n in run(s).nests if n.block == "C") for s in (one, two)]
    assert work[1].counts.multiplies == pytest.approx(work[0].counts.multiplies, rel=0.05)
    assert work[1].seconds == pytest.approx(work[0].seconds, rel=0.1)


def test_rows_that_begin_anywhere_cost_more_lines() -> None:
    assert 1.1 * seconds(tiled(n=272)) < seconds(tiled(n=270)) < 1.5 * seconds(tiled(n=272))


def test_threads_share_parallel_loops_only() -> None:
    s = tiled()
    alone = seconds(s)
    assert seconds(s, 4) == alone
    s.parallel("n_o")
    assert alone / 4.2 < seconds(s, 4) < alone / 3.5
    few = tiled(8, 128)  # two iterations for four threads
    few.parallel("n_o")
    assert {n.threads for n in run(few, 4).nests} == {2}


def test_traffic_by_hand() -> None:
    s = weft.schedule(weft.define("def f(float(M,N) A) -> (B) { B(m,n) = A(m,n) + 1 }"), A=(8192, 4096))
    found = run(s)
    size = 8192 * 4096 * 4
    assert found.bound == "memory"
    assert found.traffic == {"L1": 2 * size, "L2": 2 * size, "L3": 2 * size}
    expected = size / MODEL.memory.read + size / MODEL.memory.write
    assert found.seconds == pytest.approx(expected, rel=0.2)


def test_what_fits_a_cache_stays_there() -> None:
    found = run(tiled(m=64, n=64))
    assert found.traffic["L2"] == 0
    assert found.traffic["L3"] == 0


def transposed(order: str) -> Schedule:
    s = weft.schedule(weft.define("def t(float(M,N) A) -> (B) { B(n,m) = A(m,n) }"), A=(2048, 2048))
    if order == "tiled":
        s.tile("n", "m", 16, 16)
        s.vectorize("m_i")
        s.unroll("n_i")
    return s


def test_transposing_by_tiles_moves_less() -> None:
    assert run(transposed("tiled")).traffic["L1"] < run(transposed("plain")).traffic["L1"] / 4


def test_stages_together_in_rows_move_less() -> None:
    apart = weft.schedule(weft.ops.softmax, X=(8192, 4096), numerics="fast")
    rows = apart.copy()
    row = rows.loops("O")[0]
    for block in ("Total", "E", "Top"):
        rows.compute_at(block, row)
    assert run(rows).traffic["L3"] < 0.6 * run(apart).traffic["L3"]
    assert seconds(rows) < seconds(apart)


def test_lookups_and_tests_are_counted() -> None:
    lookup = weft.define("def l(float(V,D) T, int32(N) I) -> (O) { O(n,d) = T(I(n),d) }")
    found = run(weft.schedule(lookup, T=(1 << 16, 64), I=(4096,)))
    assert found.traffic["L1"] >= 4096 * 64 * 4
    masked = weft.define("def m(float(N,N) A) -> (B) { B(i,j) = j <= i ? A(i,j) : 0.0 }")
    assert run(weft.schedule(masked, A=(256, 256))).seconds > 0


def test_symbolic_sizes_can_be_given() -> None:
    s = weft.schedule(weft.ops.matmul)
    small, large = (estimate(s.kernel, MODEL, sizes=dict.fromkeys("MNK", n)) for n in (64, 256))
    assert small.flops == 2 * 64**3
    assert large.seconds > 30 * small.seconds


def test_loops_that_never_run_take_no_time() -> None:
    s = matmul(8, 8, 8)
    s.split("m", 16, tail="separate")
    assert run(s).flops == pytest.approx(2 * 8**3)


def test_every_operator_of_the_library_has_an_estimate() -> None:
    found = {}
    for name in dir(weft.ops):
        op = getattr(weft.ops, name)
        if isinstance(op, weft.Operator):
            found[name] = run(weft.schedule(op), 2)
    assert len(found) > 60
    assert all(0 < e.seconds < float("inf") for e in found.values())


def test_an_estimate_takes_about_a_millisecond() -> None:
    s = tiled()
    s.pack("B", "j/32 i j%32", at="n_o")
    best = min(_timed(s) for _ in range(20))
    assert best < 5e-3


def _timed(s: Schedule) -> float:
    start = time.thread_time()
    run(s)
    return time.thread_time() - start


def test_elements_for_all_lanes_take_longer_to_load_than_vectors() -> None:
    """12 rows of a vector and 6 rows of two have as many sums; the former load 12 elements for them."""
    model = assume_model(NAMED["x86-64-avx2"], HostFacts("AuthenticAMD", 25, "model", 2400.0, 2, 2, CACHES))
    times = [run(tiled(rows, columns, m=240, n=240), model=model).seconds for rows, columns in ((12, 8), (6, 16))]
    assert 1.15 < times[0] / times[1] < 1.4  # measured: 1.2


@pytest.mark.parametrize("shapes", [((1, 3), (192, 3)), ((3, 192), (3, 192)), ((1, 192), (3, 192))])
def test_a_patch_that_is_read_whole_is_read_along_memory(shapes: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """Its channels, rows and columns are one loop, whose digits count through them: it was taken for one that gathers
    each element, 35 times as long."""
    op = weft.define(
        "def f(float(N,C,H,W) X, float(F,C,16,16) K) -> (O) { O(n,f,y,x) +=! X(n,c,16*y+r,16*x+s)*K(f,c,r,s) }"
    )
    (n, channels), (features, _) = shapes
    matrix = weft.define("def f(float(N,C) X, float(F,C) K) -> (O) { O(n,f) +=! X(n,c)*K(f,c) }")
    patch = op.schedule(X=(n, channels, 16, 16), K=(features, channels, 16, 16))
    flat = matrix.schedule(X=(n, channels * 256), K=(features, channels * 256))
    assert seconds(patch) < 2 * seconds(flat)
