"""Steps that bring statements of different nests together: wrap, swap, merging by value, trim, tiles at multiples."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.errors import ScheduleError
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.stmt import Kernel
from weft.ir.verify import verify
from weft.schedules.make_blocks import make_blocks
from weft.schedules.schedule import Schedule


def schedule(text: str) -> tuple[Schedule, Kernel]:
    kernel = make_blocks(parse_kernel(text))
    return Schedule(kernel), kernel


def assert_same(s: Schedule, original: Kernel) -> None:
    verify(s.kernel)
    rng = np.random.default_rng(1)
    shapes = [tuple(int(e.value) for e in b.shape) for b in original.buffers]  # type: ignore[attr-defined]
    values = [rng.uniform(1, 2, shape).astype(np.float32) for shape in shapes]
    got, want = [v.copy() for v in values], [v.copy() for v in values]
    interpret(s.kernel, got)
    interpret(original, want)
    for a, b in zip(got, want):
        np.testing.assert_array_equal(a, b)


STENCIL = """kernel stencil(A: float32[20], out B: float32[20], out C: float32[20]) {
  for i in 1:19 { B[i] = A[i - 1] + A[i + 1] }
  for j in 2:18 { C[j] = B[j - 1] + B[j + 1] }
}"""
STEP = """kernel step(out A: float32[9, 9]) {
  for k in 0:9 {
    for i in k + 1:9 {
      A[i, k] = A[i, k] / A[k, k]
      for j in k + 1:9 { A[i, j] = A[i, j] - A[i, k] * A[k, j] }
    }
  }
}"""


def test_loops_of_different_ranges_are_merged_by_value() -> None:
    s, original = schedule(STENCIL)
    s.shift("j", 1)
    s.fuse_loops("i", "j", by="value")
    assert str(s).splitlines()[1:] == [
        "  for i in 1:19",
        "    block B(vi=i) writes B[vi]",
        "    if i >= 3",
        "      block C(vj=i - 1) writes C[vj]",
    ]
    assert_same(s, original)


def test_merging_by_value_keeps_the_order() -> None:
    s, _ = schedule(STENCIL)
    with pytest.raises(ScheduleError, match=r"writes B\[3\], which iteration \(j=2\) reads"):
        s.fuse_loops("i", "j", by="value")
    with pytest.raises(ScheduleError, match="by='place' is not known"):
        s.fuse_loops("i", "j", by="place")  # type: ignore[arg-type]


def test_merged_ranges_may_be_empty_or_apart() -> None:
    s, original = schedule("""kernel apart(out A: float32[9], out B: float32[9]) {
      for i in 0:3 { A[i] = 1.0 } for j in 6:9 { B[j] = 2.0 } }""")
    s.fuse_loops("i", "j", by="value")
    assert_same(s, original)
    s, original = schedule("""kernel triangle(out A: float32[9, 9], out B: float32[9, 9]) { for k in 0:9 {
      for i in 0:k { A[k, i] = 1.0 } for j in k:9 { B[k, j] = 2.0 } } }""")
    s.fuse_loops("i", "j", by="value")
    assert_same(s, original)


def test_a_statement_is_wrapped_into_the_loop_beside_it() -> None:
    """The division of an elimination step becomes part of the innermost loop, and all three can be tiled."""
    s, original = schedule(STEP)
    at = s.wrap("A", "k")
    s.fuse_loops(at, "j", by="value")
    assert_same(s, original)
    tiles = [s.split(loop, 4, tail="clip") for loop in ("k", "i", str(at))]
    s.reorder(*(outer for outer, _ in tiles), *(inner for _, inner in tiles))
    assert_same(s, original)


def test_wrap_says_what_it_does_not_understand() -> None:
    s, _ = schedule(STEP)
    with pytest.raises(ScheduleError, match="there is no size or scalar `j`"):
        s.wrap("A", "j")
    with pytest.raises(ScheduleError, match="this is not a value for a loop"):
        s.wrap("A", "k +")
    with pytest.raises(ScheduleError, match="is not a value for a loop"):
        s.wrap("A", 1.5)  # type: ignore[arg-type]


def test_independent_neighbours_are_exchanged() -> None:
    s, original = schedule("""kernel three(X: float32[9], out A: float32[9], out B: float32[9], out C: float32[9]) {
      for i in 0:9 { A[i] = X[i] } for j in 0:9 { B[j] = 2.0 * X[j] } for l in 0:9 { C[l] = A[l] + B[l] } }""")
    s.swap("A", "j")
    assert [b.name for b in s.blocks()] == ["B", "A", "C"]
    assert_same(s, original)
    with pytest.raises(ScheduleError) as caught:
        s.swap("A", "C")
    assert caught.value.why == "iteration (i=0) writes A[0], which iteration (l=0) reads"
    with pytest.raises(ScheduleError, match="`C` does not directly follow `B`"):
        s.swap("B", "C")


def test_exchanged_within_one_iteration_of_a_loop_around() -> None:
    s, original = schedule("""kernel inside(out A: float32[9], out B: float32[10]) { for t in 1:9 {
      for i in 0:t { A[i] = 1.0 } for j in t:9 { A[j] = 2.0 } B[t] = 3.0 } }""")
    s.swap("i", "j")
    assert_same(s, original)


def test_trim_takes_the_test_into_the_range() -> None:
    s, original = schedule(STENCIL)
    s.shift("j", 1)
    s.fuse_loops("i", "j", by="value")
    rest = s.fission("i", "B")
    s.trim(rest)
    assert str(s).splitlines()[3:] == ["  for i_1 in 3:19", "    block C(vj=i_1 - 1) writes C[vj]"]
    assert_same(s, original)
    with pytest.raises(ScheduleError, match="no test that says where `i` starts or ends"):
        s.trim("i")


@pytest.mark.parametrize("sides", [(3, 4), (1, 5), (8, 16)])
def test_skewed_time_is_tiled_at_multiples(sides: tuple[int, int]) -> None:
    s, original = schedule("""kernel time(out A: float32[17]) {
      for t in 0:7 { for i in 1:16 { A[i] = 0.5 * A[i - 1] + A[i] - 0.25 * A[i + 1] } } }""")
    s.skew("i", "t")
    (t_o, t_i), (i_o, i_i) = s.split("t", sides[0], tail="clip"), s.split("i", sides[1], tail="clip")
    s.reorder(t_o, i_o, t_i, i_i)
    assert_same(s, original)
    s.skew(i_o, t_o)
    s.reorder(i_o, t_o)
    s.parallel(t_o)
    assert_same(s, original)


def test_clipped_tiles_have_no_fixed_length() -> None:
    s, _ = schedule(STENCIL)
    with pytest.raises(ScheduleError, match="a tile that is cut short does not fill a vector"):
        s.vectorize("i", 4, tail="clip")
    with pytest.raises(ScheduleError, match="a tile that is cut short cannot be written out"):
        s.unroll("i", 4, tail="clip")


def test_cut_runs_the_rest_from_a_value_on() -> None:
    s, original = schedule("""kernel paths(out D: float32[9, 9]) { for k in 0:9 { for i in 0:9 { for j in 0:9 {
      D[i, j] = min(D[i, j], D[i, k] + D[k, j]) } } } }""")
    with pytest.raises(ScheduleError):
        s.vectorize("j")
    middle = s.cut("j", "k")
    last = s.cut(middle, "k + 1")
    s.vectorize("j")
    s.vectorize(last)
    assert_same(s, original)
    assert str(s).splitlines()[3:8:2] == [
        "      for j in 0:k vector",
        "      for j_1 in k:k + 1",
        "      for j_1_1 in k + 1:9 vector",
    ]
    s.cut("i", 4)
    s.cut("i_1", 40)
    s.cut("i", -3)
    assert_same(s, original)


def test_inside_a_block_a_value_is_of_its_iterators_not_of_loops_around_it() -> None:
    text = """kernel k(out A: int32[8, 3]) {
      for i in 0:8 {
        block B(v spatial 0:8 = i) writes A[v, 0 +: 3] { for j in 0:3 { A[v, j] = 1_i32 } }
      }
    }"""
    s = Schedule(parse_kernel(text))
    with pytest.raises(ScheduleError, match="no size or scalar `i`"):
        s.cut("j", "i")
    s.cut("j", "v")
    verify(s.kernel)


def test_trim_leaves_tests_of_values_that_only_look_like_ranges() -> None:
    text = "kernel k(A: uint8[4], out B: uint8[4]) { for i in 0:4 { if 1_u8 >= uint8(i) { B[i] = A[i] } } }"
    with pytest.raises(ScheduleError, match="no test that says where"):
        Schedule(parse_kernel(text)).trim("i")
