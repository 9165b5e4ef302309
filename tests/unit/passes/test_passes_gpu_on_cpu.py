"""Passes that make GPU programs fast on a CPU: what each leaves of a small program, which means the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "target"))
from forward_everywhere import forward_phases
from run_compiled import check_against_interpreter, make_arguments

from weft.ir.buffer import Buffer
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.ir.verify import verify
from weft.passes.gpu_to_cpu.coalesce_blocks import coalesce_blocks
from weft.passes.gpu_to_cpu.forward_shared import forward_shared
from weft.passes.gpu_to_cpu.merge_blocks import merge_blocks
from weft.passes.gpu_to_cpu.narrow_threads import narrow_threads
from weft.passes.gpu_to_cpu.peel_borders import peel_borders
from weft.passes.gpu_to_cpu.remove_barriers import remove_barriers
from weft.passes.gpu_to_cpu.run_once import run_once
from weft.passes.gpu_to_cpu.separate_blocks import separate_blocks
from weft.passes.gpu_to_cpu.split_threads import split_threads
from weft.passes.gpu_to_cpu.unroll_phases import unroll_phases
from weft.passes.guards.hoist_guards import hoist_guards
from weft.passes.plain.convert_ifs import convert_ifs
from weft.passes.plain.inline_indices import inline_indices
from weft.passes.registers.jam_threads import jam_threads

Pass = Callable[[Kernel], Kernel]


def after(text: str, *passes: Pass) -> str:
    """The program after ``passes``, as text; interpreted and compiled it gives what it gave before them."""
    kernel = parse_kernel(text)
    done = kernel
    for apply in passes:
        done = apply(done)
    verify(done)
    given = make_arguments(kernel)
    one, other = ([a.copy() if isinstance(a, np.ndarray) else a for a in given] for _ in range(2))
    interpret(kernel, one)
    interpret(done, other)
    for param, a, b in zip(kernel.params, one, other):
        if isinstance(param, Buffer):
            np.testing.assert_array_equal(a, b)
    check_against_interpreter(kernel, args=given)
    return print_kernel(done)


def program(body: str) -> str:
    return f"""kernel k(n: int64, A: int32[64], out B: int32[64], out C: int32[64]) {{
  block b in 0:2 {{
    alloc S: int32[32] in shared
    thread t in 0:32 {{
      {body}
    }}
  }}
}}"""


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("S[t] = A[t] barrier(block) B[b * 32 + t] = S[t]", 0),  # each thread its own element
        ("S[t] = A[t] barrier(block) B[b * 32 + t] = S[31 - t]", 1),
        ("B[b * 32 + t] = A[t] barrier(block) C[b * 32 + t] = A[31 - t]", 0),  # nothing shared is written
        ("S[t] = A[t] barrier(block) let x: int32 = A[b] barrier(block) B[b * 32 + t] = S[31 - t] + x", 1),
        ("barrier(block) S[t] = A[t] barrier(block) barrier(block) B[b * 32 + t] = S[31 - t] barrier(block)", 1),
        ("if t < 16 { S[t] = 1_i32 } barrier(block) if t < 16 { B[b * 32 + t] = S[t] }", 0),
        ("if t < 16 { S[t] = 1_i32 } barrier(block) if t >= 16 { B[b * 32 + t] = S[t - 16] }", 1),
        ("S[t] = A[t] for i in 0:3 { barrier(block) let x: int32 = S[(t + 1) % 32] barrier(block) S[t] = x }", 2),
        ("for i in 0:3 { S[t] = A[t] barrier(block) B[b * 32 + t] = S[t] }", 0),
        ("atomic S[t] exchange= 0_i32 barrier(block) atomic S[t] += 1_i32", 0),
        ("S[t] = A[t] barrier(warp) B[b * 32 + t] = S[31 - t]", 1),
    ],
)
def test_barriers_that_order_nothing_go(body: str, left: int) -> None:
    assert after(program(body), inline_indices, remove_barriers).count("barrier") == left


def test_tree_reduction_keeps_its_barriers() -> None:
    body = """S[t] = A[t] barrier(block) let s: int64 = 16
      while s > 0 { if t < s { S[t] = S[t] + S[t + s] } barrier(block) s = s // 2 }
      if t == 0 { B[b] = S[0] }"""
    assert after(program(body), remove_barriers).count("barrier") == 2


def test_a_shared_store_is_forwarded_to_the_neighbours_load() -> None:
    body = "S[t] = A[b * 32 + t] * 2_i32 barrier(block) B[b * 32 + t] = t == 31 ? 0_i32 : S[t + 1]"
    text = after(program(body), inline_indices, forward_shared, remove_barriers)
    assert "alloc" not in text
    assert "barrier" not in text
    assert "A[b * 32 + (t + 1)] * 2_i32" in text


def test_a_border_of_the_block_is_none_once_memory_is_read_directly() -> None:
    body = "S[t] = A[b * 32 + t] barrier(block) B[b * 32 + t] = t == 0 ? A[b * 32] : S[t]"
    assert "?" not in after(program(body), inline_indices, forward_shared)


#: A stencil as in CUDA: what is beyond a block's border is stored apart, and something else by blocks at the edges.
BORDERED = """kernel k(A: int32[128], out B: int32[128]) {
  block b in 0:4 {
    alloc S: int32[32] in shared
    alloc W: int32[32] in shared
    thread t in 0:32 {
      if b == 0 { W[t] = 7_i32 } else { W[t] = A[b * 32 - 1] }
      S[t] = A[b * 32 + t]
      barrier(block)
      if t == 0 { B[b * 32 + t] = WEST + S[t] } else { B[b * 32 + t] = S[t - 1] + S[t] }
    }
  }
}"""


def test_blocks_away_from_the_edges_need_no_shared_arrays() -> None:
    text = after(BORDERED.replace("WEST", "W[t]"), inline_indices, forward_shared)
    middle, edge = text.split("} else {", 1)
    assert "if b != 0 {" in middle
    assert "alloc" not in middle
    assert "if t == 0" not in middle  # both arms were A[b * 32 + (t - 1)] + A[b * 32 + t]
    assert "alloc W" in edge


@pytest.mark.parametrize(
    "other",
    [
        BORDERED.replace("WEST", "W[t + 1]").replace("alloc W: int32[32]", "alloc W: int32[33]"),  # nobody stored it
        BORDERED.replace("WEST", "W[t] * 2_i32"),  # another value than the others have
        BORDERED.replace("WEST", "W[t]").replace("if t == 0 {", "if t <= 0 {"),  # no test for one place
        BORDERED.replace("WEST", "W[t]").replace("b == 0", "t == 0"),  # no edge
    ],
)
def test_arms_that_differ_stay(other: str) -> None:
    kernel = forward_shared(inline_indices(parse_kernel(other)))
    verify(kernel)
    assert "if t" in print_kernel(kernel)


@pytest.mark.parametrize(
    ("body", "is_once"),
    [
        ("B[t] = 0_i32 for i in 0:4 { B[t] = B[t] + A[i] }", True),
        ("if t < n { B[t] = 0_i32 B[t] = B[t] + 1_i32 }", True),
        ("B[t] = B[t] + A[t]", True),  # a race: in step, each adds to what was there before
        ("let x: int32 = A[t] while x > 3_i32 { x = x // 2_i32 } C[t] = x", True),
        ("B[t] = int32(y)", False),  # threads differ
        ("atomic B[t] += 1_i32", False),  # eight times one more
    ],
)
def test_threads_that_do_the_same_run_once(body: str, is_once: bool) -> None:
    text = f"""kernel k(n: int64, A: int32[64], out B: int32[64], out C: int32[64]) {{
  block b in 0:1 {{ thread y in 0:8 {{ thread t in 0:32 {{ {body} }} }} }} }}"""
    kernel = parse_kernel(text)
    done = run_once(kernel)
    assert ("thread y" not in print_kernel(done)) == is_once
    given = make_arguments(kernel)
    one, other = ([a.copy() if isinstance(a, np.ndarray) else a for a in given] for _ in range(2))
    interpret(parse_kernel(text.replace("0:8", "7:8")) if is_once else kernel, one, check=False)
    interpret(done, other, check=False)
    for a, b in zip(one, other):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("body", "branches"),
    [
        ("let k: int32 = 0_i32 if A[t] < 3_i32 { k = 1_i32 } else { k = A[t + 1] } B[t] = k", 1),  # a load may fail
        ("let k: int32 = A[t] if k < 3_i32 { k = 1_i32 } else if k > 9_i32 { k = 9_i32 } B[t] = k", 0),
        ("if A[t] < 3_i32 { B[t] = 1_i32 } else { B[t] = 2_i32 }", 0),
        ("if A[t] < 3_i32 { B[t] = 1_i32 } else { C[t] = 2_i32 }", 1),
        ("if A[t] < 3_i32 { B[t] = 1_i32 }", 1),
        ("let k: int32 = 0_i32 let m: int32 = 0_i32 if A[t] < 3_i32 { k = 1_i32 m = 4_i32 } B[t] = k + m", 0),
        ("let k: int32 = 0_i32 let m: int32 = A[t] if m < 3_i32 { m = 4_i32 k = m } B[t] = k + m", 1),
        ("let k: int32 = 0_i32 let m: int32 = A[t] if m < 3_i32 { k = m m = 4_i32 } B[t] = k + m", 1),
        ("let k: int32 = A[t] if k < 3_i32 { k = 8_i32 / (A[t] + 1_i32) } B[t] = k", 1),  # a division may fail
    ],
)
def test_branches_that_choose_a_value_are_a_choice(body: str, branches: int) -> None:
    text = program(body.replace("/", "//")).replace("B[t]", "B[b * 32 + t]").replace("C[t]", "C[b * 32 + t]")
    assert after(text, convert_ifs).count("if ") == branches


@pytest.mark.parametrize(
    "body",
    [
        "S[t] = A[t] barrier(block) if t > 0 { S[t] = 1_i32 } barrier(block) B[b * 32 + t] = S[31 - t]",  # two fill it
        "S[t] = B[b * 32 + t] barrier(block) B[b * 32 + t] = S[31 - t]",  # memory that changes
        "S[(t + 1) % 32] = A[t] barrier(block) B[b * 32 + t] = S[31 - t]",  # who stored it is not plain
        "if t == 0 { S[0] = A[b] } barrier(block) B[b * 32 + t] = S[0]",  # one thread writes, all read
        "let x: int32 = A[t] for i in 0:2 { x = x + 1_i32 } S[t] = x barrier(block) B[b * 32 + t] = S[31 - t]",
        "let x: int32 = A[t] if t > 3 { x = 3_i32 } let y: int32 = x S[t] = y barrier(block) B[b * 32 + t] = S[31 - t]",
    ],
)
def test_other_shared_arrays_stay(body: str) -> None:
    assert "alloc S" in after(program(body), inline_indices, forward_shared)


@pytest.mark.parametrize(
    "body",
    [
        "for i in 0:2 { thread t in 0:32 { if i > 0 { B[b * 32 + t] = S[31 - t] } barrier(block) S[t] = A[i + t] } }",
        "let x: int32 = 1_i32 thread t in 0:32 { S[t] = A[t] + x } if b < 9 { x = 5_i32 } "
        "thread t in 0:32 { B[b * 32 + t] = S[t] + x }",
    ],
)
def test_shared_arrays_that_outlive_what_filled_them_stay(body: str) -> None:
    text = program("").replace("thread t in 0:32 {\n      \n    }", body)
    assert "alloc S" in after(text, inline_indices, forward_shared)


def test_blocks_and_threads_without_shared_memory_become_rows() -> None:
    text = """kernel k(A: float32[40, 50], out B: float32[40, 50]) { block by in 0:3 { block bx in 0:4 {
      thread ty in 0:16 { thread tx in 0:16 { let y: int64 = by * 16 + ty let x: int64 = bx * 16 + tx
        if y < 40 && x < 50 { B[y, x] = A[y, x] + 1.0 } } } } } }"""
    done = after(text, split_threads, coalesce_blocks, hoist_guards)
    assert "block y in 0:40" in done
    assert "thread x in 0:50" in done


def test_a_row_of_blocks_stays_parallel() -> None:
    text = """kernel k(A: float32[70], out B: float32[70]) { block b in 0:3 { thread t in 0:32 {
      if b * 32 + t < 70 { B[b * 32 + t] = A[b * 32 + t] } } } }"""
    done = after(text, split_threads, coalesce_blocks, hoist_guards)
    assert "block b in 0:3" in done
    assert "thread t in 0:min(70 - b * 32, 32)" in done


def test_loops_around_threads_are_written_out() -> None:
    body = """S[t] = A[t] barrier(block) let s: int64 = 16
      while s > 0 { if t < s { S[t] = S[t] + S[t + s] } barrier(block) s = s // 2 }
      B[b * 32 + t] = S[0]"""
    done = after(program(body), split_threads, unroll_phases, narrow_threads, hoist_guards)
    assert "while" not in done
    assert "thread t in 0:8 {" in done


def test_few_threads_get_loops_of_their_own() -> None:
    body = "if t == 0 { B[b] = 1_i32 } C[b * 32 + t] = A[t] if t % 4 == 1 { B[b * 32 + t + 2] = 3_i32 }"
    done = after(program(body), split_threads, narrow_threads, hoist_guards)
    assert "if" not in done
    assert "thread t in 0:8 {" in done


def test_blocks_at_the_edges_are_apart() -> None:
    text = """kernel k(n: int64, A: int32[n], out B: int32[n]) { block b in 0:(n + 31) // 32 {
      alloc S: int32[32] in shared thread t in 0:32 { let i: int64 = b * 32 + t
        S[t] = i < n ? A[i] : 0_i32 barrier(block)
        if i < n { B[i] = S[t] + (i == 0 || t == 0 ? 0_i32 : S[t - 1]) } } } }"""
    done = after(text, split_threads, separate_blocks)
    middle = done[done.index("if ") : done.index("else")]
    assert "< n" not in middle.partition("{")[2]


STENCIL = """kernel k(h: int64, w: int64, A: float32[50, 90], out B: float32[50, 90]) {
  block by in 0:7 { block bx in 0:12 {
    alloc S: float32[12, 12] in shared
    alloc N: float32[12, 12] in shared
    thread ty in 0:12 { thread tx in 0:12 {
      let y: int64 = by * 8 - 2 + ty
      let x: int64 = bx * 8 - 2 + tx
      let inside: bool = y >= 0 && y < 50 && x >= 0 && x < 90
      if inside { S[ty, tx] = A[y, x] }
      barrier(block)
      for i in 0:2 {
        if inside && ty > i && ty < 11 - i && tx > i && tx < 11 - i {
          N[ty, tx] = S[ty, x == 0 ? tx : tx - 1] + S[ty, x == 89 ? tx : tx + 1] + S[y == 0 ? ty : ty - 1, tx]
        }
        barrier(block)
        if inside && ty > i && ty < 11 - i && tx > i && tx < 11 - i {
          if i == 0 { S[ty, tx] = N[ty, tx] } else { B[y, x] = N[ty, tx] }
        }
        barrier(block)
      }
    } }
  } }
}"""


TO_PHASES = (inline_indices, forward_shared, remove_barriers, split_threads, unroll_phases, coalesce_blocks)


def merge(kernel: Kernel) -> Kernel:
    return merge_blocks(kernel, cores=2, cache_bytes=128 << 10)


def test_a_stencil_of_two_steps_in_tiles() -> None:
    """Copies go, values are handed on, blocks are merged to rows: in the end there is one array of the two."""
    passes = (*TO_PHASES, merge, separate_blocks, narrow_threads, hoist_guards, peel_borders)
    done = after(STENCIL, *passes)
    assert "block bx_group in" in done
    assert done.count("alloc") == 1
    assert "A[by * 8 + ty" in done  # read where it is used, not copied


def tiles(value: str, size: int = 8, *, keeps: str = "t > 0 && t < 9") -> str:
    """One step in tiles of 10 threads, of which 8 keep their result, and the blocks ``size`` apart."""
    return f"""kernel k(A: float32[41], out B: float32[50]) {{ block b in 0:5 {{ alloc S: float32[10] in shared
      alloc T: float32[10] in shared
      thread t in 0:10 {{
        let x: int64 = b * {size} + t
        if x < 41 {{ S[t] = A[x] / 3.0 }}
        barrier(block)
        if x < 40 && {keeps} {{ T[t] = {value} }}
        barrier(block)
        if x < 40 && {keeps} {{ B[x] = T[t] }}
      }} }} }}"""


def test_overlapping_blocks_are_merged() -> None:
    done = after(tiles("S[t - 1] * S[t + 1]"), inline_indices, remove_barriers, split_threads, merge)
    assert "block b_group in 0:2" in done
    assert "thread t in 1:min(4 - b_group * 3, 2) * 8 + 9" in done
    assert "B[b_group * 24 + t]" in done


@pytest.mark.parametrize(
    "text",
    [
        tiles("S[t - 1] + float32(t)"),  # who it is matters
        tiles("S[t - 1] + float32(b)"),
        tiles("S[t - 1] + S[1]"),  # of the block's own beginning
        tiles("S[t - 1] + (t % 3 == 0 ? 1.0 : 2.0)"),
        tiles("S[t - 1]", keeps="t > 2 && t < 9"),  # a gap between blocks
        tiles("S[t - 1] + B[b * 8 + t]"),  # memory that changes
        tiles("S[t - 1]").replace("B[x] = T[t]", "B[x] = T[t] + (t > 1 && t < 8 ? T[t - 1] : 0.0)"),
    ],
)
def test_other_blocks_are_not_merged(text: str) -> None:
    assert "group" not in after(text, inline_indices, remove_barriers, split_threads, merge)


def test_the_ends_of_a_row_are_apart() -> None:
    text = """kernel k(n: int64, A: float32[n], out B: float32[n]) { block b in 0:2 { thread x in 0:n {
      if b == 0 { B[x] = A[x == 0 ? x : x - 1] + A[x == n - 1 ? x : x + 1] } } } }"""
    done = after(text, inline_indices, hoist_guards, peel_borders)
    row = done[done.index("thread x") :]
    assert "B[x] = A[x - 1] + A[x + 1]" in row
    assert "?" not in row
    assert done.count("B[x] =") == 3


@pytest.mark.parametrize("step", ["i", "31 - i"])
def test_phases_that_touch_other_elements_are_not_swapped(step: str) -> None:
    body = f"""S[t] = A[t]
      barrier(block)
      for i in 0:3 {{
        let x: int32 = S[(t + {step}) % 32]
        barrier(block)
        S[t] = x + 1_i32
        barrier(block)
      }}
      B[b * 32 + t] = S[t]"""
    passes = (split_threads, unroll_phases, narrow_threads, hoist_guards, forward_phases)
    after(program(body), *passes)


def test_an_element_that_one_thread_changes_is_not_read_through() -> None:
    body = """S[t] = A[b * 32 + t]
      barrier(block)
      if t == 9 { S[t] = 7_i32 }
      B[b * 32 + t] = S[t]"""
    after(program(body), split_threads, narrow_threads, hoist_guards, forward_phases)


def test_cut_off_neighbours_are_neighbours_in_blocks_of_the_middle() -> None:
    """As CUDA stencils with a border of the tile are written: what is cut off is only so at the edges of the data."""
    text = """kernel k(n: int64, A: int32[n], out B: int32[n]) { block b in 0:(n + 29) // 30 {
      alloc S: int32[32] in shared thread t in 0:32 { let x: int64 = b * 30 + t - 1
        let first: int64 = max(1 - b * 30, 0) let last: int64 = min(n - b * 30, 31)
        let w: int64 = t - 1 let e: int64 = t + 1
        w = max(w, first) e = min(e, last)
        if x >= 0 && x < n { S[t] = A[x] } barrier(block)
        if t >= 1 && t <= 30 && (t >= first && t <= last) { B[x] = S[w] + S[e] } } } }"""
    done = after(text, inline_indices, split_threads, separate_blocks)
    middle = done[done.index("if ") : done.index("else")]
    assert "S[t + 1] + S[t - 1]" in middle


def test_every_fourth_thread_counted_from_another_one() -> None:
    body = "B[b * 32 + t] = A[t] if (t + 3) % 4 == 1 { C[b * 32 + t] = A[t] }"
    done = after(program(body), split_threads, narrow_threads, hoist_guards)
    assert "thread t in 0:8 {" in done
    assert "C[b * 32 + (t * 4 + 2)]" in done


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("let s: float32 = 0.0 for k in 0:8 { s = s + A[y, k] * B[k, x] } C[y, x] = s", 4),
        ("if y < n { let s: float32 = 0.0 for k in 0:8 { s = s + A[y, k] * B[k, x] } C[y, x] = s }", 4),
        ("let s: float32 = 0.0 for k in 0:y { s = s + A[y, k] * B[k, x] } C[y, x] = s", 4),  # loops of their own
        ("let s: float32 = 0.0 let t: float32 = 1.0 for k in 0:8 { s = s + A[y, k] * B[k, x] t = t * B[k, x] } "
         "C[y, x] = s + t", 2),
        ("let s: float32 = 0.0 for k in 0:8 { s = s + A[y, k] * B[y, x] } C[y, x] = s", 1),  # nothing in common
        ("C[y, x] = A[y, 0] * B[0, x]", 1),  # no sum
    ],
)  # fmt: skip
def test_rows_of_threads_that_load_the_same_run_at_once(body: str, rows: int) -> None:
    text = f"""kernel k(n: int64, A: float32[8, 8], B: float32[8, 16], out C: float32[8, 16]) {{
  block b in 0:1 {{ thread y in 0:8 {{ vector x in 0:16 {{ {body} }} }} }} }}"""
    done = after(text, partial(jam_threads, vector_bits=256))
    assert f"thread y in 0:{8 // rows} " in done
