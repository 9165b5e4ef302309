"""GPU programs on the CPU: each case of barriers, threads and control flow against the interpreter."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "target"))
from run_compiled import check_against_interpreter, make_arguments

from weft.ir.buffer import Buffer
from weft.ir.errors import UnsupportedError
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import Alloc, Barrier, Kernel
from weft.ir.verify import verify
from weft.ir.visit import walk
from weft.passes.gpu_to_cpu.split_threads import split_threads
from weft.passes.to_grid.join_threads import join_threads
from weft.target.c.toolchain import has_compiler


def split(text: str) -> Kernel:
    """The program without barriers, which gives what it gave, run by the interpreter and compiled."""
    kernel = parse_kernel(text, "k.loops")
    done = split_threads(kernel)
    verify(done)
    assert not any(isinstance(n, Barrier) for n in walk(done))
    for seed in range(2):
        given = make_arguments(kernel, seed)
        one, other = ([a.copy() if isinstance(a, np.ndarray) else a for a in given] for _ in range(2))
        interpret(kernel, one)
        interpret(done, other)
        for param, a, b in zip(kernel.params, one, other):
            if isinstance(param, Buffer):
                np.testing.assert_array_equal(a, b)
        check_against_interpreter(kernel, args=given)
    return done


def program(body: str, threads: str = "thread t in 0:32", shared: str = "int32[32]") -> str:
    return f"""kernel k(n: int64, A: int32[64], out B: int32[64]) {{
  block b in 0:2 {{
    alloc S: {shared} in shared
    {threads} {{
      {body}
    }}
  }}
}}"""


def test_a_loop_is_split_at_a_barrier() -> None:
    done = split(program("S[t] = A[b * 32 + t] barrier(block) B[b * 32 + t] = S[31 - t]"))
    assert print_kernel(done).count("thread t") == 2


def test_what_is_cheap_is_computed_again_and_what_is_not_is_kept() -> None:
    done = print_kernel(
        split(
            program("""
      let i: int64 = b * 32 + t
      let two: int32 = int32(i) * 2_i32
      let old: int32 = B[i]
      let sum: int32 = old + two
      S[t] = sum
      B[i] = 1_i32
      barrier(block)
      B[i] = S[31 - t] + two + sum""")
        )
    )
    assert "two_kept" not in done
    assert "old_kept" not in done
    assert done.count("alloc sum_kept") == 1


def test_values_that_all_threads_agree_on_are_computed_once() -> None:
    done = print_kernel(
        split(
            program("""
      let c: int32 = A[b]
      S[t] = A[b * 32 + t] + c
      barrier(block)
      B[b * 32 + t] = S[31 - t] * c""")
        )
    )
    assert done.index("let c") < done.index("thread t")
    assert "c_kept" not in done


def test_a_barrier_in_a_loop() -> None:
    done = split(
        program("""
      let x: int32 = A[b * 32 + t]
      for i in 0:n + 2 {
        S[t] = x
        barrier(block)
        x = x + S[(t + 1) % 32] + int32(i)
        barrier(block)
      }
      B[b * 32 + t] = x""")
    )
    text = print_kernel(done)
    assert text.index("for i") < text.rindex("thread t")
    assert "x_kept" in text


def test_a_barrier_in_nested_loops() -> None:
    split(
        program("""
      let x: int32 = A[b * 32 + t]
      for i in 0:3 {
        for j in i:3 {
          S[t] = x + int32(j)
          barrier(block)
          x = x + S[(t + 1) % 32]
          barrier(block)
        }
        S[t] = x
      }
      B[b * 32 + t] = x""")
    )


def test_a_while_loop_that_threads_count() -> None:
    """The condition is computed by the threads; one of them is asked."""
    done = split(
        program("""
      let left: int32 = int32(t) + 5_i32
      while left > int32(t) {
        S[t] = left
        barrier(block)
        B[b * 32 + t] = S[(t + 3) % 32]
        barrier(block)
        left = left - 1_i32
      }""")
    )
    assert "while true" in print_kernel(done)


def test_a_while_loop_over_shared_memory() -> None:
    split(
        program("""
      S[t] = 4_i32
      barrier(block)
      while S[0] > 0_i32 {
        let x: int32 = S[31 - t]
        barrier(block)
        S[t] = x - 1_i32
        B[b * 32 + t] = x + int32(t)
        barrier(block)
      }""")
    )


def test_tree_reduction() -> None:
    split(
        program("""
      S[t] = A[b * 32 + t]
      barrier(block)
      let s: int64 = 16
      while s > 0 {
        if t < s {
          S[t] = S[t] + S[t + s]
        }
        barrier(block)
        s = s // 2
      }
      B[b * 32 + t] = S[0]""")
    )


def test_a_barrier_in_an_if_that_all_threads_decide_alike() -> None:
    done = split(
        program("""
      S[t] = A[b * 32 + t]
      if n > 3 {
        barrier(block)
        B[b * 32 + t] = S[31 - t]
      } else {
        B[b * 32 + t] = S[t]
      }""")
    )
    text = print_kernel(done)
    assert text.index("if n > 3") < text.rindex("thread t")


@pytest.mark.parametrize("condition", ["t < 16", "A[t] > 0_i32", "b * 32 + t < n"])
def test_a_barrier_in_an_if_that_threads_decide_differently_is_refused(condition: str) -> None:
    kernel = parse_kernel(program(f"if {condition} {{ S[t] = 1_i32 barrier(block) B[b * 32 + t] = S[t] }}"), "k.loops")
    with pytest.raises(UnsupportedError) as caught:
        split_threads(kernel)
    assert "threads may decide differently" in caught.value.what
    assert caught.value.why == "some threads would wait at the barrier, others would never reach it"


@pytest.mark.parametrize("condition", ["t < 32", "t * t >= 0", "(b * 32 + t) // 32 == 1", "t & 32 == 0"])
def test_an_if_that_threads_surely_decide_alike_is_taken_apart(condition: str) -> None:
    split(
        program(f"""
      S[t] = A[b * 32 + t]
      if {condition} {{ barrier(block) B[b * 32 + t] = S[31 - t] }}""")
    )


def test_values_through_loops_and_branches() -> None:
    split(
        program("""
      let x: int32 = A[b * 32 + t]
      let y: int32 = x * x
      if n > 4 { x = x + 1_i32 } else { if t > 4 { x = y } }
      S[t] = x
      for i in 0:2 {
        barrier(block)
        if n > 2 { y = y + S[31 - t] } else { x = x - S[(t + i) % 32] }
        for q in 0:t % 3 { x = x + y }
      }
      barrier(block)
      S[t] = x + y
      barrier(block)
      B[b * 32 + t] = S[(t + 7) % 32] + x - y""")
    )


def test_an_early_return() -> None:
    done = split(
        program("""
      if b * 32 + t >= n + 40 { return }
      S[t] = A[b * 32 + t]
      barrier(block)
      B[b * 32 + t] = S[t] + 1_i32""")
    )
    assert "_kept" not in print_kernel(done)  # the test is cheap to make again


def test_a_return_in_a_loop_and_in_loops_inside_it() -> None:
    split(
        program("""
      S[t] = A[b * 32 + t]
      barrier(block)
      for i in 0:6 {
        let y: int32 = S[(t + 1) % 32]
        barrier(block)
        if y > 5_i32 && i > 2 { return }
        S[t] = y + 1_i32
        for k in 0:3 { for l in 0:2 {
          if S[t] == 4_i32 && k == 1 { return }
          S[t] = S[t] + 1_i32
        } }
        barrier(block)
      }
      B[b * 32 + t] = S[t]""")
    )


def test_breaks_and_continues() -> None:
    split(
        program("""
      let x: int32 = A[b * 32 + t]
      for i in 0:10 {
        S[t] = x + int32(i)
        barrier(block)
        if i == n + 3 { break }
        x = S[31 - t] + 1_i32
        barrier(block)
        if x > 3_i32 { continue }
        x = x + 5_i32
      }
      B[b * 32 + t] = x""")
    )


def test_a_break_that_each_thread_makes() -> None:
    """All make it in the same iteration; the text does not say so."""
    split(
        program("""
      let c: int32 = int32(t)
      while true {
        S[t] = c
        barrier(block)
        if c - int32(t) > 3_i32 { break }
        B[b * 32 + t] = S[31 - t]
        barrier(block)
        c = c + 1_i32
      }""")
    )


def test_loop_bounds_that_differ_between_threads() -> None:
    split(
        program("""
      let x: int32 = 0_i32
      for i in t:t + 3 {
        S[t] = x + int32(i)
        barrier(block)
        x = x + S[31 - t]
        barrier(block)
      }
      B[b * 32 + t] = x""")
    )


def test_a_shared_scalar_that_one_thread_writes() -> None:
    """It is read after the barrier, not before."""
    done = split(
        program("""
      if t == 0 { S[0] = A[b] }
      barrier(block)
      let x: int32 = S[0]
      B[b * 32 + t] = x + int32(t)""")
    )
    text = print_kernel(done)
    assert text.index("S[0] = ") < text.index("= S[0]")


def test_private_arrays_that_outlive_a_barrier() -> None:
    done = split(
        program(
            """
      alloc r: int32[3] in register
      for i in 0:3 { r[i] = A[b * 32 + y * 8 + t] + int32(i) }
      S[y * 8 + t] = r[1]
      barrier(block)
      r[2] = S[31 - y * 8 - t] + r[0]
      barrier(block)
      B[b * 32 + y * 8 + t] = r[0] + r[2]""",
            "thread y in 0:4 { thread t in 0:8",
        )
        + "}"
    )
    assert "r_kept: int32[3, 4, 8]" in print_kernel(done)


def test_private_arrays_of_unknown_size_are_refused() -> None:
    kernel = parse_kernel(
        program("alloc r: int32[n] in local r[0] = 1_i32 S[t] = r[0] barrier(block) B[t] = r[0] + S[t]")
    )
    with pytest.raises(UnsupportedError, match="its size is not a number"):
        split_threads(kernel)


def test_variables_between_thread_loops_move_inside() -> None:
    split(
        """kernel k(A: int32[64], out B: int32[64]) { block b in 0:2 { alloc S: int32[4, 8] in shared
      thread y in 0:4 { let row: int32 = A[b * 32 + y * 8] thread t in 0:8 {
        S[y, t] = A[b * 32 + y * 8 + t] + row barrier(block) B[b * 32 + y * 8 + t] = S[3 - y, 7 - t] + row } } } }"""
    )


def test_statements_between_thread_loops_are_refused() -> None:
    kernel = parse_kernel(
        """kernel k(out B: int32[32]) { block b in 0:1 { alloc S: int32[4, 8] in shared
      thread y in 0:4 { S[y, 0] = 1_i32 thread t in 0:8 { S[y, t] = 2_i32 barrier(block) B[y * 8 + t] = S[3 - y, t] } }
    } }"""
    )
    with pytest.raises(UnsupportedError, match="not perfectly nested"):
        split_threads(kernel)


@pytest.mark.parametrize(
    "threads",
    ["thread y in 0:2 { thread t in 0:64", "thread y in 0:8 { thread t in 0:16", "thread y in 0:5 { thread t in 0:21"],
)
def test_warp_barriers(threads: str) -> None:
    """Warps are 32 consecutive threads; the last one may be short."""
    columns = int(threads.rsplit(":", 1)[1])
    split(
        f"""kernel k(A: int32[128], out B: int32[128]) {{ block b in 0:1 {{ alloc S: int32[128] in shared {threads} {{
      let i: int64 = y * {columns} + t
      S[i] = A[i]
      barrier(warp)
      let x: int32 = S[i // 32 * 32]
      barrier(block)
      S[i] = x + 1_i32
      barrier(warp)
      if i // 32 == 1 {{ S[i] = x barrier(warp) x = x + S[i // 32 * 32 + (i + 7) % 32] }}
      barrier(block)
      B[i] = x + S[0]
    }} }} }} }}"""
    )


def test_atomic_updates_of_shared_memory() -> None:
    split(
        program("""
      if t < 8 { S[t] = 0_i32 }
      barrier(block)
      atomic S[int64(A[b * 32 + t] & 7_i32)] += 1_i32
      barrier(block)
      B[b * 32 + t] = S[t % 8]""")
    )


def test_a_single_thread_and_no_block() -> None:
    split("kernel k(A: int32[4], out B: int32[4]) { thread t in 0:1 { B[0] = A[0] barrier(block) B[1] = B[0] } }")


KERNELS = Path(__file__).parents[3] / "examples" / "kernels"
SIZES: dict[str, dict[str, Any]] = {
    "matmul": {"m": 20, "n": 37, "k": 30},
    "scan": {"n": 300},
    "bitonic": {"n": 300},
    "backprop": {"n": 40, "eta": 0.3, "momentum": 0.25},
    "hotspot": {"h": 26, "w": 31, "step": 0.1, "rx": 0.1, "ry": 0.2, "rz": 0.05},
    "lud": {"n": 2},
    "needle": {"n": 2, "penalty": 3},
    "pathfinder": {"rows": 1, "n": 300},
    "srad": {"h": 20, "w": 37, "q0": 0.05, "rate": 0.5},
}


@pytest.mark.usefixtures("quick_code")
@pytest.mark.parametrize("name", SIZES)
def test_the_kernels_of_the_examples(name: str) -> None:
    from weft.target.cuda.program import evaluate_size

    kernel = parse_kernel((KERNELS / f"{name}.loops").read_text(), f"{name}.loops")
    rng = np.random.default_rng(0)
    args: list[Any] = []
    for p in kernel.params:
        if isinstance(p, Buffer):
            shape = [evaluate_size(e, SIZES[name]) for e in p.shape]
            args.append(
                rng.integers(-10, 10, shape).astype(np.int32)
                if p.dtype.is_integer
                else rng.random(shape, np.float32) + np.float32(0.5)
            )
        else:
            args.append(SIZES[name][p.name])
    if name == "lud":
        args[1] += 9 * np.eye(32, dtype=np.float32)
    check_against_interpreter(kernel, args=args, also=["c"] * has_compiler())


@pytest.mark.parametrize("turn", [split_threads, join_threads])
def test_shared_storage_that_each_thread_would_make_is_refused(turn: Any) -> None:
    """As one writes it in CUDA, where it stands among what a thread does."""
    kernel = parse_kernel("""kernel k(A: float32[32], out B: float32[32]) { block b in 0:1 { thread t in 0:32 {
      alloc S: float32[32] in shared
      S[t] = A[t]
      barrier(block)
      B[t] = S[31 - t] } } }""")
    with pytest.raises(UnsupportedError, match="`S` is shared storage made by each thread"):
        turn(kernel)


@pytest.mark.parametrize(
    ("lets", "used", "stored"),
    [
        ("let x: int32 = B[t] let y: int32 = x + 1_i32 let z: int32 = x * 2_i32", "y + z", {"x"}),
        ("let x: int64 = int64(B[t]) let y: int32 = int32(x) let z: int16 = int16(x)", "y + int32(z)", {"y", "z"}),
        ("let x: int32 = B[t] let y: int32 = B[31 - t] let z: int32 = x + y", "z", {"z"}),
        ("let x: int32 = B[t] let y: int64 = int64(x) let z: int32 = int32(y) + 1_i32", "z + int32(y)", {"x"}),
        ("let x: int32 = A[t] let y: int32 = x + 1_i32", "y", set()),  # A is only read
        ("let x: int64 = int64(B[t]) let y: int8 = int8(x)", "int32(y)", {"y"}),
        ("let x: float64 = exp(float64(A[t] % 4_i32)) let y: float32 = float32(x)", "int32(y)", {"y"}),
    ],
)
def test_what_crosses_a_barrier_is_a_minimum_cut(lets: str, used: str, stored: set[str]) -> None:
    text = f"""kernel k(A: int32[32], out B: int32[32], out C: int32[32]) {{
      block b in 0:1 {{ thread t in 0:32 {{ {lets} barrier(block) B[31 - t] = 3_i32 barrier(block) C[t] = {used} }} }}
    }}"""
    kept = {n.buffer.name.removesuffix("_kept") for n in walk(split(text).body) if isinstance(n, Alloc)}
    assert kept == stored
