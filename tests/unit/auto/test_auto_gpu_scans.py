"""Running sums in segments that are fetched ahead, and of rows longer than shared memory: CUDA text, by the host."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scheduled_for_gpu import H200, make_case, schedule_case

sys.path.append(str(Path(__file__).parents[1] / "target"))  # how CUDA text is run on the host

from cuda_on_host import HostRunner, needs_compiler
from run_compiled import Fenced

import weft.auto.gpu.scans as scans

pytestmark = needs_compiler

ROWS = "def f(float(M,N) X) -> (float(M,N) S) { S(m,0) = X(m,0)\n S(m,t) = S(m,t-1) + X(m,t) where t in 1:N }"
COLUMNS = "def f(float(N,M) X) -> (float(N,M) S) { S(0,m) = X(0,m)\n S(t,m) = S(t-1,m) + X(t,m) where t in 1:N }"
LINEAR = """def f(float(N,M) A, float(N,M) B) -> (float(N,M) H) {
    H(0,m) = B(0,m)
    H(t,m) = A(t,m) * H(t-1,m) + B(t,m) where t in 1:N
}"""


def compare(text: str, shape: tuple[int, int], shared: int) -> str:
    """The CUDA text for a machine with so much ``shared`` memory, its results compared with the evaluator's."""
    rng, machine = np.random.default_rng(0), replace(H200, shared_per_block=shared)
    inputs = [rng.integers(-2, 3, shape).astype(np.float32) for _ in range(1 + text.count("B)"))]
    case = make_case(text, inputs, "fast")
    runner = HostRunner(schedule_case(case, "fast", machine).schedule.kernel, machine, fast=True, aligned=16)
    given = [Fenced(a) for a in (*case.inputs, *case.outputs)]
    assert runner(*(a.array for a in given)) == 0
    assert all(a.is_whole() for a in given)
    np.testing.assert_allclose(given[-1].array, case.expected[0], rtol=1e-4, atol=1e-4)
    return runner.program.source


@pytest.mark.parametrize("text", [COLUMNS, LINEAR])
def test_columns_in_segments(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(scans, "COLUMN_STEPS", 32)
    source = compare(text, (1 + 9 * 31, 16), 64 << 10)
    assert "async_copy<16>" in source


def test_rows_longer_than_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "ROW_STEPS", 200)
    monkeypatch.setattr(scans, "CHUNKS", 16)
    source = compare(ROWS, (2, 1 + 5 * 210), 4 << 10)
    assert "for (int t_o" in source


def test_long_rows_need_not_come_out_even(monkeypatch: pytest.MonkeyPatch) -> None:
    """What segments leave of rows goes on from them, in a launch of its own."""
    monkeypatch.setattr(scans, "ROW_STEPS", 200)
    monkeypatch.setattr(scans, "CHUNKS", 16)
    monkeypatch.setattr(scans, "EVEN_CHUNKS", 33)
    source = compare(ROWS, (2, 1 + 1409), 8 << 10)  # a prime number of steps: 419 are left
    assert "for (int t_o = 0; t_o < 2;" in source
    assert source.count("__global__") == 2


@pytest.mark.parametrize(
    ("count", "length", "second"), [(3855, 15, 16), (4095, 15, 16), (4369, 17, 16), (8191, 33, None)]
)
def test_chunks_come_out_even_where_they_can(count: int, length: int, second: int | None) -> None:
    """Then no step is tested for, in chunks nor in chunks of these."""
    assert scans._odd_length(count, is_whole=False) == length
    chunks = -(-count // length)
    assert scans._root(chunks - 1) == (second if second is None or (chunks - 1) % second == 0 else chunks)
