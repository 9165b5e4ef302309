"""Stores past the caches: a hint that a trace carries, refused where it makes no sense."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ir.errors import ScheduleError
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.verify import verify
from weft.schedules.schedule import Schedule
from weft.schedules.stream import check_stream, stream
from weft.target.cpu.host import NAMED
from weft.target.cpu.lower import assembly

TEXT = """kernel k(A: float32[4, 64], out B: float32[4, 64]) {
    alloc T: float32[4, 64] {
        for i in 0:4 { vector j in 0:64 { T[i, j] = A[i, j] + 1.0 } }
        for i in 0:4 { vector j in 0:64 { B[i, j] = T[i, j] * 2.0 } } } }"""


@pytest.mark.parametrize("buffer", ["B", "T"])
def test_results_and_temporaries(buffer: str) -> None:
    kernel = parse_kernel(TEXT)
    assert check_stream(kernel, buffer, numerics="strict").ok
    after = stream(kernel, buffer).kernel
    assert "vmovntps" in assembly(after, NAMED["x86-64-avx512"])
    assert "vmovntps" not in assembly(kernel, NAMED["x86-64-avx512"])


def test_refusals() -> None:
    assert check_stream(parse_kernel(TEXT), "A", numerics="strict").reason == "nothing is stored to `A`"
    local = parse_kernel(TEXT.replace("alloc T: float32[4, 64]", "alloc T: float32[4, 64] in local"))
    assert check_stream(local, "T", numerics="strict").reason == "`T` is in local memory, which is close already"


def test_a_scheduled_operator_streams_and_its_trace_reads_back() -> None:
    double = weft.define("def double(float(M,N) A) -> (B) { B(m,n) = 2 * A(m,n) }")
    s = weft.schedule(double, A=(32, 64))
    s.parallel("m")
    s.stream("B")
    assert 'stream("B")' in str(s.trace)
    again = weft.schedule(double, A=(32, 64))
    again.apply(s.trace)
    assert again.kernel == s.kernel
    a = np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)
    np.testing.assert_array_equal(s.build()(a), 2 * a)


LOOPS = """
kernel k(A: float32[4, 8], out B: float32[4, 8]) {
    alloc T: float32[4, 8] {
        for i in 0:4 {
            call HINT
            for j in 0:8 { block T(vi spatial 0:4 = i, vj spatial 0:8 = j)
                reads A[vi, vj] writes T[vi, vj] { T[vi, vj] = A[vi, vj] + 1.0 } }
            for k in 0:8 { block B(vi spatial 0:4 = i, vj spatial 0:8 = k)
                reads T[vi, vj] writes B[vi, vj] { B[vi, vj] = T[vi, vj] * 2.0 } } } } }"""


@pytest.mark.parametrize("hint", ["stream(&T[0, 0])", "prefetch(&T[i, 0])"])
def test_storage_that_moves_inwards_stays_around_its_hints(hint: str) -> None:
    s = Schedule(parse_kernel(LOOPS.replace("HINT", hint)))
    s.store_at("T", "i")
    verify(s.kernel)
    assert print_kernel(s.kernel).index("alloc T") < print_kernel(s.kernel).index(hint)


def test_storage_does_not_leave_a_hint_outside() -> None:
    s = Schedule(parse_kernel(LOOPS.replace("call HINT", "")))
    s.stream("T")
    with pytest.raises(ScheduleError) as refused:
        s.store_at("T", "i")
    assert refused.value.why == "a call outside loop `i` names the memory of `T`"


@pytest.mark.parametrize("offset", [0, 1, 2, 4, 8, 15])
def test_results_that_start_anywhere(offset: int) -> None:
    """Whole lines, pieces of 16 bytes, or plain stores, as the address allows."""
    double = weft.define("def double(float(M,N) A) -> (B) { B(m,n) = 2 * A(m,n) }")
    s = weft.schedule(double, A=(6, 80))
    s.vectorize("n", 64)
    s.stream("B")
    a = np.random.default_rng(0).standard_normal((6, 80)).astype(np.float32)
    memory = np.zeros(6 * 80 + 32, np.float32)
    start = (-memory.ctypes.data % 64) // 4 + offset
    b = memory[start : start + 480].reshape(6, 80)
    s.build()(a, out=b)
    np.testing.assert_array_equal(b, 2 * a)
    assert not memory[:start].any()
    assert not memory[start + 480 :].any()
