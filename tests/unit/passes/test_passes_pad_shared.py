"""Rows of shared arrays: longer only where that keeps the threads of a warp from waiting at a bank."""

from __future__ import annotations

from test_passes_join_threads import MATMUL, joined


def transpose(dtype: str, rows: int, columns: int) -> str:
    return f"""kernel p(A: {dtype}[32, 32], out B: {dtype}[32, 32]) {{
      block b in 0:1 {{
        alloc x: {dtype}[{rows}, {columns}] in shared
        thread y in 0:8 {{ thread t in 0:32 {{ for i in 0:4 {{ x[i * 8 + y, t] = A[i * 8 + y, t] }} }} }}
        thread y in 0:8 {{ thread t in 0:32 {{ for i in 0:4 {{ B[i * 8 + y, t] = x[t, i * 8 + y] }} }} }}
      }}
    }}"""


def test_columns_of_a_square_tile_get_a_bank_each() -> None:
    assert "alloc x: float32[32, 33] in shared" in joined(transpose("float32", 32, 32))


def test_rows_that_have_banks_apart_stay() -> None:
    assert "alloc x: float32[32, 33] in shared" in joined(transpose("float32", 32, 33))


def test_narrow_elements_move_by_whole_words() -> None:
    assert "alloc x: int8[32, 36] in shared" in joined(transpose("int8", 32, 32))


def test_rows_of_vectors_stay_aligned() -> None:
    text = joined(
        """kernel p(A: float32[32, 32], out B: float32[32, 32]) {
             block b in 0:1 {
               alloc x: float32[32, 32] in shared
               thread t in 0:32 { for i in 0:8 { vector v in 0:4 {
                 x[i * 4 + t // 8, t % 8 * 4 + v] = A[i * 4 + t // 8, t % 8 * 4 + v]
               } } }
               thread t in 0:32 { for i in 0:32 { B[i, t] = x[t, i] } }
             }
           }"""
    )
    assert "alloc x: float32[32, 36] in shared" in text


def test_no_room_no_padding() -> None:
    assert "alloc x: float32[32, 32] in shared" in joined(transpose("float32", 32, 32), shared_bytes=32 * 32 * 4)


def test_broadcasts_are_no_conflict() -> None:
    assert "alloc Bs: float32[8, 16] in shared" in joined(MATMUL)
