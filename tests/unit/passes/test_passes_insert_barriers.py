"""Barriers where threads meet, and nowhere else: how many known programs get, and where."""

from __future__ import annotations

from test_passes_join_threads import joined


def test_a_tree_reduction_waits_before_every_level() -> None:
    text = joined(
        """kernel p(A: int32[128], out B: int32[1]) {
             block b in 0:1 {
               alloc x: int32[128] in shared
               thread t in 0:128 { x[t] = A[t] }
               for k in 0:7 {
                 thread t in 0:128 { if t < 64 >> k { x[t] = x[t] + x[t + (64 >> k)] } }
               }
               B[0] = x[0]
             }
           }"""
    )
    assert text.count("barrier") == 1
    assert text.index("for k in 0:7") < text.index("barrier(block)")


def test_unrolled_levels_within_a_warp_wait_for_the_warp() -> None:
    levels = "\n".join(
        f"thread t in 0:128 {{ if t < {n} {{ x[t] = x[t] + x[t + {n}] }} }}" for n in (64, 32, 16, 8, 4, 2, 1)
    )
    text = joined(
        f"""kernel p(A: int32[128], out B: int32[1]) {{
             block b in 0:1 {{
               alloc x: int32[128] in shared
               thread t in 0:128 {{ x[t] = A[t] }}
               {levels}
               B[0] = x[0]
             }}
           }}"""
    )
    assert text.count("barrier(block)") == 2
    assert text.count("barrier(warp)") == 5


def test_two_buffers_in_turn_wait_once_a_step() -> None:
    text = joined(
        """kernel p(A: int32[8, 64], out B: int32[64]) {
             block b in 0:1 {
               alloc x: int32[2, 64] in shared
               alloc s: int32[64]
               thread t in 0:64 { s[t] = 0_i32 }
               thread t in 0:64 { x[0, t] = A[0, t] }
               for k in 0:8 {
                 if k + 1 < 8 { thread t in 0:64 { x[(k + 1) % 2, t] = A[k + 1, t] } }
                 thread t in 0:64 { s[t] = s[t] + x[k % 2, 63 - t] }
               }
               thread t in 0:64 { B[t] = s[t] }
             }
           }"""
    )
    assert text.count("barrier(block)") == 1
    assert "alloc s: int32[1] in local" in text


def test_a_ring_of_three_waits_once_a_step() -> None:
    text = joined(
        """kernel p(A: int32[8, 64], out B: int32[64]) {
             block b in 0:1 {
               alloc x: int32[3, 64] in shared
               alloc s: int32[64]
               thread t in 0:64 { s[t] = 0_i32 }
               thread t in 0:64 { x[0, t] = A[0, t] }
               thread t in 0:64 { x[1, t] = A[1, t] }
               for k in 0:8 {
                 if k + 2 < 8 { thread t in 0:64 { x[(k + 2) % 3, t] = A[k + 2, t] } }
                 thread t in 0:64 { s[t] = s[t] + x[k % 3, 63 - t] }
               }
               thread t in 0:64 { B[t] = s[t] }
             }
           }"""
    )
    assert text.count("barrier(block)") == 1


def test_a_table_filled_before_a_loop_waits_before_the_loop() -> None:
    text = joined(
        """kernel p(A: int32[64], out B: int32[4, 64]) {
             block b in 0:1 {
               alloc x: int32[64] in shared
               thread t in 0:64 { x[t] = A[t] }
               for k in 0:4 { thread t in 0:64 { B[k, t] = x[(t + k) % 64] } }
             }
           }"""
    )
    assert text.count("barrier(block)") == 1
    assert text.index("barrier(block)") < text.index("for k in 0:4")


def test_a_neighbours_element_is_waited_for_in_both_directions() -> None:
    text = joined(
        """kernel p(A: int32[64], out B: int32[64]) {
             block b in 0:1 {
               alloc x: int32[64] in shared
               thread t in 0:64 { x[t] = A[t] }
               for k in 0:3 {
                 alloc y: int32[64]
                 thread t in 0:64 { y[t] = x[(t + 1) % 64] }
                 thread t in 0:64 { x[t] = y[t] }
               }
               thread t in 0:64 { B[t] = x[t] }
             }
           }"""
    )
    assert text.count("barrier(block)") == 2
    assert "alloc y: int32[1] in local" in text


def test_conditions_read_by_all_threads_are_waited_for() -> None:
    text = joined(
        """kernel p(A: int32[64], out B: int32[64]) {
             block b in 0:1 {
               alloc x: int32[64] in shared
               thread t in 0:64 { x[t] = A[t] }
               if x[63] > 0_i32 { thread t in 0:64 { B[t] = 1_i32 } } else { thread t in 0:64 { B[t] = 2_i32 } }
             }
           }"""
    )
    assert text.count("barrier(block)") == 1
    assert text.index("barrier(block)") < text.index("if x[63]")


def test_independent_global_writes_need_no_barrier() -> None:
    text = joined(
        """kernel p(A: int32[64], out B: int32[64], out C: int32[64]) {
             block b in 0:1 {
               thread t in 0:64 { B[t] = A[t] }
               thread t in 0:64 { C[t] = A[63 - t] + B[t] }
             }
           }"""
    )
    assert "barrier" not in text


def test_global_memory_is_waited_for_within_a_block() -> None:
    text = joined(
        """kernel p(A: int32[64], out B: int32[64], out C: int32[64]) {
             block b in 0:1 {
               thread t in 0:64 { B[t] = A[t] }
               thread t in 0:64 { C[t] = B[63 - t] }
             }
           }"""
    )
    assert text.count("barrier(block)") == 1


def test_one_barrier_of_the_block_does_for_one_of_the_warp() -> None:
    text = joined(
        """kernel p(A: int32[64], out B: int32[64], out C: int32[64]) {
             block b in 0:1 {
               alloc x: int32[64] in shared
               alloc y: int32[64] in shared
               thread t in 0:64 { x[t] = A[t] }
               thread t in 0:64 { y[t] = A[t] }
               thread t in 0:64 { B[t] = x[t // 2 * 2] }
               thread t in 0:64 { C[t] = y[63 - t] }
             }
           }"""
    )
    assert text.count("barrier") == 1
