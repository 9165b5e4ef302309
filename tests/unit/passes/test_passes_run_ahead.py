"""Loops part of whose body runs ahead: text, rules, and what is made of them; what they compute stays the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "target"))
from run_compiled import check_against_interpreter, make_arguments

from weft.ir.ahead import split_ahead
from weft.ir.errors import ProgramError
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel, print_stmt
from weft.ir.stmt import For, Kernel
from weft.ir.verify import verify
from weft.ir.visit import walk
from weft.passes.to_grid.place_waits import place_waits
from weft.passes.to_grid.run_ahead import run_ahead
from weft.target.cuda.lower import emit_kernel, lower_kernel
from weft.target.cuda.machine import gpu_for_arch
from weft.target.cuda.nvrtc import compile_cubin, supported_archs

RING = """kernel k(A: float32[{n}, 4], out C: float32[4]) {{
  alloc R: float32[3, 4] in {scope} {{
    for k in {lo}:{n} ahead {distance} of R {{
      for i in 0:4 {{ R[{turn}, i] = A[k, i] }}
      for j in 0:4 {{ C[j] = C[j] * 0.5 + R[{turn}, j] }}
    }}
  }}
}}"""
#: A tile loop around the loop through the depth, as a block that goes on to its next tile has it.
NEST = """kernel k(A: float32[3, 5, 4], out C: float32[3, 4]) {
  alloc R: float32[4, 4] in shared {
    for tile in 0:3 ahead 3 of R {
      for k in 0:5 {
        let row: int64 = 4 - k {
          for i in 0:4 { R[(tile * 5 + k) % 4, i] = A[tile, row, i] }
          for j in 0:4 { C[tile, j] = C[tile, j] * 0.5 + R[(tile * 5 + k) % 4, j] }
        }
      }
      for j in 0:4 { C[tile, j] = C[tile, j] + 1.0 }
    }
  }
}"""


def ring(n: int = 8, distance: int = 2, lo: int = 0, scope: str = "shared", turn: str = "k % 3") -> Kernel:
    return parse_kernel(RING.format(n=n, distance=distance, lo=lo, scope=scope, turn=turn))


def results(kernel: Kernel) -> Any:
    rng = np.random.default_rng(0)
    args = [rng.standard_normal([int(e.value) for e in b.shape]).astype(np.float32) for b in kernel.buffers]  # type: ignore[attr-defined]
    interpret(kernel, args)
    return args[-1]


def calls(kernel: Kernel, name: str) -> int:
    return print_kernel(kernel).count(f"call {name}(")


def test_it_prints_and_reads_back() -> None:
    kernel = ring()
    assert "for k in 0:8 ahead 2 of R {" in print_kernel(kernel)
    assert parse_kernel(print_kernel(kernel)) == kernel
    verify(kernel)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("ahead 2", "ahead 3"), "`R` has too few turns to be filled 3 ahead"),
        (("of R", "of S"), "nothing in `k` fills `S`"),
        (("ahead 2", "ahead 0"), "`k` names nothing that runs ahead"),
        (("for k", "parallel k"), "the iterations of the parallel loop `k` do not follow one another"),
        (("= A[k, i]", "= A[k, i] + C[i]"), "`R` is filled from `C`, which `k` changes"),
        (("for i in 0:4", "for i in 0:int64(C[0])"), "`R` is filled from `C`, which `k` changes"),
        (("for j in 0:4 {", "for j in 0:4 { if C[j] > 9.0 { break }"), "a break, continue, return or barrier"),
        (("R[k % 3, i] = A[k, i]", "atomic R[k % 3, i] += A[k, i]"), "`R` is filled by more than plain stores"),
    ],
)
def test_what_may_not_run_ahead_is_refused(change: tuple[str, str], why: str) -> None:
    text = print_kernel(ring()).replace(*change)
    with pytest.raises(ProgramError, match="part of the body cannot run ahead") as caught:
        verify(parse_kernel(text))
    assert why in str(caught.value)


@pytest.mark.parametrize("n", [1, 2, 3, 8])
@pytest.mark.parametrize("distance", [1, 2])
@pytest.mark.parametrize("lo", [0, 1])
def test_written_out_it_computes_the_same(n: int, distance: int, lo: int) -> None:
    kernel = ring(n, distance, lo, turn="k % 3" if lo == 0 else "(k - 1) % 3")
    made = run_ahead(kernel)
    verify(made)
    np.testing.assert_array_equal(results(made), results(kernel))


def test_hints_are_for_shared_memory() -> None:
    shared, local = run_ahead(ring()), run_ahead(ring(scope="local"))
    assert calls(shared, "async_fill") == 1
    assert calls(shared, "async_commit") == 3
    assert "async_commit(2)" in print_kernel(shared)
    assert "async" not in print_kernel(local)
    assert "if k < 6" in print_kernel(local)


@pytest.mark.parametrize("turn", ["k % 2", "k // 2 % 3", "k * 2 % 3", "0"])
def test_turns_that_do_not_follow_one_another_stay_in_order(turn: str) -> None:
    kernel = ring(turn=turn)
    made = run_ahead(kernel)
    assert calls(made, "async_commit") == 0
    np.testing.assert_array_equal(results(made), results(kernel))


def test_a_nest_of_loops_fills_ahead_in_the_innermost() -> None:
    kernel = parse_kernel(NEST)
    verify(kernel)
    made = run_ahead(kernel)
    verify(made)
    assert calls(made, "async_commit") == 4  # three before the loop through the depth, one in it
    np.testing.assert_array_equal(results(made), results(kernel))


def test_the_body_is_cut_in_two() -> None:
    """What a producer and its consumers would run each, with the loops and values around both."""
    loop = next(n for n in walk(parse_kernel(NEST)) if isinstance(n, For) and n.ahead is not None)
    first, rest = map(print_stmt, split_ahead(loop.body, frozenset({"R"})))
    assert "R[(tile * 5 + k) % 4, i] = A[tile, row, i]" in first
    assert "C[" not in first
    assert "for k in 0:5" in first
    assert "A[" not in rest
    assert rest.count("C[tile, j] = ") == 2


#: The same for the threads of a block, which a GPU fills by copies that run on their own.
THREADS = """kernel k(A: float32[2, 64, 64], out C: float32[2, 64]) {
  block b in 0:2 {
    alloc R: float32[3, 64, 8] in shared
    alloc acc: float32[64]
    thread t in 0:64 { acc[t] = 0.0 }
    for k in 0:8 ahead 2 of R {
      thread t in 0:64 { unroll u in 0:2 { vector v in 0:4 { R[k % 3, t, u * 4 + v] = A[b, t, k * 8 + u * 4 + v] } } }
      thread t in 0:64 { for j in 0:8 { acc[t] = acc[t] * 0.5 + R[k % 3, 63 - t, j] } }
    }
    thread t in 0:64 { C[b, t] = acc[t] }
  }
}"""


@pytest.mark.parametrize(
    "text",
    [RING.format(n=8, distance=2, lo=0, scope="shared", turn="k % 3"), NEST, THREADS],
    ids=["ring", "nest", "gpu"],
)
def test_a_cpu_runs_the_body_in_order(text: str) -> None:
    kernel = parse_kernel(text)
    verify(kernel)
    sizes = [[int(e.value) for e in b.shape] for b in kernel.buffers]  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    check_against_interpreter(kernel, args=[rng.standard_normal(size).astype(np.float32) for size in sizes])


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_a_gpu_overlaps_copies_where_it_has_them(arch: str) -> None:
    machine = gpu_for_arch(arch)
    kernel = parse_kernel(THREADS)
    lowered = lower_kernel(kernel, machine)
    verify(lowered)
    assert calls(lowered, "async_wait") == machine.has("cp.async")
    assert print_kernel(lowered).count("barrier(block)") == 1  # one an iteration is enough for a ring of three
    args = make_arguments(kernel)
    want = [a.copy() for a in args]
    interpret(kernel, want)
    interpret(lowered, args)
    np.testing.assert_array_equal(args[-1], want[-1])
    source = emit_kernel(kernel, machine, aligned={"A": 16, "C": 16})
    assert ("cp.async.wait_group" in source) == machine.has("cp.async")
    if arch in supported_archs():
        assert compile_cubin(source, machine.code_arch, fast=False)


@pytest.mark.parametrize(("meets_first", "pending"), [(True, 2), (False, 1)])
def test_a_barrier_behind_the_use_waits_for_what_the_next_iteration_uses(meets_first: bool, pending: int) -> None:
    """Of groups that are used two later, one that was started since may be under way before the use of this iteration's
    own; before the use of the next one's, one less."""
    used = "acc[t] = acc[t] + R[k % 3, 63 - t]"
    order = f"barrier(block)\n{used}" if meets_first else f"{used}\nbarrier(block)"
    kernel = parse_kernel(f"""kernel f(A: float32[8, 64], out acc: float32[64]) {{
      block b in 0:1 {{ alloc R: float32[3, 64] in shared
        thread t in 0:64 {{
          call async_fill(&R[0, 0])
          R[0, t] = A[0, t]
          call async_commit(2)
          R[1, t] = A[1, t]
          call async_commit(2)
          barrier(block)
          for k in 0:8 {{
            if k < 6 {{ R[(k + 2) % 3, t] = A[k + 2, t] }}
            call async_commit(2)
            {order}
          }}
        }} }} }}""")
    text = print_kernel(place_waits(kernel, has_async_copies=True))
    before, _, loop = text.partition("for k")
    assert "async_wait(1)" in before
    assert f"async_wait({pending})" in loop
