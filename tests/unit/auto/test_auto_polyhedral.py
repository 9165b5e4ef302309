"""Polyhedral scheduling computes what the program says, and does what it is known for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from polyhedral_programs import TEXTS, program

import weft.auto.draft
import weft.auto.polyhedral
from weft.auto.draft import Draft
from weft.auto.plan import Decision
from weft.auto.polyhedral import polyhedral_schedule
from weft.ir.interpret import interpret
from weft.ir.stmt import For, Kernel
from weft.ir.verify import verify
from weft.poly import isl_schedule
from weft.runtime.kernel import load_kernel
from weft.schedules.find import loops_around
from weft.schedules.schedule import Schedule
from weft.target.cpu.host import NAMED
from weft.target.cpu.lower import compile_kernel

pytest.importorskip("islpy")
MACHINE = NAMED["x86-64-avx512"]


def arguments(kernel: Kernel, seed: int) -> list[Any]:
    """Numbers of which no difference is lost: well away from zero, the diagonals large enough to divide by."""
    rng = np.random.default_rng(seed)
    made = []
    for buffer in kernel.buffers:
        shape = tuple(int(e.value) for e in buffer.shape)  # type: ignore[attr-defined]
        values = rng.uniform(1, 2, shape).astype(np.float32)
        made.append(values + 10 * np.eye(shape[0], dtype=np.float32) if values.ndim == 2 else values)
    return made


def assert_same(scheduled: Kernel, original: Kernel, seed: int = 0) -> None:
    verify(scheduled)
    got, want = arguments(original, seed), arguments(original, seed)
    interpret(scheduled, got)
    interpret(original, want)
    for buffer, a, b in zip(original.buffers, got, want):
        np.testing.assert_array_equal(a, b, err_msg=buffer.name)


def scheduled(kernel: Kernel, threads: int = 1, numerics: str = "strict") -> tuple[Schedule, list[Decision]]:
    s = Schedule(kernel, numerics=numerics)  # type: ignore[arg-type]
    return s, polyhedral_schedule(s, MACHINE, threads)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with caches so small, and threads so cheap, that small programs are treated like large ones."""
    monkeypatch.setattr(weft.auto.draft, "THREAD_WORK", 0)
    monkeypatch.setattr(Draft, "cache", lambda self, level: {"L1": 256, "L2": 2048}.get(level, 1 << 14))


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", sorted(set(TEXTS) - {"heat_3d"}))
def test_results_stay(name: str, threads: int) -> None:
    for seed, (n, t) in enumerate([(21, 9), (11, 3), (2, 1)]):
        kernel = program(name, n, t)
        s, _ = scheduled(kernel, threads)
        assert_same(s.kernel, kernel, seed)


@pytest.mark.usefixtures("tiny")
def test_heat_3d_stays() -> None:
    kernel = program("heat_3d", 9, 4)
    s, _ = scheduled(kernel, 2)
    assert_same(s.kernel, kernel)


def around(s: Schedule, block: str) -> list[str]:
    return [loop.name for loop in s.loops(block)]


def test_gemver_is_interchanged_and_fused() -> None:
    """The rank-2 update and the product with the transposed matrix become one nest."""
    s, _ = scheduled(program("gemver", 40))
    assert around(s, "B") == around(s, "x_1") == ["i", "j"]
    assert_same(s.kernel, program("gemver", 40))
    steps = [step.name for step in s.trace.steps]
    assert "reorder" in steps
    assert steps.count("fuse_loops") == 2


def test_gemver_on_threads_runs_in_strips() -> None:
    s, decisions = scheduled(program("gemver", 400), 2)
    nest: list[For] = loops_around(s.kernel, "B")
    assert [loop.kind for loop in nest] == ["parallel", "serial", "vector"]
    assert any(d.topic == "parallel" and d.subject == "B, x_1" for d in decisions)


@pytest.mark.usefixtures("tiny")
def test_time_is_skewed_and_tiled() -> None:
    s, decisions = scheduled(program("jacobi_1d", 40, 12), 2)
    kinds = [loop.kind for loop in loops_around(s.kernel, "A")]
    assert kinds == ["serial", "parallel", "serial", "vector"]
    assert {"skew", "shift", "fuse_loops", "split", "parallel"} <= {step.name for step in s.trace.steps}
    assert [d.topic for d in decisions] == ["fusion", "tiling", "parallel"]


def test_recurrences_run_side_by_side() -> None:
    s, decisions = scheduled(program("heat_1d", 300, 40))
    assert [loop.kind for loop in loops_around(s.kernel, "A")] == ["serial", "serial", "unroll"]
    (said,) = decisions
    assert said.what == "16 iterations of `t` at once, each 2 behind the one before"
    assert_same(s.kernel, program("heat_1d", 300, 40))


def test_loops_are_cut_where_one_iteration_differs() -> None:
    s, _ = scheduled(program("floyd_warshall", 20))
    assert [step.name for step in s.trace.steps] == ["cut", "cut", "vectorize", "vectorize"]
    assert_same(s.kernel, program("floyd_warshall", 20))


@pytest.mark.usefixtures("tiny")
def test_nests_share_an_array_a_block_of_rows_at_a_time() -> None:
    s, decisions = scheduled(program("mvt", 70))
    assert any(d.what.startswith("blocks of 32 rows") for d in decisions)
    assert_same(s.kernel, program("mvt", 70))


@pytest.mark.parametrize(
    ("name", "n", "t"),
    [("trisolv", 70, 1), ("needleman_wunsch", 90, 1), ("seidel_2d", 70, 4), ("heat_1d", 150, 40), ("lu", 40, 1)],
)
def test_compiled_code_computes_the_same_bits(name: str, n: int, t: int) -> None:
    kernel = program(name, n, t)
    s, _ = scheduled(kernel)
    got, want = arguments(kernel, 3), arguments(kernel, 3)
    interpret(kernel, want)
    made = compile_kernel(s.kernel)
    code = load_kernel(made.object, made.entry, [None] * len(got), made.messages)
    code.run([a.ctypes.data for a in got])
    for a, b in zip(got, want):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["gemver", "mvt", "lu", "trisolv"])
def test_fast_numerics_stay_close(name: str) -> None:
    kernel = program(name, 40)
    s, _ = scheduled(kernel, numerics="fast")
    got, want = arguments(kernel, 5), arguments(kernel, 5)
    interpret(s.kernel, got)
    interpret(kernel, want)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=1e-4)


def test_without_isl_there_is_still_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isl_schedule, "ask_worker", lambda question, seconds: None)
    s, decisions = scheduled(program("gemm", 40))
    assert decisions[0] == Decision(
        "fallback", "gemm", "scheduled without isl", f"isl gave no schedule within {weft.auto.polyhedral.SECONDS:g} s"
    )
    assert_same(s.kernel, program("gemm", 40))


def test_the_trace_replays() -> None:
    s, _ = scheduled(program("jacobi_2d", 60, 6), 2)
    other = Schedule(program("jacobi_2d", 50, 7))
    other.apply(str(s.trace))
    assert_same(other.kernel, program("jacobi_2d", 50, 7))
