"""Copies, tiles, layouts and partial reductions: what each step makes of the program, and that it computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from schedule_kernels import MATMUL, assert_unchanged, floats, kernel_of, run, schedule_of

import weft
from weft.ir.errors import ScheduleError
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.verify import verify
from weft.passes.plain.lower_blocks import lower_blocks
from weft.passes.to_grid.run_ahead import run_ahead
from weft.schedules.find import find_buffer, find_loop
from weft.schedules.layouts import parse_layout
from weft.schedules.schedule import Schedule, replay

ROW_SUM = "def rowsum(float(M,K) A) -> (S) { S(m) +=! A(m,k) }"
INTEGER_SUM = "def total(int(K) A) -> (S) { S +=! A(k) }"
STENCIL = "def stencil(float(N) X) -> (Z) { Z(i) = X(i) + X(i+1) + X(i+2) where i in 0:N-2 }"
CHAIN2 = "def chain2(float(M,N) X) -> (Z) { Y(i,j) = X(i,j) * 2 where i in 0:M, j in 0:N\n Z(i,j) = Y(i,j) + 1 }"
EPILOGUE = "def dense(float(M,K) A, float(K,N) B) -> (D) { C(m,n) +=! A(m,k) * B(k,n)\n D(m,n) = max(C(m,n), 0.0) }"


def tiled(m: int = 17, n: int = 20, k: int = 10) -> tuple[Schedule, Any]:
    """A matrix product in tiles of 4 x 8 with tails on every side, the reduction split too."""
    original = kernel_of(MATMUL, M=m, N=n, K=k)
    s = Schedule(original)
    s.split("m", 4), s.split("n", 8), s.split("k", 4)
    s.reorder("m_o", "n_o", "k_o", "k_i", "m_i", "n_i")
    return s, original


PLACES = [None, "m_o", "n_o", "k_o", "k_i", "m_i"]


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize("buffer", ["A", "B"])
def test_cache_read_copies_what_is_read_below(buffer: str, at: str | None) -> None:
    s, original = tiled()
    block, storage = s.cache_read(buffer, at=at)
    assert s.blocks()[0] == block
    assert storage.name == f"{buffer}_cache"
    assert_unchanged(s, original, floats(17, 10), floats(10, 20))


def test_cache_read_takes_the_bounding_box() -> None:
    s, _ = tiled()
    s.cache_read("B", at="k_o")
    shape = find_buffer(s.kernel, "B_cache").shape
    assert [e.value for e in shape] == [4, 8]  # type: ignore[attr-defined]


def test_windows_that_overlap_share_a_copy() -> None:
    original = kernel_of(STENCIL, N=23)
    s = Schedule(original)
    s.split("i", 8)
    s.cache_read("X", at="i_o")
    assert find_buffer(s.kernel, "X_cache").shape[0].value == 10  # type: ignore[attr-defined]
    assert_unchanged(s, original, floats(23))


def test_cache_read_for_one_reader_leaves_the_others() -> None:
    text = "def two(float(N) X) -> (Y, Z) { Y(i) = X(i) * 2\n Z(i) = X(i) + 1 }"
    original = kernel_of(text, N=6)
    s = Schedule(original)
    s.cache_read("X", readers=["Z"])
    printed = print_kernel(s.kernel)
    assert "Y[vi] = X[vi] * 2.0" in printed
    assert "Z[vi] = X_cache[vi] + 1.0" in printed
    assert_unchanged(s, original, floats(6))


def test_cache_read_of_a_temporary_comes_after_its_producer() -> None:
    original = kernel_of(CHAIN2, M=5, N=7)
    s = Schedule(original)
    s.cache_read("Y")
    assert [b.name for b in s.blocks()] == ["Y", "Y_cache_load", "Z"]
    assert_unchanged(s, original, floats(5, 7))


def test_cache_read_with_symbolic_sizes() -> None:
    original = kernel_of(MATMUL)
    s = Schedule(original)
    s.split("n", 8)
    s.cache_read("B", at="n_o")
    verify(s.kernel)
    for m, n, k in ((3, 9, 5), (2, 0, 3), (1, 8, 0)):
        a, b, actual, expected = floats(m, k), floats(k, n), floats(m, n), floats(m, n)
        interpret(s.kernel, [a, b, m, k, n, actual])
        interpret(original, [a, b, m, k, n, expected])
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("at", PLACES)
def test_cache_write_at_any_depth(at: str | None) -> None:
    s, original = tiled()
    block, storage = s.cache_write("C", scope="global", at=at)
    assert (block.name, storage.name) == ("C_store", "C_cache")
    assert_unchanged(s, original, floats(17, 10), floats(10, 20))


def test_a_recurrence_does_not_fetch_what_it_has_not_set() -> None:
    text = "def scans(int(M,N) A) -> (S) { S(i, 0) = A(i, 0)\n S(i, j) = S(i, j-1) + A(i, j) where j in 1:N }"
    original = kernel_of(text, M=2, N=4)
    s = Schedule(original)
    with pytest.raises(ScheduleError, match="reads elements of `S` that block `S_1` may set before"):
        s.cache_write("S", scope="global", at=s.loops("S_1")[0])
    assert s.kernel == Schedule(original).kernel


def test_elements_that_one_block_or_another_starts_are_not_fetched() -> None:
    text = "def lowest(float(M,N) A) -> (B) { L(i) min=! A(i,j)\n B(i,j) = A(i,j) - L(i) }"
    original = kernel_of(text, M=9, N=8)
    s = Schedule(original)
    s.cut("j", "i // 2")  # whose first part is empty in the first rows: the second starts these
    s.cache_write("L", scope="global")
    assert [b.name for b in s.blocks()][:2] == ["L_init", "L_1_init"]
    assert_unchanged(s, original, floats(9, 8))


def test_a_register_tile_starts_accumulates_and_is_stored() -> None:
    s, original = tiled(16, 16, 8)
    s.cache_write("C", scope="register", at="n_o")
    assert [b.name for b in s.blocks()] == ["C_init", "C", "C_store"]
    assert find_buffer(s.kernel, "C_cache").scope == "register"
    assert all(b.name != "C_load" for b in s.blocks())
    assert_unchanged(s, original, floats(16, 8), floats(8, 16))


def test_a_tile_inside_a_reduction_loop_is_fetched_after_the_first_time() -> None:
    s, original = tiled(16, 16, 8)
    s.cache_write("C", scope="register", at="k_o")
    assert [b.name for b in s.blocks()] == ["C_load", "C_init", "C", "C_store"]
    assert "if k_o > 0" in str(s)
    assert_unchanged(s, original, floats(16, 8), floats(8, 16))


def test_copies_run_like_the_loops_they_are_made_from() -> None:
    s, original = tiled(16, 16, 8)
    s.vectorize("n_i")
    s.unroll("m_i")
    s.cache_write("C", scope="register", at="n_o")
    kinds = [find_loop(s.kernel, name.name).kind for name in s.loops("C_store")[2:]]
    assert kinds == ["unroll", "vector"]
    assert_unchanged(s, original, floats(16, 8), floats(8, 16))


def test_cache_write_with_symbolic_sizes_keeps_empty_reductions() -> None:
    original = kernel_of(MATMUL)
    s = Schedule(original)
    s.split("n", 8)
    s.cache_write("C", scope="global", at="n_o")
    verify(s.kernel)
    for m, n, k in ((3, 9, 5), (2, 3, 0)):
        a, b, actual, expected = floats(m, k), floats(k, n), floats(m, n), floats(m, n)
        interpret(s.kernel, [a, b, m, k, n, actual])
        interpret(original, [a, b, m, k, n, expected])
        np.testing.assert_array_equal(actual, expected)


def test_cache_write_takes_a_block_name() -> None:
    original = parse_kernel(
        "kernel f(out y: float32[8]) { for i in 0:8 { block set(v spatial 0:8 = i) writes y[v] { y[v] = 1.0 } } }"
    )
    s = Schedule(original)
    s.split("i", 4)
    s.cache_write("set", scope="register", at="i_o")
    assert_unchanged(s, original)


def test_untouched_elements_stay_as_they_were() -> None:
    text = (
        "kernel f(out y: float32[9]) { for i in 0:4 { block a(v spatial 0:4 = i) writes y[v * 2] { y[v * 2] = 1.0 } } }"
    )
    s = Schedule(parse_kernel(text))
    s.cache_write("y", scope="global")
    found = np.full(9, 5, np.float32)
    interpret(s.kernel, [found])
    np.testing.assert_array_equal(found, [1, 5, 1, 5, 1, 5, 1, 5, 5])


@pytest.mark.parametrize("at", ["m_o", "n_o", "k_o", "k_i", "m_i", "n_i"])
def test_decompose_reduction_before_any_loop(at: str) -> None:
    s, original = tiled()
    made = s.decompose_reduction("C", at=at)
    assert made.name == "C_init"
    assert_unchanged(s, original, floats(17, 10), floats(10, 20))


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        ("j i", [20, 10]),
        ("j/8 i j%8", [3, 10, 8]),
        ("i/4 j/8 i%4 j%8", [3, 3, 4, 8]),
        ("j/8 i j/2%4 j%2", [3, 10, 4, 2]),
    ],
)
@pytest.mark.parametrize("pad", [False, True])
def test_pack_copies_to_the_layout(layout: str, shape: list[int], pad: bool) -> None:
    s, original = tiled()
    block, storage = s.pack("B", layout, pad=pad)
    assert (str(block), str(storage)) == ("B_pack_load", "B_pack")
    assert [e.value for e in find_buffer(s.kernel, "B_pack").shape] == shape  # type: ignore[attr-defined]
    assert_unchanged(s, original, floats(17, 10), floats(10, 20))


def test_pack_below_a_loop_packs_what_is_read_there() -> None:
    s, original = tiled()
    s.pack("A", "j i", at="k_o")
    assert [e.value for e in find_buffer(s.kernel, "A_pack").shape] == [4, 4]  # type: ignore[attr-defined]
    assert_unchanged(s, original, floats(17, 10), floats(10, 20))


def test_pack_of_a_part_leaves_other_reads_where_they_are() -> None:
    text = "def f(float(N,3,D) A) -> (C) { C(i,j) +=! A(i,0,d) * A(j,1,d) }"
    s, sizes = schedule_of(text, N=6, D=5), {"N": 6, "D": 5}
    s.pack("A", "j k i", at="i", part=(1, 1))
    assert "A[vi, 0, vd] * A_pack[" in print_kernel(s.kernel)
    assert_unchanged(s, kernel_of(text, **sizes), floats(6, 3, 5))
    assert replay(kernel_of(text, **sizes), s.trace) == s.kernel
    with pytest.raises(ScheduleError, match="nothing below `i` reads `A`"):
        s.pack("A", "j k i", at="i", part=(1, 2))
    with pytest.raises(ScheduleError, match="has 3 dimensions"):
        s.pack("A", "j k i", at="i", part=(3, 0))


def test_a_temporary_is_laid_out_without_a_copy() -> None:
    original = kernel_of(CHAIN2, M=5, N=7)
    s = Schedule(original)
    block, storage = s.pack("Y", "j/4 i j%4")
    assert (block, str(storage)) == (None, "Y")
    assert [b.name for b in s.blocks()] == ["Y", "Z"]
    assert "Y[vj // 4, vi, vj % 4]" in print_kernel(s.kernel)
    assert_unchanged(s, original, floats(5, 7))


@pytest.mark.parametrize("text", ["j/8 i", "i j j", "i", "k i j", "j%8 i", "j/0 i j%0", "j/8 i j%4", "", "j*2 i"])
def test_layouts_that_lose_or_repeat_elements_are_refused(text: str) -> None:
    with pytest.raises(ScheduleError, match="is not a layout"):
        parse_layout(text, 2)


@pytest.mark.parametrize("factor", [None, 4])
@pytest.mark.parametrize("k", [1, 3, 10, 0])
def test_rfactor_sums_parts(k: int, factor: int | None) -> None:
    original = kernel_of(ROW_SUM, M=3, K=k)
    s = Schedule(original, numerics="fast")
    block, storage = s.rfactor("k", factor)
    assert (block.name, storage.name) == ("S_part_update", "S_part")
    verify(s.kernel)
    a = floats(3, k)
    np.testing.assert_allclose(run(s.kernel, a)[0], run(original, a)[0], rtol=1e-5, atol=1e-6)


def test_partial_results_are_independent() -> None:
    s = schedule_of(INTEGER_SUM, K=50)
    original = s.kernel
    with pytest.raises(ScheduleError, match="both update"):
        s.parallel("k")
    s.rfactor("k", 8)
    s.reorder("k_i", "k_o")
    s.parallel("k_i")
    values = np.arange(50, dtype=np.int32)
    assert_unchanged(s, original, values)


def test_rfactor_is_refused_whole() -> None:
    s = schedule_of(ROW_SUM, M=3, K=8)
    before = str(s)
    with pytest.raises(ScheduleError, match="numerics="):
        s.rfactor("k", 4)
    assert (str(s), len(s.trace)) == (before, 0)


def test_rfactor_of_a_sum_whose_loop_also_makes_what_it_adds() -> None:
    """As in a softmax: the loop that makes the terms sums them in lanes, for the loop after it to use both."""
    text = "def f(float(M,N) X) -> (O) { E(m,n) = X(m,n) * X(m,n)\n T(m) +=! E(m,n)\n O(m,n) = E(m,n) / T(m) }"
    original = kernel_of(text, M=3, N=11)
    s = Schedule(original, numerics="fast")
    row, _ = s.loops("O")
    s.compute_at("T", row)
    s.compute_at("E", row)
    both = s.fuse_loops(s.loops("E")[-1], s.loops("T")[-1])
    _, lane = s.split(both, 4)
    s.rfactor(lane)
    verify(s.kernel)
    x = floats(3, 11)
    np.testing.assert_allclose(run(s.kernel, x)[0], run(original, x)[0], rtol=1e-5)


RUNNING_SUM = """
kernel running(X: float32[8], out T: float32[], out P: float32[8]) {
  for n in 0:8 {
    block T(vn reduce 0:8 = n) reads T[], X[vn] writes T[] { init { T[] = 0.0 } T[] = T[] + X[vn] }
    block P(vn spatial 0:8 = n) reads T[] writes P[vn] { P[vn] = T[] }
  }
}"""


def test_rfactor_is_refused_where_the_loop_reads_the_sum() -> None:
    with pytest.raises(ScheduleError, match="block `P` uses `T` inside the reduction loop `n` too"):
        Schedule(parse_kernel(RUNNING_SUM), numerics="fast").rfactor("n")


def test_an_epilogue_in_the_same_tile() -> None:
    original = kernel_of(EPILOGUE, M=8, N=8, K=4)
    s = Schedule(original)
    s.cache_write("C", scope="global")
    assert_unchanged(s, original, floats(8, 4), floats(4, 8))


def test_storage_is_filled_an_iteration_ahead() -> None:
    original = kernel_of(MATMUL, M=6, N=7, K=10)
    s = Schedule(original)
    s.split("k", 4)
    s.cache_read("B", at="k_o")
    s.cache_read("A", at="k_o")
    s.double_buffer("B_cache")
    s.double_buffer("A_cache")
    assert [b.name for b in s.blocks()] == ["B_cache_load", "A_cache_load", "C"]
    assert "for k_o in 0:3 ahead 1 of B_cache, A_cache {" in print_kernel(s.kernel)
    assert_unchanged(s, original, floats(6, 10), floats(10, 7))


def test_storage_filled_from_what_the_loop_changes_is_not_filled_ahead() -> None:
    original = parse_kernel("""kernel f(out y: float32[8]) {
        for i in 1:8 {
          alloc t: float32[1] {
            block a(v spatial 1:8 = i) reads y[v - 1] writes t[0] { t[0] = y[v - 1] }
            block b(v spatial 1:8 = i) reads t[0] writes y[v] { y[v] = t[0] + 1.0 } } } }""")
    s = Schedule(original)
    with pytest.raises(ScheduleError, match="filled from `y`, which `i` changes"):
        s.double_buffer("t")


def test_prefetch_looks_up_rows_ahead() -> None:
    s = weft.schedule(weft.ops.gather_rows, X=(100, 32), I=(10,))
    m, _ = s.loops("O")
    s.prefetch("X", at=m, ahead=4)
    assert "prefetch(&X[int64(I[min(m + 4, 9)]), X_line1 * 16])" in print_kernel(s.kernel)
    x, rows = floats(100, 32), np.arange(10, dtype=np.int32)[::-1].copy()
    np.testing.assert_array_equal(s.build()(x, rows), x[rows])


def test_prefetch_asks_for_each_cache_line() -> None:
    original = kernel_of(MATMUL, M=4, N=64, K=12)
    s = Schedule(original)
    s.split("n", 32)
    s.reorder("n_o", "k", "m", "n_i")
    s.prefetch("B", at="k", ahead=4)
    assert "call prefetch(&B[k + 4, n_o * 32 + B_line1 * 16])" in print_kernel(s.kernel)
    assert_unchanged(s, original, floats(4, 12), floats(12, 64))
    s.cache_write("C", at="n_o")
    assert_unchanged(s, original, floats(4, 12), floats(12, 64))


def test_prefetch_asks_for_a_share_of_the_next_panel() -> None:
    original = kernel_of(MATMUL, M=4, N=64, K=12)
    s = Schedule(original)
    s.pack("B", "j/32 i j%32")
    s.split("n", 32)
    s.reorder("n_o", "m", "k", "n_i")
    s.prefetch("B_pack", at="m", of="n_o")
    hints = [line.strip() for line in print_kernel(s.kernel).splitlines() if "prefetch" in line]
    assert hints[0] == "call prefetch(&B_pack[n_o + 1, 0, m * 96])"
    assert len(hints) == 6, "24 lines of a panel, 4 rows"
    assert_unchanged(s, original, floats(4, 12), floats(12, 64))


def test_tiles_beyond_the_edge_are_computed_and_not_stored() -> None:
    s, original = tiled()
    s.cache_write("C", scope="register", at="n_o")
    s.pack("A", "i/4 j i%4", pad=True)
    s.pack("B", "j/8 i j%8", pad=True)
    s.pad("C_init")
    s.pad("C")
    guards = [line.strip() for line in str(s).splitlines() if line.strip().startswith("if")]
    assert guards == ["if k_o * 4 + k_i < 10", "if m_o * 4 + m_i_store < 17", "if n_o * 8 + n_i_store < 20"]
    assert_unchanged(s, original, floats(17, 10), floats(10, 20))


def test_tiles_run_beyond_the_edge_along_one_loop() -> None:
    """Rows of `A` that are not there are not read: their guard stays."""
    s, original = tiled()
    s.cache_write("C", scope="register", at="n_o")
    s.pack("B", "j/8 i j%8", pad=True)
    s.pad("C_init")
    s.pad("C", along="n_i")
    guards = [line.strip() for line in str(s).splitlines() if line.strip().startswith("if")]
    assert guards[:2] == ["if m_o * 4 + m_i < 17", "if k_o * 4 + k_i < 10"]
    assert not any("n_i <" in guard for guard in guards)
    assert_unchanged(s, original, floats(17, 10), floats(10, 20))


def test_padding_without_values_is_not_read() -> None:
    s, _ = tiled()
    s.cache_write("C", scope="register", at="n_o")
    s.pack("A", "i/4 j i%4")
    s.pack("B", "j/8 i j%8", pad=True)
    with pytest.raises(ScheduleError, match="`C_cache` may not have a value"):
        s.pad("C")
    s.pad("C_init")
    with pytest.raises(ScheduleError, match="`A_pack` may not have a value"):
        s.pad("C")


def test_traces_of_data_movement_replay() -> None:
    op = weft.define(MATMUL, schedule="naive")
    s = weft.schedule(op, A=(20, 9), B=(9, 40))
    m, n, k = s.loops("C")
    mo, mi = s.split(m, 4)
    no, ni = s.split(n, 8)
    s.reorder(mo, no, k, mi, ni)
    s.cache_write("C", at=no)
    s.pack("B", "j/8 i j%8")
    assert 'C_store, C_cache = cache_write("C", scope="register", at="n_o")' in str(s.trace)
    built = s.build()
    for a, b in ((floats(20, 9), floats(9, 40)), (floats(7, 5), floats(5, 11))):
        np.testing.assert_array_equal(built(a, b), op(a, b))


def test_layouts_have_letters_for_buffers_that_were_packed_before() -> None:
    assert len(parse_layout("o n m l k j i", 7).words) == 7


def test_a_pipeline_fills_several_iterations_ahead() -> None:
    original = kernel_of(MATMUL, M=6, N=7, K=10)
    s = Schedule(original)
    s.split("k", 2)
    s.cache_read("B", at="k_o")
    s.cache_read("A", at="k_o")
    s.pipeline("B_cache", "A_cache", stages=4)
    text = print_kernel(s.kernel)
    assert "alloc B_cache: float32[4, 2, 1]" in text
    assert "for k_o in 0:5 ahead 3 of B_cache, A_cache {" in text
    assert_unchanged(s, original, floats(6, 10), floats(10, 7))
    written_out = run_ahead(lower_blocks(s.kernel))
    text = print_kernel(written_out)
    assert "if k_o < 2" in text
    assert "async" not in text  # plain memory is filled by the thread itself
    (actual,), (expected,) = (run(kernel, floats(6, 10), floats(10, 7)) for kernel in (written_out, original))
    np.testing.assert_array_equal(actual, expected)


def test_copies_into_shared_memory_may_run_on_their_own() -> None:
    s = weft.schedule(weft.ops.matmul, A=(4, 12), B=(12, 4))
    i, j, k = s.loops("C")
    outer, inner = s.split(k, 4)
    s.reorder(i, outer, j, inner)
    _, rows = s.cache_read("A", at=outer, scope="shared")
    _, columns = s.cache_read("B", at=outer, scope="shared")
    s.pipeline(rows, columns, stages=3)
    assert parse_kernel(print_kernel(s.kernel)) == s.kernel
    written_out = run_ahead(lower_blocks(s.kernel))
    text = print_kernel(written_out)
    assert text.count("async_fill(&A_cache[0, 0, 0])") == 1
    assert text.count("async_commit(2)") == 3  # two stages before the loop, one in it
    assert parse_kernel(text) == written_out
    filled = [line.split("[")[0].strip() for line in text.splitlines() if "_cache[" in line and "] = " in line]
    assert filled[:4] == ["A_cache", "B_cache"] * 2  # stage after stage
    a, b = floats(4, 12), floats(12, 4)
    np.testing.assert_allclose(s.build()(a, b), a @ b, rtol=1e-5)


def test_a_pipeline_has_two_stages_at_least() -> None:
    s = Schedule(kernel_of(MATMUL, M=6, N=7, K=10))
    s.split("k", 2)
    s.cache_read("B", at="k_o")
    with pytest.raises(ScheduleError, match="stages"):
        s.pipeline("B_cache", stages=1)
