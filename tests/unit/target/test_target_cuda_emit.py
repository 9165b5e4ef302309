"""CUDA text of every node kind and type: built by NVRTC, and run by the host against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_on_host import HostRunner, check_on_host, needs_compiler
from cuda_programs import Sample, samples

from weft.ir.parser import parse_kernel

pytestmark = needs_compiler
SAMPLES = {s.name: s for s in samples()}


def check(sample: Sample) -> HostRunner:
    with np.errstate(all="ignore"):
        return check_on_host(sample.text, sample.args, fast=sample.fast, tolerance=sample.tolerance)


@pytest.mark.parametrize("name", SAMPLES)
def test_results(name: str) -> None:
    check(SAMPLES[name])


def test_temporaries_and_tests_of_sizes_around_launches() -> None:
    program = check(SAMPLES["sizes of a call 5"]).program
    assert [b.name for b in program.temporaries] == ["T"]
    assert len(program.launches) == 3
    assert [launch.condition is not None for launch in program.launches] == [False, True, True]


def test_failed_assert_reports_site_and_values_and_stops_what_follows() -> None:
    text = """kernel k(I: int32[1000], out B: int32[1000]) {
        for i in 0:1000 { assert I[i] >= 0_i32, "negative {0} at {1}", int64(I[i]), i
                        assert I[i] < 9_i32, "large {0} at {1}", int64(I[i]), i }
        block i in 0:10 { thread j in 0:100 { B[i * 100 + j] = I[i * 100 + j] + 1_i32 } } }"""
    runner = HostRunner(parse_kernel(text))
    good = np.arange(1000, dtype=np.int32) % 9
    out = np.zeros(1000, np.int32)
    assert runner(good, out) == 0
    np.testing.assert_array_equal(out, good + 1)
    bad = good.copy()
    bad[637] = 50
    out[:] = 0
    assert runner(bad, out) == 2
    assert list(runner.record[1:3]) == [50, 637]
    assert not out.any()
    assert [s.message for s in runner.program.sites] == ["negative {0} at {1}", "large {0} at {1}"]


def test_large_shared_memory_is_asked_for_at_the_launch() -> None:
    assert check(SAMPLES["large shared memory"]).program.launches[0].shared_bytes == 65536


def test_subscripts_beyond_32_bits_are_computed_in_64() -> None:
    far = 2_900_000 * 2000
    text = """kernel k(A: uint8[3000000, 2000], I: int32[4], out B: uint8[4]) {
        block b in 0:2 { thread t in 0:2 { B[b*2+t] = A[int64(I[b*2+t]), b*2+t] } } }"""
    runner = HostRunner(parse_kernel(text))
    assert "(long long)" in runner.program.source
    values, out = np.arange(40, 44, dtype=np.uint8), np.zeros(4, np.uint8)
    runner(_Address(values.ctypes.data - far), np.full(4, 2_900_000, np.int32), out)
    np.testing.assert_array_equal(out, values)


class _Address:
    """Looks like an array that starts at an address: only what lies far behind it is read."""

    def __init__(self, address: int) -> None:
        self.ctypes = self
        self.data = address


def test_one_barrier_for_each_reduction_and_two_in_a_loop() -> None:
    source = check(SAMPLES["rows"]).program.source
    assert source.count("__shfl_xor_sync") == 10
    assert source.count("__syncthreads") == 2
    assert check(SAMPLES["reduction in a loop"]).program.source.count("__syncthreads") == 2


def test_guarded_vectors_are_wide_where_all_lanes_are_inside() -> None:
    sample = SAMPLES["guarded bfloat16 61"]
    assert "load<16>" in check(sample).program.source
    assert "load<" not in check_on_host(sample.text, aligned=False).program.source


def test_rows_that_are_not_aligned_are_read_in_smaller_pieces() -> None:
    source = check(SAMPLES["rows of 56 bytes"]).program.source
    assert "load<8>" in source
    assert "load<16>" not in source


def test_copies_into_rings_run_on_their_own() -> None:
    source = check(SAMPLES["ring of copies 9"]).program.source
    assert source.count("async_copy<16>(") + source.count("async_copy_or_zero<16>(") == 3
    assert source.count("async_wait<1>();") == 1
