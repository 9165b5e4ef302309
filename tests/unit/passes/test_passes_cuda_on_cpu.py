"""Passes for what C programs do: loops with breaks around barriers, rows by division, positions cut off at edges."""

from __future__ import annotations

import numpy as np
import pytest
from test_passes_gpu_on_cpu import after, program

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.verify import verify
from weft.passes.gpu_to_cpu.merge_blocks import merge_blocks
from weft.passes.gpu_to_cpu.narrow_threads import narrow_threads
from weft.passes.gpu_to_cpu.peel_borders import peel_borders
from weft.passes.gpu_to_cpu.recover_rows import recover_rows
from weft.passes.gpu_to_cpu.separate_blocks import separate_blocks
from weft.passes.gpu_to_cpu.split_threads import split_threads
from weft.passes.gpu_to_cpu.undo_strides import undo_strides
from weft.passes.gpu_to_cpu.unroll_rounds import unroll_rounds
from weft.passes.guards.hoist_guards import hoist_guards
from weft.passes.plain.inline_indices import inline_indices

ROUNDS = """let done: bool = false let x: int32 = 0_i32
for i in 0:3 {
  done = false
  if t > i && t < 31 - i { done = true x = S[t - 1] + S[t + 1] }
  barrier(block)
  if i == 2 { break }
  if done { S[t] = x }
  barrier(block)
}
if done { B[b * 32 + t] = x }"""


def test_rounds_up_to_a_break_are_written_out() -> None:
    """What a round told is not kept for all threads: it is known where it is asked."""
    text = after(program(f"S[t] = A[t] barrier(block) {ROUNDS}"), unroll_rounds, inline_indices, split_threads)
    assert "break" not in text
    assert "done" not in text
    assert "if t > 2 && t < 29" in text


def test_a_break_that_is_not_known_keeps_its_loop() -> None:
    body = f"S[t] = A[t] barrier(block) {ROUNDS.replace('i == 2', 'A[i] > 100_i32')}"
    assert "break" in after(program(body), unroll_rounds)


LINE = """kernel k(A: int32[512], out B: int32[512], n: int64, m: int64) {
  block b in 0:2 {
    thread t in 0:256 {
      let row: int64 = tmod(b * 256 + t + 1, n) - 1
      let column: int64 = tdiv(b * 256 + t + 1, n)
      if tmod(b * 256 + t + 1, n) == 0 { row = n - 1 column = column - 1 }
      if b * 256 + t < m { B[b * 256 + t] = A[row] * 1000_i32 + A[column] }
    }
  }
}"""


@pytest.mark.parametrize("n", [32, 37, 100, 256, 300])
def test_rows_and_columns_by_division_are_loops(n: int) -> None:
    kernel = parse_kernel(LINE)
    done = kernel
    for apply in (inline_indices, narrow_threads, recover_rows, hoist_guards, peel_borders):
        done = apply(done)
    verify(done)
    results = []
    for each in (kernel, done):
        out = np.zeros(512, np.int32)
        interpret(each, [np.arange(512, dtype=np.int32) * 7 % 97, out, n, 400])
        results.append(out)
    np.testing.assert_array_equal(*results)
    rows = print_kernel(done).split("else")[0]
    assert "t_column" in rows
    assert "tmod" not in rows


@pytest.mark.parametrize("n", [5, 31, -7, 0])
def test_what_is_no_row_is_divided_as_before(n: int) -> None:
    kernel = parse_kernel(LINE)
    done = recover_rows(inline_indices(kernel))
    results = []
    for each in (kernel, done):
        out = np.zeros(512, np.int32)
        interpret(each, [np.arange(512, dtype=np.int32), out, n, 40 if n > 0 else 0])
        results.append(out)
    np.testing.assert_array_equal(*results)


def test_blocks_whose_positions_are_cut_off_at_the_edges_are_merged() -> None:
    """Of a stencil with clamped neighbours, as C++ writes it: the edges of the data stay, those of blocks go."""
    text = """kernel k(n: int64, f: float32, A: float32[52], out B: float32[52]) {
      block b in 0:4 {
        alloc S: float32[16] in shared
        let g: float32 = f / 3.0
        thread t in 0:16 {
          if b * 12 + t >= 2 && b * 12 + t <= 49 { S[t] = A[b * 12 + t] }
          barrier(block)
          if t >= 1 && t <= 14 && t >= max(2 - b * 12, 0) && t <= min(49 - b * 12, 15) {
            let w: int64 = max(max(2 - b * 12, 0), t - 1)
            let e: int64 = min(min(49 - b * 12, 15), t + 1)
            if t >= 2 && t <= 13 { B[b * 12 + t] = (S[w] + S[e]) * g }
          }
        }
      }
    }"""
    merged = after(text, inline_indices, split_threads, lambda k: merge_blocks(k, cores=1, cache_bytes=1 << 20))
    assert "b_group" in merged
    assert "15" not in merged.replace("b_group * 15", "")


def test_a_block_is_in_the_middle_where_the_longest_of_its_loops_is() -> None:
    """Loops of one name have other threads in each phase: the tests of all of them must hold."""
    text = """kernel k(n: int64, A: int32[40], out B: int32[40], out C: int32[40]) {
      block b in 0:4 {
        thread t in 0:16 { if b * 8 + t >= 2 && b * 8 + t < 36 { B[b * 8 + t - 2] = A[b * 8 + t] } }
        thread t in 2:10 { if b * 8 + t >= 2 && b * 8 + t < 36 { C[b * 8 + t - 2] = A[b * 8 + t] } }
      }
    }"""
    assert "if b >= 1 && b <= 2 {" in print_kernel(separate_blocks(parse_kernel(text)))


def test_blocks_are_not_told_apart_by_what_they_store_themselves() -> None:
    """The question is asked before the block starts: it read what was in shared memory then."""
    text = """kernel k(A: int64[64], out B: int64[64]) {
      block b in 0:2 {
        alloc N: int64[1] in shared
        thread t in 0:32 { if t == 0 { N[0] = A[b * 32] } }
        thread t in 0:32 { if b * 32 + t < N[0] { B[b * 32 + t] = 1 } }
      }
    }"""
    kernel = parse_kernel(text)
    assert "N[0] >=" not in print_kernel(separate_blocks(kernel))
    assert "A[0] >=" in print_kernel(separate_blocks(parse_kernel(text.replace("< N[0]", "< A[0]"))))


def test_blocks_in_the_middle_are_told_apart_where_one_end_is_asked_for_alone() -> None:
    """Of the choice whether all threads are before position 89 or after it, one never true was asked."""
    text = """kernel k(A: float32[50, 90], out B: float32[50, 90]) {
      block by in 0:7 { block bx in 0:12 { thread ty in 0:12 { thread tx in 0:12 {
        if by * 8 + ty >= 2 && by * 8 + ty < 52 && bx * 8 + tx >= 2 && bx * 8 + tx < 92 {
          B[by * 8 + ty - 2, bx * 8 + tx - 2] = A[by * 8 + ty == 2 ? by * 8 + ty - 2 : by * 8 + ty - 3,
            bx * 8 + tx == 91 ? bx * 8 + tx - 2 : bx * 8 + tx - 1]
        } } } } } }"""
    made = print_kernel(separate_blocks(parse_kernel(text)))
    assert "if false" not in made
    assert "if by >= 1 && by <= 5 && bx >= 1 && bx <= 10 && bx <= 9 {" in made


def test_variables_of_which_32_bits_are_read_have_32() -> None:
    body = "let best: int64 = -1 for i in 0:9 { if A[i] > A[t] { best = i } } B[b * 32 + t] = int32(best)"
    assert "let best: int32 = -1_i32" in after(program(body), inline_indices)


def test_two_neighbours_under_one_test_are_bounds_of_one_loop() -> None:
    body = "let best: int64 = -1 if t < n { for i in 0:9 { best = best + i } } if t < n { B[b * 32 + t] = int32(best) }"
    text = after(program(body), inline_indices, narrow_threads, hoist_guards)
    assert "if" not in text


@pytest.mark.parametrize("n", [1, 31, 32, 33, 64])
def test_loops_that_threads_share_are_threads(n: int) -> None:
    """A thread for each element, where threads took them in turns: two or three elements of a record each."""
    text = f"""kernel k(A: int32[128], out B: int32[128], n: int64) {{
      block b in 0:1 {{
        thread t in 0:32 {{
          let w: int64 = t
          while w < {"n" if n > 32 else n} {{
            B[w * 2] = A[w * 2 + 1]
            B[w * 2 + 1] = B[w * 2 + 1] + A[w * 2]
            w = w + 32
          }}
          w = t
        }}
      }}
    }}"""
    kernel = parse_kernel(text)
    done = undo_strides(split_threads(inline_indices(kernel)))
    verify(done)
    results = []
    for each in (kernel, done):
        out = np.arange(128, dtype=np.int32)
        interpret(each, [np.arange(128, dtype=np.int32) * 7 % 97, out, n])
        results.append(out)
    np.testing.assert_array_equal(*results)
    assert f"thread t in 0:{'n' if n > 32 else n} {{" in print_kernel(done)


@pytest.mark.parametrize(
    "body",
    [
        "while w < n { B[t] = B[t] + A[w] w = w + 32 }",  # one element for all of a thread's iterations
        "while w < n { B[w] = (w >= 32 ? B[w - 32] : 0_i32) + A[w] w = w + 32 }",  # one reads another
        "let s: int32 = 0_i32 while w < n { s = s + A[w] w = w + 32 } B[t] = s",
        "while w < n { if A[w] > 50_i32 { break } B[w] = A[w] w = w + 32 }",
    ],
)
def test_iterations_that_depend_on_each_other_stay_a_loop(body: str) -> None:
    head = "kernel k(n: int64, A: int32[64], out B: int32[64])"
    text = f"{head} {{ block b in 0:1 {{ thread t in 0:32 {{ let w: int64 = t {body} }} }} }}"
    assert "thread t in 0:32 {" in after(text, inline_indices, split_threads, undo_strides)
