"""Fork-join programs to grids: what the joined program looks like, and that it means the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.ir.errors import ScheduleError, UnsupportedError
from weft.ir.interpret import interpret
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.ir.verify import verify
from weft.passes.to_grid.join_threads import join_threads


def joined(text: str, *, fast: bool = False, same: bool = True, **options: Any) -> str:
    """The grid form of ``text``, after checking that it computes the same bits without a race."""
    kernel = parse_kernel(text)
    verify(kernel)
    result = join_threads(kernel, fast=fast, **options)
    verify(result)
    for got, want in zip(run(result), run(kernel)):
        if same:
            np.testing.assert_array_equal(got, want)
        else:
            np.testing.assert_allclose(got, want, rtol=1e-5)
    return print_kernel(result)


def run(kernel: Kernel) -> list[Any]:
    rng = np.random.default_rng(1)
    shapes = [tuple(int(e.value) for e in b.shape) for b in kernel.buffers]  # type: ignore[attr-defined]
    arrays = [rng.integers(-9, 9, shape).astype(to_numpy(b.dtype)) for b, shape in zip(kernel.buffers, shapes)]
    interpret(kernel, arrays)
    return arrays


def test_elementwise_needs_no_barrier() -> None:
    text = joined(
        """kernel p(A: float32[100], out B: float32[100]) {
             block b in 0:2 { thread t in 0:64 { if b * 64 + t < 100 { B[b * 64 + t] = A[b * 64 + t] } } }
           }"""
    )
    assert "barrier" not in text
    assert "block b in 0:2" in text
    assert "thread t in 0:64" in text


def test_a_nest_without_blocks_and_threads_is_one_thread() -> None:
    text = joined("kernel p(A: float32[10], out B: float32[10]) { for i in 0:10 { B[i] = A[i] } }")
    assert "block b in 0:1" in text
    assert "thread t in 0:1" in text


def test_top_level_parallel_is_a_block_loop() -> None:
    text = joined("kernel p(A: float32[10], out B: float32[10]) { parallel i in 2:10 { B[i] = A[i] } }")
    assert "block i in 0:8" in text
    assert "B[i + 2]" in text


def test_every_nest_is_a_launch_of_its_own() -> None:
    text = joined(
        """kernel p(A: float32[8], out B: float32[8]) {
             alloc T: float32[8]
             block i in 0:8 { T[i] = A[i] }
             block i in 0:8 { B[i] = T[7 - i] }
           }"""
    )
    assert text.count("block i in 0:8") == 2
    assert "barrier" not in text


def test_a_loop_around_launches_stays_around_them() -> None:
    text = joined("kernel p(out B: float32[8]) { for k in 0:3 { block i in 0:8 { B[i] = B[i] + 1.0 } } }")
    assert "for k in 0:3 {\n    block i in 0:8 {" in text


def test_a_triangular_grid_is_a_box_with_a_test() -> None:
    text = joined("kernel p(out B: float32[8, 8]) { block i in 0:8 { block j in 0:i + 1 { B[i, j] = 1.0 } } }")
    assert "block j in 0:8" in text
    assert "if " in text


def test_a_block_loop_inside_another_statement_takes_turns() -> None:
    text = joined(
        """kernel p(A: float32[4], out B: float32[4, 4]) {
             block i in 0:4 { B[i, 0] = A[i] parallel j in 1:4 { B[i, j] = 2.0 } }
           }"""
    )
    assert "for j in 1:4" in text


def test_storage_of_a_block_is_distributed_over_threads() -> None:
    text = joined(
        """kernel p(A: float32[2, 256], out B: float32[2, 256]) {
             block r in 0:2 {
               alloc x: float32[256]
               thread t in 0:32 { for c in 0:2 { vector v in 0:4 {
                 x[c * 128 + t * 4 + v] = A[r, c * 128 + t * 4 + v]
               } } }
               thread u in 0:32 { for c in 0:2 { vector v in 0:4 {
                 B[r, c * 128 + u * 4 + v] = x[c * 128 + u * 4 + v]
               } } }
             }
           }"""
    )
    assert "alloc x: float32[8] in local" in text
    assert "x[c * 4 + v]" in text
    assert "barrier" not in text


def test_nests_of_other_shapes_find_the_same_threads() -> None:
    text = joined(
        """kernel p(A: int32[64], out B: int32[64]) {
             block b in 0:1 {
               alloc x: int32[64]
               thread t in 0:64 { x[t] = A[t] }
               thread y in 0:8 { thread z in 0:8 { B[y * 8 + z] = x[y * 8 + z] } }
             }
           }"""
    )
    assert "alloc x: int32[1] in local" in text
    assert "barrier" not in text


def test_what_other_threads_read_is_shared() -> None:
    text = joined(
        """kernel p(A: int32[64], out B: int32[64]) {
             block b in 0:1 {
               alloc x: int32[64]
               thread t in 0:64 { x[t] = A[t] }
               thread t in 0:64 { B[t] = x[63 - t] }
             }
           }"""
    )
    assert "alloc x: int32[64] in shared" in text
    assert text.count("barrier(block)") == 1


def test_one_warp_waits_for_itself_only() -> None:
    text = joined(
        """kernel p(A: int32[128], out B: int32[128]) {
             block b in 0:1 {
               alloc x: int32[4, 32]
               thread w in 0:4 { thread l in 0:32 { x[w, l] = A[w * 32 + l] } }
               thread w in 0:4 { thread l in 0:32 { B[w * 32 + l] = x[w, 31 - l] } }
             }
           }"""
    )
    assert text.count("barrier(warp)") == 1
    assert "barrier(block)" not in text


def test_a_nest_with_fewer_threads_is_guarded() -> None:
    text = joined(
        """kernel p(A: int32[64], out B: int32[64]) {
             block b in 0:1 {
               alloc x: int32[16] in shared
               thread t in 0:16 { x[t] = A[t] }
               thread t in 0:64 { B[t] = x[t % 16] }
             }
           }"""
    )
    assert "if t // 16 == 0" in text or "if t < 16" in text


def test_the_block_itself_writes_by_one_thread() -> None:
    text = joined(
        """kernel p(A: int32[64], out B: int32[65]) {
             block b in 0:1 {
               thread t in 0:64 { B[t] = A[t] }
               B[64] = B[63] + B[0]
             }
           }"""
    )
    assert "if t == 0" in text
    assert text.count("barrier(block)") == 1


ROWS = """kernel p(A: float32[4, 256], out B: float32[4, 256]) {
  block r in 0:4 {
    alloc part: float32[64]
    alloc m: float32[1]
    thread t in 0:64 { part[t] = INIT for c in 0:4 { part[t] = OP(part[t], A[r, c * 64 + t]) } }
    m[0] = INIT
    for t in 0:64 { m[0] = OP(m[0], part[t]) }
    thread t in 0:64 { for c in 0:4 { B[r, c * 64 + t] = A[r, c * 64 + t] - m[0] } }
  }
}"""


def test_a_reduction_across_the_threads_of_a_block() -> None:
    text = joined(ROWS.replace("INIT", "-inf").replace("OP", "max"))
    assert text.count("tensorized thread_reduce") == 1
    assert "alloc part: float32[1] in local" in text
    assert "alloc m: float32[1] in local" in text
    assert text.count("barrier(block)") == 2


def test_strict_float_sums_stay_in_order() -> None:
    sums = ROWS.replace("INIT", "0.0").replace("OP(part[t], A[r, c * 64 + t])", "part[t] + A[r, c * 64 + t]")
    sums = sums.replace("OP(m[0], part[t])", "m[0] + part[t]")
    text = joined(sums)
    assert "thread_reduce" not in text
    assert "alloc part: float32[64] in shared" in text
    assert "alloc m: float32[1] in local" in text
    assert text.count("barrier(block)") == 1
    assert "thread_reduce" in joined(sums, fast=True, same=False)


def test_rows_of_a_block_are_reduced_by_a_warp_each() -> None:
    text = joined(
        """kernel p(A: float32[8, 32], out B: float32[8]) {
             block b in 0:2 {
               alloc part: float32[4, 32]
               thread y in 0:4 { thread x in 0:32 { part[y, x] = A[b * 4 + y, x] } }
               thread y in 0:4 {
                 B[b * 4 + y] = -inf
                 for t in 0:32 { B[b * 4 + y] = max(B[b * 4 + y], part[y, t]) }
               }
             }
           }"""
    )
    assert "thread_reduce" in text
    assert "passed[y * 32 + t]" in text
    assert "barrier(block)" not in text
    assert "if x == 0" in text


def test_rows_inside_a_thread_loop() -> None:
    text = joined(
        """kernel p(A: float32[8, 32], out B: float32[8, 32]) {
             block b in 0:2 {
               thread y in 0:4 {
                 alloc part: float32[32]
                 alloc m: float32[1]
                 thread x in 0:32 { part[x] = A[b * 4 + y, x] }
                 m[0] = -inf
                 for t in 0:32 { m[0] = max(m[0], part[t]) }
                 thread x in 0:32 { B[b * 4 + y, x] = part[x] - m[0] }
               }
             }
           }"""
    )
    assert "alloc part: float32[1, 1] in local" in text
    assert "alloc m: float32[1, 1] in local" in text
    assert "thread_reduce" in text


def test_rows_that_end_early_bring_nothing() -> None:
    text = joined(
        """kernel p(A: float32[7, 32], out B: float32[7]) {
             block b in 0:2 {
               alloc part: float32[4, 32]
               thread y in 0:min(4, 7 - b * 4) { thread x in 0:32 { part[y, x] = A[b * 4 + y, x] } }
               thread y in 0:min(4, 7 - b * 4) {
                 B[b * 4 + y] = -inf
                 for t in 0:32 { B[b * 4 + y] = max(B[b * 4 + y], part[y, t]) }
               }
             }
           }"""
    )
    assert "thread_reduce" in text
    assert ": -inf" in text


MATMUL = """kernel mm(A: float32[32, 32], B: float32[32, 32], out C: float32[32, 32]) {
  block bi in 0:2 { block bj in 0:2 {
    alloc Cl: float32[16, 16]
    thread ty in 0:8 { thread tx in 0:8 { for i in 0:2 { for j in 0:2 { Cl[ty * 2 + i, tx * 2 + j] = 0.0 } } } }
    for ko in 0:4 {
      alloc As: float32[16, 8] in shared
      alloc Bs: float32[8, 16] in shared
      thread t in 0:64 { for v in 0:2 { As[t // 8 + v * 8, t % 8] = A[bi * 16 + t // 8 + v * 8, ko * 8 + t % 8] } }
      thread t in 0:64 { for v in 0:2 { Bs[t // 8, t % 8 * 2 + v] = B[ko * 8 + t // 8, bj * 16 + t % 8 * 2 + v] } }
      thread ty in 0:8 { thread tx in 0:8 { for k in 0:8 { for i in 0:2 { for j in 0:2 {
        Cl[ty * 2 + i, tx * 2 + j] = Cl[ty * 2 + i, tx * 2 + j] + As[ty * 2 + i, k] * Bs[k, tx * 2 + j]
      } } } } }
    }
    thread ty in 0:8 { thread tx in 0:8 { for i in 0:2 { for j in 0:2 {
      C[bi * 16 + ty * 2 + i, bj * 16 + tx * 2 + j] = Cl[ty * 2 + i, tx * 2 + j]
    } } } }
  } }
}"""


def test_a_tiled_matmul_waits_twice_a_step() -> None:
    text = joined(MATMUL)
    assert text.count("barrier(block)") == 2
    assert "alloc Cl: float32[2, 2] in local" in text
    assert "alloc As: float32[16, 9] in shared" in text


def test_storage_too_large_to_share_is_device_memory() -> None:
    text = joined(
        """kernel p(A: int32[2, 64], out B: int32[2, 64]) {
             block b in 0:2 {
               alloc x: int32[64]
               thread t in 0:64 { x[t] = A[b, t] }
               thread t in 0:64 { B[b, t] = x[63 - t] }
             }
           }""",
        shared_bytes=128,
    )
    assert "alloc x: int32[2, 64]\n" in text
    assert text.index("alloc x") < text.index("block b")


def test_shared_storage_that_does_not_fit_is_refused() -> None:
    kernel = parse_kernel(
        """kernel p(out B: int32[64]) {
             block b in 0:1 { alloc x: int32[64] in shared
               thread t in 0:64 { x[t] = 1_i32 } thread t in 0:64 { B[t] = x[63 - t] } } }"""
    )
    with pytest.raises(UnsupportedError, match="does not fit in shared memory"):
        join_threads(kernel, shared_bytes=128)


def test_registers_that_several_threads_use_are_refused() -> None:
    kernel = parse_kernel(
        """kernel p(out B: int32[64]) {
             block b in 0:1 { alloc x: int32[64] in register
               thread t in 0:64 { x[t] = 1_i32 } thread t in 0:64 { B[t] = x[63 - t] } } }"""
    )
    with pytest.raises(UnsupportedError, match="cannot be register storage"):
        join_threads(kernel)


def test_too_many_threads_are_refused() -> None:
    kernel = parse_kernel("kernel p(out B: int32[2048]) { thread t in 0:2048 { B[t] = 1_i32 } }")
    with pytest.raises(ScheduleError, match="2048 threads"):
        join_threads(kernel)


def test_programs_in_grid_form_stay() -> None:
    text = """kernel p(A: int32[64], out B: int32[64]) {
  block b in 0:1 {
    alloc x: int32[64] in shared
    thread t in 0:64 {
      x[t] = A[t]
      barrier(block)
      B[t] = x[63 - t]
    }
  }
}
"""
    assert joined(text) == text


def test_a_thread_that_returns_goes_on_with_the_next_nest() -> None:
    text = joined(
        """kernel p(A: int32[64], out B: int32[64]) {
             block b in 0:1 {
               thread t in 0:64 { if A[t] > 0_i32 { B[t] = 5_i32 return } B[t] = 1_i32 }
               thread t in 0:64 { B[t] = B[t] + A[t] }
             }
           }"""
    )
    assert "break" in text
    assert "return" not in text


def test_a_block_that_returns_ends_all_its_threads() -> None:
    text = joined(
        """kernel p(A: int32[64], out B: int32[64]) {
             block b in 0:1 {
               thread t in 0:64 { B[t] = A[t] }
               if A[0] < 100_i32 { return }
               thread t in 0:64 { B[t] = 0_i32 }
             }
           }"""
    )
    assert "return" in text


@pytest.mark.parametrize(
    "body",
    [
        # the kernel ends, not only the launch that the return stands in
        "if A[0] < 100_i32 { return } block b in 0:2 { thread t in 0:4 { B[b * 4 + t] = A[b * 4 + t] } }",
        # no launch can end a loop around launches
        "for i in 0:8 { block b in 0:8 { B[b] = B[b] + 1_i32 } if B[0] > 3_i32 { break } }",
        "for i in 0:8 { block b in 0:8 { B[b] = B[b] + 1_i32 } if B[0] > -99_i32 { return } } B[1] = 77_i32",
        # a thread takes no part in the nests after its return, and leaves a loop alone
        "thread t in 0:4 { if A[t] > 0_i32 { return } thread u in 0:2 { B[t * 2 + u] = 7_i32 } }",
        "thread t in 0:4 { for i in 0:8 { thread u in 0:2 { B[t * 2 + u] = int32(i) } if A[t] < int32(i) { break } } }",
    ],
)
def test_what_ends_early_ends_as_much_as_before(body: str) -> None:
    joined(f"kernel p(A: int32[8], out B: int32[8]) {{ {body} }}")


def test_a_block_that_leaves_a_loop() -> None:
    text = joined(
        """kernel p(A: int32[8], out B: int32[64]) {
             block b in 0:1 {
               alloc x: int32[64] in shared
               thread t in 0:64 { x[t] = A[t % 8] }
               for k in 0:8 {
                 thread t in 0:64 { B[t] = B[t] + x[(t + k) % 64] }
                 if x[k] > 0_i32 { break }
                 thread t in 0:64 { x[t] = x[t] + 1_i32 }
               }
             }
           }"""
    )
    assert "break" in text


def test_threads_have_names_of_their_own() -> None:
    text = joined("kernel p(A: int32[4], out B: int32[4]) { block t in 0:4 { for b in 0:1 { B[t] = A[t] } } }")
    assert "thread t_1 in 0:1" in text


def test_loops_of_a_nest_named_like_threads_that_count_something_else() -> None:
    """Threads `t` number 3 of 27, and rows of `t` are done by threads next to one another."""
    text = joined(
        """kernel p(A: int32[9, 7], out B: int32[9, 7]) {
             thread t in 0:3 {
               alloc C: int32[3, 7] in register
               alloc T: int32[9, 7]
               thread y in 0:9 { for x in 0:7 { T[y, x] = A[y, x] + int32(t) } }
               for i in 0:3 { for x in 0:7 { C[i, x] = T[(t * 3 + i + 8) % 9, x] - T[t * 3 + i, (x + 1) % 7] } }
               for i in 0:3 { for x in 0:7 { B[t * 3 + i, x] = C[i, x] } }
             }
           }"""
    )
    assert "if t * 3 + y // 3 == 0" in text


def test_lanes_whose_memory_is_on_the_device_take_turns() -> None:
    text = joined(
        """kernel p(A: float32[8, 5000], out B: float32[8]) {
             thread t in 0:4 { B[t] = 0.0 }
             vector y in 0:8 {
               alloc T: float32[5000]
               for x in 0:5000 { T[x] = A[y, x] * 2.0 }
               for x in 0:5000 { B[y] = B[y] + T[x] }
             }
           }"""
    )
    assert "for y in 0:8" in text


def test_threads_that_reduce_together_take_lanes_in_turn() -> None:
    text = joined(
        """kernel p(A: float32[5], D: float32[5, 2], out B: float32[2]) {
             block b in 0:1 {
               alloc T: float32[5]
               thread n in 0:5 { T[n] = A[n] }
               vector p in 0:2 {
                 B[p] = 0.0
                 for n in 0:5 { B[p] = B[p] + T[n] * D[n, p] }
               }
             }
           }""",
        fast=True,
        same=False,
    )
    assert "for p in 0:2" in text
