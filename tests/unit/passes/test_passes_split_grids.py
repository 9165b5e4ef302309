"""Grid barriers: on the CPU blocks are split at them, for CUDA all blocks wait; both mean what the interpreter says."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import Barrier
from weft.ir.verify import verify
from weft.ir.visit import walk
from weft.passes.gpu_to_cpu.split_grids import split_grids
from weft.target.cuda.lower import compile_kernel, lower_kernel
from weft.target.cuda.machine import gpu_for_arch

sys.path.append(str(Path(__file__).parents[1] / "target"))
from run_compiled import make_arguments

H200 = gpu_for_arch("sm_90")
HEAD = "kernel k(A: float32[4, 8], out C: float32[4, 8]) {"
#: Thread loops one after another, with what a block keeps from step to step.
FORK_JOIN = f"""{HEAD}
  block b in 0:4 {{
    alloc S: float32[8] in shared
    thread i in 0:8 {{ S[i] = A[b, i] }}
    for t in 0:3 {{
      thread i in 0:8 {{ C[b, i] = S[7 - i] + float32(t) }}
      barrier(grid)
      thread i in 0:8 {{ S[i] = C[3 - b, i] }}
      barrier(grid)
    }}
  }}
}}"""
#: One nest of threads, with values that live across the barriers of its block and of the grid.
GRID = f"""{HEAD}
  block b in 0:4 {{
    alloc S: float32[8] in shared
    thread i in 0:8 {{
      S[i] = A[b, i]
      barrier(block)
      let x: float32 = S[7 - i]
      for t in 0:3 {{
        C[b, i] = S[7 - i] + float32(t) + x
        barrier(grid)
        S[i] = C[3 - b, i]
        barrier(grid)
      }}
      C[b, i] = C[b, i] + x
    }}
  }}
}}"""
#: Not every block has something to do in every phase, and one does a phase alone.
UNEVEN = f"""{HEAD}
  block b in 0:4 {{
    for t in 0:3 {{
      if b < 2 {{ thread i in 0:8 {{ C[2 * b, i] = A[b, i] + float32(t)  C[2 * b + 1, i] = A[b, 7 - i] }} }}
      barrier(grid)
      if b == 3 {{ thread i in 0:8 {{ for r in 0:4 {{ C[r, i] = 2.0 * C[r, i] }} }} }}
      barrier(grid)
    }}
  }}
}}"""
#: Threads of one block are the whole grid.
ALONE = f"""{HEAD}
  thread i in 0:32 {{
    C[i // 8, i % 8] = A[i // 8, i % 8]
    barrier(grid)
    let x: float32 = C[3 - i // 8, 7 - i % 8]
    barrier(grid)
    C[i // 8, i % 8] = x
  }}
}}"""
PROGRAMS = {"fork-join": FORK_JOIN, "grid": GRID, "uneven": UNEVEN, "alone": ALONE}


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_ways_agree(name: str) -> None:
    kernel = parse_kernel(PROGRAMS[name])
    verify(kernel)
    given, want = make_arguments(kernel)
    interpret(kernel, [given, want])
    split, joined = split_grids(kernel), lower_kernel(kernel, H200)
    assert not any(isinstance(n, Barrier) and n.scope == "grid" for n in walk(split))
    assert any(isinstance(n, Barrier) and n.scope == "grid" for n in walk(joined))
    for other in (split, joined):
        verify(other)
        got = np.zeros_like(want)
        interpret(other, [given, got])
        np.testing.assert_array_equal(got, want)
    got = np.zeros_like(want)
    weft.kernel(kernel)(given, got)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_launch_whose_blocks_wait_is_cooperative(name: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    (launch,) = compile_kernel(parse_kernel(PROGRAMS[name]), H200).launches
    assert launch.cooperative


def test_a_loop_that_threads_leave_with_a_barrier_that_is_removed() -> None:
    """Threads have their own elements, so that barrier orders nothing; nobody is asked any more who goes on."""
    text = f"""{HEAD}
      block b in 0:4 {{
        thread i in 0:8 {{
          C[b, i] = A[b, i]
          let w: int32 = 0_i32
          while w < 3_i32 {{
            w = w + 1_i32
            if i + int64(w) == 6 {{ return }}
            C[b, i] = C[b, i] * 2.0
            barrier(block)
          }}
          barrier(grid)
          C[b, i] = C[b, i] + A[3 - b, 7 - i]
        }}
      }}
    }}"""
    kernel = parse_kernel(text)
    given, want = make_arguments(kernel)
    interpret(kernel, [given, want])
    got = np.zeros_like(want)
    weft.kernel(kernel)(given, got)
    np.testing.assert_array_equal(got, want)


def test_what_a_block_keeps_has_a_place_for_each_block() -> None:
    assert "alloc S_kept: float32[8, 4]" in print_kernel(split_grids(parse_kernel(FORK_JOIN)))


def test_the_sanitizer_sees_what_a_grid_barrier_orders() -> None:
    args = make_arguments(parse_kernel(FORK_JOIN))
    assert not weft.sanitize(FORK_JOIN, *args).findings
    alone = FORK_JOIN.replace("      barrier(grid)\n", "", 1)
    assert {f.kind for f in weft.sanitize(alone, *make_arguments(parse_kernel(alone))).findings} == {"race"}


def test_one_barrier_of_the_grid_does_for_the_threads_of_a_block_too() -> None:
    scopes = [n.scope for n in walk(lower_kernel(parse_kernel(FORK_JOIN), H200)) if isinstance(n, Barrier)]
    assert scopes.count("grid") == 2
    assert "block" not in scopes
