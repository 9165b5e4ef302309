"""Schedules for GPUs: staging in shared memory, rings of stages, warps that multiply matrices together."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.ir.errors import ScheduleError
from weft.ir.interpret import interpret
from weft.ir.printer import print_kernel
from weft.operators.schedule import OperatorSchedule
from weft.target.cuda.lower import compile_kernel
from weft.target.cuda.machine import gpu_for_arch

NARROW = """
def product(bfloat16(M,K) A, bfloat16(K,N) B) -> (float32(M,N) C) {
    C(m,n) +=! float32(A(m,k)) * float32(B(k,n))
}"""

PLAIN = "def product(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"


def cooperate(s: OperatorSchedule, load: str, outer: int, threads: int, vector: int) -> None:
    whole = s.fuse(*s.loops(load)[outer:])
    pieces, lanes = s.split(whole, vector)
    turn, thread = s.split(pieces, threads)
    s.reorder(thread, turn, lanes)
    s.bind(thread, "thread")
    s.vectorize(lanes)
    s.unroll(turn)


def warp_tiles(m: int, n: int, k: int, stages: int = 3, type: str = "bf16") -> OperatorSchedule:
    """Blocks of 32 x 32 sums by 4 warps, each of them 16 x 16, 32 products deep."""
    text, steps, lanes = (NARROW, 16, 8) if type == "bf16" else (PLAIN, 8, 4)
    s = weft.schedule(weft.define(text), A=(m, k), B=(k, n), numerics="fast")
    i, j, r = s.loops("C")
    bi, i1 = s.split(i, 32)
    wi, i2 = s.split(i1, 16)
    mi, i3 = s.split(i2, 16)
    half, row = s.split(i3, 8)
    bj, j1 = s.split(j, 32)
    wj, j2 = s.split(j1, 16)
    nj, j3 = s.split(j2, 8)
    pair, odd = s.split(j3, 2)
    ko, k1 = s.split(r, 32)
    step, depth = s.split(k1, steps)
    s.reorder(bi, bj, ko, wi, wj, row, pair, step, mi, half, nj, odd, depth)
    store, _ = s.cache_write("C", at=bj, scope="global")
    load_a, a = s.pack("A", "i j", at=ko, scope="shared", pad=True)
    load_b, b = s.pack("B", "i j", at=ko, scope="shared", pad=True)
    for block in ("C_init", "C"):
        if m % 32 or n % 32 or (k % 32 and block == "C"):
            s.pad(block)
    for loop in (bi, bj):
        s.bind(loop, "block")
    for name, outer in (("C_init", 2), ("C", 3), (store, 2)):
        for loop in s.loops(name)[outer : outer + 4]:
            s.bind(loop, "thread")
    for load in (load_a, load_b):
        cooperate(s, str(load), 3, 128, lanes)
    s.tensorize(step, f"mma_{type}")
    s.pipeline(a, b, stages=stages)
    for storage in (a, b):
        s.pad_rows(storage, lanes)
    return s


def test_warps_multiply_rounded_matrices() -> None:
    """What is multiplied has 10 bits here, so that nothing is lost."""
    s = warp_tiles(64, 32, 96, type="tf32")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 10, shape).astype(np.float32) for shape in ((64, 96), (96, 32)))
    np.testing.assert_array_equal(s.build()(a, b), a @ b)
    program = compile_kernel(s.kernel, gpu_for_arch("sm_90"), fast=True, aligned={"A": 16, "B": 16, "C": 16})
    assert "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32" in program.source


@pytest.mark.parametrize(("m", "n", "k"), [(32, 32, 64), (32, 35, 37)])
def test_warps_multiply_matrices(m: int, n: int, k: int) -> None:
    s = warp_tiles(m, n, k)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float32)
    interpret(s.kernel, [a, b, c])
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(c, wanted, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(s.build()(a, b), wanted, rtol=1e-5, atol=1e-4)


def test_a_sum_runs_beyond_its_end_where_that_adds_zeros() -> None:
    s = warp_tiles(32, 32, 70)
    assert "< 70" not in print_kernel(s.kernel).split("tensorized")[1].split("C_store")[0]


def test_a_sum_keeps_its_guard_where_one_factor_is_not_zero() -> None:
    s = weft.schedule(weft.ops.matmul, A=(4, 6), B=(6, 4))
    i, j, r = s.loops("C")
    ko, _ = s.split(r, 4)
    s.reorder(ko, i, j)
    s.cache_write("C", at=None, scope="global")
    s.pack("A", "i j", at=ko, pad=True)
    with pytest.raises(ScheduleError, match="may read what block `C` writes beyond the edge"):
        s.pad("C")


def test_a_sum_that_starts_elsewhere_keeps_its_guard() -> None:
    """Added to -0, a product +0 would change it."""
    text = (
        "def f(float(N) a, float(N) b, float s) -> (c) { c(i) = s where i in 0:1\n c(i) += a(n) * b(n) where i in 0:1 }"
    )
    s = weft.schedule(weft.define(text), a=(6,), b=(6,), s=0.0)
    block = s.blocks()[-1]
    loops = s.loops(block)
    ko, _ = s.split(loops[-1], 4)
    s.cache_write("c", at=loops[0], scope="global")
    for name in ("a", "b"):
        s.pack(name, "i", at=ko, pad=True)
    with pytest.raises(ScheduleError, match="beyond the edge"):
        s.pad(block)


def test_lanes_of_a_warp_are_thread_loops() -> None:
    s = weft.schedule(weft.define(NARROW), A=(16, 16), B=(16, 8), numerics="fast")
    i, j, r = s.loops("C")
    mi, i1 = s.split(i, 16)
    half, row = s.split(i1, 8)
    nj, j1 = s.split(j, 8)
    pair, odd = s.split(j1, 2)
    step, k = s.split(r, 16)
    s.reorder(row, pair, step, mi, half, nj, odd, k)
    s.decompose_reduction("C", at=row)
    with pytest.raises(ScheduleError, match="8 by 4 lanes of a warp"):
        s.tensorize(step, "mma_bf16")
    s.bind(row, "thread")
    s.bind(pair, "thread")
    s.tensorize(step, "mma_bf16")


def test_matrix_instructions_are_for_fast_numerics() -> None:
    s = weft.schedule(weft.define(NARROW), A=(16, 16), B=(16, 8))
    with pytest.raises(ScheduleError):
        s.tensorize("m", "mma_bf16")


def test_rows_apart() -> None:
    s = weft.schedule(weft.ops.matmul, A=(4, 8), B=(8, 4))
    s.cache_read("A", at="m")
    s.pad_rows("A_cache", 3)
    assert "A_cache: float32[1, 11]" in print_kernel(s.kernel)
    a, b = np.arange(32, dtype=np.float32).reshape(4, 8), np.ones((8, 4), np.float32)
    np.testing.assert_array_equal(s.build()(a, b), a @ b)
