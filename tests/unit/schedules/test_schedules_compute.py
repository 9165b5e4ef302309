"""Moving computation and storage: every accepted step computes what the definition computes, bit for bit."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from schedule_kernels import assert_unchanged, floats, kernel_of, parse_kernel, run, schedule_of

from weft.ir.errors import ScheduleError
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.passes.plain.lower_blocks import lower_blocks
from weft.passes.plain.shrink_storage import shrink_storage
from weft.schedules.find import all_allocs, all_loops, blocks_inside, find_alloc, loops_around
from weft.schedules.fold_storage import live_widths
from weft.schedules.schedule import Schedule

BLUR = """
def blur(float(H,W) A) -> (B) {
    T(y,x) = (A(y,x) + A(y,x+1) + A(y,x+2)) / 3
    B(y,x) = (T(y,x) + T(y+1,x) + T(y+2,x)) / 3
}"""
THREE = """
def three(float(H,W) A) -> (B) {
    S(y,x) = A(y,x) * 2.0
    T(y,x) = S(y,x) + S(y+1,x)
    B(y,x) = T(y,x) + T(y,x+2) + S(y,x)
}"""
DENSE = """
def dense(float(M,K) A, float(K,N) W, float(N) b) -> (C) {
    T(m,n) +=! A(m,k) * W(k,n)
    C(m,n) = max(T(m,n) + b(n), 0.0)
}"""
SOFTMAX = """
def softmax(float(N,D) A) -> (O) {
    M(n) max=! A(n,d)
    E(n,d) = exp(A(n,d) - M(n))
    S(n) +=! E(n,d)
    O(n,d) = E(n,d) / S(n)
}"""
EDGE = """
def edge(float(H,W) A) -> (B) {
    T(y,x) = A(y,x) + 1.0
    B(y,x) = T(y-1,x) + T(y+1,x) where y in 0:H, T outside edge
}"""
#: Whether it reads the row that nothing writes is for the data to say.
PART = """
def part(float(H,W) A) -> (B) {
    T(y+1,x) = A(y,x) + 1.0
    B(y,x) = (A(y,x) < 1e30 ? T(y,x) : 2.0) + A(y,x) where y in 0:H
}"""
SIZES = {"H": 9, "W": 12}


def elements(s: Schedule, buffer: str) -> list[int]:
    """The shape that lowering leaves of ``buffer``."""
    lowered = shrink_storage(lower_blocks(s.kernel))
    return [int(e.value) for e in find_alloc(lowered, buffer).buffer.shape]  # type: ignore[attr-defined]


def computed(s: Schedule, buffer: str, *inputs: Any) -> int:
    """How often an element of ``buffer`` is computed: counted by running the program with a counting store."""
    from weft.ir.interpret import interpret
    from weft.ir.stmt import Block, Seq, Store
    from weft.ir.visit import rewrite

    original = s.kernel
    counter = parse_kernel("kernel c(out n: int64[1]) { n[0] = n[0] + int64(1) }")

    def count(n: Any) -> Any:
        if isinstance(n, Block) and any(r.buffer.name == buffer for r in n.writes):
            more = tuple(dict.fromkeys([*n.writes, *_whole(counter)]))
            return Block(n.name, n.iters, n.reads, more, n.init, Seq((n.body, counter.body)))
        return None

    assert isinstance(counter.body, Store)
    body = rewrite(original.body, count)
    params = (*original.params, *counter.params)
    kernel = Kernel(original.name, params, (*original.outputs, "n"), body)
    total = np.zeros(1, np.int64)
    outputs = [
        np.zeros([int(e.value) for e in b.shape], np.float32) for b in original.buffers if b.name in original.outputs
    ]  # type: ignore[attr-defined]
    interpret(kernel, [*inputs, *outputs, total])
    return int(total[0])


def _whole(counter: Kernel) -> list[Any]:
    from weft.ir.expr import idx
    from weft.ir.stmt import Region

    return [Region(b, (idx(0),), (idx(1),)) for b in counter.buffers]


# compute_at


def test_compute_at_computes_what_an_iteration_reads() -> None:
    original = kernel_of(BLUR, **SIZES)
    s = Schedule(original)
    y, x = s.loops("B")
    s.compute_at("T", y)
    assert str(s).splitlines()[1:6] == [
        "  for y_1 in 0:7",
        "    alloc T: float32[9, 10]",
        "    for y in y_1:y_1 + 3",
        "      for x in 0:10",
        "        block T(vy=y, vx=x) writes T[vy, vx]",
    ]
    assert elements(s, "T") == [3, 10]
    assert_unchanged(s, original, floats(9, 12))
    s.compute_at("T", x)
    assert elements(s, "T") == [3, 1]
    assert_unchanged(s, original, floats(9, 12))


def test_compute_at_in_a_tile_with_a_tail() -> None:
    original = kernel_of(BLUR, **SIZES)
    s = Schedule(original)
    _, xo, *_ = s.tile(*s.loops("B"), 4, 4)
    s.compute_at("T", xo)
    assert elements(s, "T") == [6, 4]
    assert_unchanged(s, original, floats(9, 12))


def test_compute_at_of_a_whole_chain() -> None:
    original = kernel_of(THREE, **SIZES)
    s = Schedule(original)
    y, _ = s.loops("B")
    s.compute_at("T", y)
    s.compute_at("S", y)
    assert elements(s, "T") == [1, 12]
    assert elements(s, "S") == [2, 12]
    assert_unchanged(s, original, floats(9, 12))


def test_compute_at_takes_the_initialization_along() -> None:
    original = kernel_of(DENSE)
    s = Schedule(original)
    assert "block T_init" in str(s)
    _, n = s.loops("C")
    s.compute_at("T", n)
    assert [f.name for f in s.loops("T_init")] == ["m_1", "n_1"]
    assert [f.name for f in s.loops("T")] == ["m_1", "n_1", "k"]


def test_compute_at_stays_within_the_buffer() -> None:
    original = kernel_of(EDGE, **SIZES)
    s = Schedule(original)
    s.compute_at("T", s.loops("B")[0])
    assert_unchanged(s, original, floats(9, 12))
    assert elements(s, "T") == [3, 12]


def test_compute_at_of_partly_written_storage_moves_the_fill_too() -> None:
    original = kernel_of(PART, **SIZES)
    s = Schedule(original)
    s.compute_at("T", s.loops("B")[0])
    assert s.loops("T_fill")[0] == s.loops("B")[0]
    assert_unchanged(s, original, floats(9, 12))


def test_compute_root_undoes_compute_at() -> None:
    s = schedule_of(BLUR, **SIZES)
    before = s.kernel
    s.compute_at("T", s.loops("B")[1])
    s.compute_root("T")
    assert s.kernel == before


def test_split_loops_are_made_anew() -> None:
    original = kernel_of(DENSE, M=6, N=7, K=5)
    s = Schedule(original)
    s.split(s.loops("T")[0], 4)
    s.split("k", 2)
    s.compute_at("T", s.loops("C")[0])
    assert_unchanged(s, original, floats(6, 5), floats(5, 7), floats(7))


def test_a_reordered_sum_keeps_its_order_or_stays() -> None:
    text = "def f(float(N,K,L) A) -> (B) { T(n) +=! A(n,k,l)\n B(n) = T(n) * 2.0 }"
    s = Schedule(kernel_of(text, N=4, K=3, L=2), numerics="fast")
    s.reorder("l", "k")
    strict = Schedule(s.kernel)
    with pytest.raises(ScheduleError, match="add up in another order"):
        strict.compute_at("T", strict.loops("B")[0])
    s.compute_at("T", s.loops("B")[0])
    assert [f.name for f in s.loops("T")][1:] == ["k", "l"]


def test_inputs_must_not_change_in_between() -> None:
    text = """def f(float(N) A) -> (B) {
        B(i) = A(i) + 1.0
        T(i) = B(i) * 2.0
        B(i) = T(i) + A(i) }"""
    s = schedule_of(text, N=8)
    with pytest.raises(ScheduleError, match="`B`, which it is computed from, is written before `T` is read"):
        s.compute_inline("T")
    s.compute_at("T", s.loops("B_1")[0])  # an iteration reads B[i] before it writes it
    assert_unchanged(s, kernel_of(text, N=8), floats(8))
    lagging = text.replace("T(i) + A(i)", "T(i-1) + A(i) where i in 1:N")
    s = schedule_of(lagging, N=8)
    with pytest.raises(ScheduleError, match=r"changes where it would be computed: iteration \(i_2=1\) writes B\[1\]"):
        s.compute_at("T", s.loops("B_1")[0])


def test_storage_kept_in_a_loop_does_not_leave_it_past_a_write() -> None:
    text = """kernel steps(A: float32[8], out B: float32[8]) { for t in 0:3 { alloc T: float32[8]
      for i in 0:8 { block b(v spatial 0:8 = i) reads A[v], B[v] writes B[v] { B[v] = B[v] + A[v] } }
      for i in 0:8 { block T(v spatial 0:8 = i) reads B[v] writes T[v] { T[v] = B[v] * 2.0 } }
      for i in 0:8 { block c(v spatial 0:8 = i) reads T[v] writes B[v] { B[v] = T[v] } } } }"""
    s = Schedule(parse_kernel(text))
    with pytest.raises(ScheduleError, match="`B`, which it is computed from, changes where it would be computed"):
        s.compute_root("T")


LATER = """kernel later(out x: float32[8], out b: float32[8]) {
  alloc t: float32[8]
  for i in 0:8 {
    block t(v spatial 0:8 = i) reads x[v] writes t[v] { t[v] = x[v] * 2.0 }
    block b(v spatial 0:8 = i) reads t[v], t[max(v - 1, 0)] writes b[v] { b[v] = t[v] + t[max(v - 1, 0)] }
    block x(v spatial 0:8 = i) writes x[v] { x[v] = 0.0 }
  }
}"""


def test_inputs_must_not_change_in_later_iterations() -> None:
    s = Schedule(parse_kernel(LATER))
    with pytest.raises(ScheduleError, match="what it is computed from changes as `i` runs"):
        s.compute_at("t", "i")
    with pytest.raises(ScheduleError, match="`x`, which it is computed from, changes as `i` runs"):
        s.compute_inline("t")


def test_inputs_computed_in_part_stay_sufficient() -> None:
    original = kernel_of(THREE, **SIZES)
    s = Schedule(original)
    s.compute_inline("S")
    assert_unchanged(s, original, floats(9, 12))
    s = Schedule(
        kernel_of(BLUR.replace("T(y,x) =", "S(y,x) = A(y,x) * 2.0\n T(y,x) =").replace("A(y,x+", "S(y,x+"), **SIZES)
    )
    original, y = s.kernel, s.loops("B")[0]
    s.compute_at("T", y)
    s.store_at("T")
    s.compute_at("S", y)
    with pytest.raises(ScheduleError, match="`S`, which it is computed from, is there only in part"):
        s.compute_at("T", y)
    s.compute_root("S")
    s.compute_at("T", y)
    assert_unchanged(s, original, floats(9, 12))


# compute_inline


def test_inline_leaves_no_storage() -> None:
    original = kernel_of(BLUR, **SIZES)
    s = Schedule(original)
    s.compute_inline("T")
    assert not all_allocs(s.kernel)
    assert [b.name for b in s.blocks()] == ["B"]
    assert_unchanged(s, original, floats(9, 12))
    with pytest.raises(ScheduleError, match="was written into what reads `T`"):
        s.loops("T")


def test_inline_of_partly_written_storage_tests_the_subscripts() -> None:
    original = kernel_of(PART, **SIZES)
    s = Schedule(original)
    s.compute_inline("T")
    assert not all_allocs(s.kernel)
    assert_unchanged(s, original, floats(9, 12))


# store_at and fold_storage


def test_a_slid_window_computes_each_element_once() -> None:
    original = kernel_of(BLUR, **SIZES)
    s = Schedule(original)
    y, _ = s.loops("B")
    s.compute_at("T", y)
    assert computed(s, "T", floats(9, 12)) == 7 * 3 * 10
    s.store_at("T")
    assert computed(s, "T", floats(9, 12)) == 9 * 10
    s.fold_storage("T", 0, 3)
    assert elements(s, "T") == [3, 10]
    assert_unchanged(s, original, floats(9, 12))


def test_a_window_slides_in_two_dimensions() -> None:
    text = "def f(float(H,W) A) -> (B) { T(y,x) = A(y,x) * 2.0\n B(y,x) = T(y,x) + T(y+1,x+1) + T(y+2,x+2) }"
    original = kernel_of(text, H=8, W=9)
    s = Schedule(original)
    s.compute_at("T", s.loops("B")[1])
    s.store_at("T")
    assert computed(s, "T", floats(8, 9)) == 8 * 9
    assert_unchanged(s, original, floats(8, 9))


def test_a_window_slides_inside_tiles() -> None:
    original = kernel_of(BLUR, **SIZES)
    s = Schedule(original)
    _, xo, yi, _ = s.tile(*s.loops("B"), 4, 4)
    s.compute_at("T", yi)
    s.store_at("T", xo)
    both = s.copy()
    s.fold_storage("T", 0, 4)
    assert elements(s, "T") == [4, 4]
    both.fold_storage("T", 0, 4, 1, 5)
    s.fold_storage("T", 1, 5)
    assert print_kernel(both.kernel) == print_kernel(s.kernel)
    assert elements(s, "T") == [4, 5]
    assert computed(s, "T", floats(9, 12)) == (6 + 5) * 10
    assert_unchanged(s, original, floats(9, 12))


def test_a_window_that_runs_backwards_is_not_slid_but_right() -> None:
    text = """def f(float(H) A) -> (B) {
        T(y) = A(y) * 2.0
        B(y) = T(H-1-y) + T(H-2-y) where y in 0:H-1 }"""
    original = kernel_of(text, H=8)
    s = Schedule(original)
    s.compute_at("T", s.loops("B")[0])
    s.store_at("T")
    s.fold_storage("T", 0, 2)
    assert_unchanged(s, original, floats(8))


def test_a_slid_window_forbids_parallel_iterations() -> None:
    s = schedule_of(BLUR, **SIZES)
    y, _ = s.loops("B")
    s.compute_at("T", y)
    s.copy().parallel(y)
    s.store_at("T")
    with pytest.raises(ScheduleError, match="which iteration"):
        s.parallel(y)


def test_storage_moves_inwards_where_nothing_is_handed_on() -> None:
    original = kernel_of(SOFTMAX, N=5, D=6)
    s = Schedule(original)
    n, _ = s.loops("M")
    for block in ("E", "S", "O"):
        s.reverse_compute_at(block, n)
    for buffer in ("M", "E", "S"):
        s.store_at(buffer, n)
    s.parallel(n)
    assert [elements(s, b) for b in ("M", "E", "S")] == [[1], [1, 6], [1]]
    assert_unchanged(s, original, floats(5, 6))


RECURRENCE = """def f(float(T,J) X, float(J) S, float(J,J) U) -> (Y) {
    H(0,j) = S(j)
    for t in 0:T {
        G(j) +=! H(t,k) * U(k,j)
        P(j) +=! X(t,k) * U(k,j)
        H(t+1,j) = G(j) + P(j) * 0.5
    }
    Y(j) = H(T,j)
}"""


def test_a_ring_is_not_asked_for_where_no_more_is_touched_while_the_storage_exists() -> None:
    """Lowering cuts storage made in a loop to what one iteration touches: a ring of as much would save nothing."""
    s = Schedule(kernel_of(BLUR, H=18, W=18))
    s.compute_at("T", "y_1")
    assert elements(s, "T")[0] == 3
    assert live_widths(s.kernel, "T") == [None, None]


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_slices_that_later_steps_do_not_read_are_no_longer_kept(steps: int) -> None:
    """The start before the loop and the result behind it are part of the window, whether or not it runs."""
    original = kernel_of(RECURRENCE, T=steps, J=3)
    s = Schedule(original)
    if steps > 1:
        assert live_widths(s.kernel, "H")[0] == 2
        with pytest.raises(ScheduleError, match="2 neighbouring elements"):
            s.copy().fold_storage("H", 0, 1)
    s.fold_storage("H", 0, 2)
    assert elements(s, "H") == [2, 3]
    assert_unchanged(s, original, floats(steps, 3), floats(3), floats(3, 3))


def test_a_slice_that_is_read_after_all_steps_is_kept() -> None:
    s = schedule_of(RECURRENCE.replace("Y(j) = H(T,j)", "Y(j) = H(T,j) + H(0,j)"), T=5, J=3)
    with pytest.raises(ScheduleError, match=r"in the place of H\[\d, 0\], which iteration"):
        s.fold_storage("H", 0, 2)
    backwards = schedule_of(
        RECURRENCE.replace("Y(j) = H(T,j)", "Y(j) = H(T,j)\n Z(j) = H(0,j)").replace("(Y)", "(Y, Z)")
    )
    with pytest.raises(ScheduleError, match="does not move one way"):
        backwards.fold_storage("H", 0, 2)


def test_what_waits_for_no_step_is_taken_out_of_the_steps() -> None:
    original = kernel_of(RECURRENCE, T=4, J=3)
    s = Schedule(original)
    s.expand_storage("P")
    assert elements(s, "P") == [4, 3]
    s.swap("G", "P")
    rest = s.fission("t", "P")
    assert s.loops("P")[0].name == "t"
    assert s.loops("G")[0].name == rest.name
    with pytest.raises(ScheduleError, match="cannot split"):
        s.fission(rest, "G")  # the next step reads what this one ends with
    assert_unchanged(s, original, floats(4, 3), floats(3), floats(3, 3))


# reverse_compute_at


def test_an_epilogue_joins_the_tile() -> None:
    original = kernel_of(DENSE, M=6, N=10, K=5)
    s = Schedule(original)
    m, n, k = s.loops("T")
    mo, mi = s.split(m, 4)
    no, ni = s.split(n, 4)
    s.reorder(mo, no, k, mi, ni)
    s.reverse_compute_at("C", no)
    s.store_at("T", no)
    assert elements(s, "T") == [4, 4]
    assert [f.name for f in s.loops("C")][:2] == [mo.name, no.name]
    s.set_scope("T", "register")
    s.parallel(mo)
    assert_unchanged(s, original, floats(6, 5), floats(5, 10), floats(10))


@pytest.mark.parametrize("sizes", [{}, {"M": 6, "N": 10, "K": 5}], ids=["symbolic", "sized"])
def test_an_unfinished_sum_has_no_epilogue(sizes: dict[str, int]) -> None:
    s = schedule_of(DENSE, **sizes)
    m, n, k = s.loops("T")
    with pytest.raises(ScheduleError, match="`T` is not finished inside `k`"):
        s.reverse_compute_at("C", k)
    s.reorder(k, m, n)
    with pytest.raises(ScheduleError, match="`T` is not finished inside `m`"):
        s.reverse_compute_at("C", m)


def test_a_stencil_is_no_epilogue() -> None:
    s = schedule_of(BLUR, **SIZES)
    with pytest.raises(ScheduleError, match="reads elements of `T` that other iterations compute"):
        s.reverse_compute_at("B", s.loops("T")[0])


def test_elements_computed_elsewhere_are_no_part_of_the_loop() -> None:
    s = schedule_of(PART, **SIZES)
    with pytest.raises(ScheduleError, match="does not compute all elements of `T`"):
        s.reverse_compute_at("B", s.loops("T")[0])


# Traces and random sequences


def test_traces_of_these_steps_replay() -> None:
    s = schedule_of(BLUR, **SIZES)
    yo, yi = s.split(s.loops("B")[0], 4)
    s.compute_at("T", yi)
    s.store_at("T", yo)
    s.fold_storage("T", 0, 4)
    s.set_scope("T", "local")
    twin = schedule_of(BLUR, **SIZES)
    twin.apply(str(s.trace))
    assert twin.kernel == s.kernel
    larger = schedule_of(BLUR, H=30, W=20)
    larger.apply(s.trace)
    assert elements(larger, "T") == [4, 18]


def moves(rng: random.Random, s: Schedule) -> list[Callable[[], object]]:
    blocks = [b.name for b in blocks_inside(s.kernel)]
    loops = [f.var.name for f in all_loops(s.kernel)]
    buffers = [a.buffer.name for a in all_allocs(s.kernel)] or ["T"]
    block, loop, buffer = rng.choice(blocks), rng.choice(loops), rng.choice(buffers)
    outer = [f.var.name for b in blocks for f in loops_around(s.kernel, b)[:2]]
    return [
        lambda: s.compute_at(block, loop),
        lambda: s.compute_at(block, loop),
        lambda: s.compute_root(block),
        lambda: s.compute_inline(block),
        lambda: s.reverse_compute_at(block, loop),
        lambda: s.store_at(buffer, rng.choice([None, *outer])),
        lambda: s.fold_storage(buffer, 0, rng.choice([1, 2, 3, 4])),
        lambda: s.split(loop, rng.choice([2, 3])),
        lambda: s.parallel(loop),
    ]


@pytest.mark.parametrize("seed", range(40))
def test_random_moves_keep_the_result(seed: int, first_seed: int) -> None:
    rng = random.Random(first_seed + seed)
    text = rng.choice([BLUR, THREE, EDGE, PART])
    original = kernel_of(text, H=rng.choice([5, 8]), W=rng.choice([4, 7]))
    s = Schedule(original)
    for _ in range(rng.randint(2, 8)):
        with contextlib.suppress(ScheduleError):
            rng.choice(moves(rng, s))()
    (shape,) = [[int(e.value) for e in b.shape] for b in original.buffers if b.name == "A"]  # type: ignore[attr-defined]
    inputs = floats(*shape)
    assert_unchanged(s, original, inputs)
    lowered = shrink_storage(lower_blocks(s.kernel))
    np.testing.assert_array_equal(run(lowered, inputs)[0], run(original, inputs)[0])


@pytest.mark.parametrize(
    "steps",
    [
        'compute_at("T", "y_1")',
        'split("y_1", 2)\ncompute_at("T", "y_1_o")\nparallel("y_1_o")',
        'tile("y_1", "x_1", 2, 3)\ncompute_at("T", "x_1_o")',
    ],
)
def test_outputs_that_are_read_move_with_their_readers(steps: str) -> None:
    text = "def f(float(H,W) A) -> (T, B) { T(y,x) = A(y,x) + 1.0\n B(y,x) = T(y,x) * 2.0 }"
    s = schedule_of(text, H=5, W=7)
    s.apply(steps)
    assert s.loops("T")[0].name in ("y_1", "y_1_o")
    assert_unchanged(s, kernel_of(text, H=5, W=7), floats(5, 7))


def test_sums_that_are_outputs_move_with_their_readers() -> None:
    text = "def f(float(H,W) A) -> (S, B) { S(y) +=! A(y,x)\n B(y,x) = A(y,x) / S(y) }"
    s = schedule_of(text, H=5, W=7)
    s.compute_at("S", "y_1")
    assert [f.name for f in s.loops("S")] == ["y_1", "x"]
    assert_unchanged(s, kernel_of(text, H=5, W=7), floats(5, 7))


def test_every_element_of_an_output_is_computed_once() -> None:
    text = "def f(float(H,W) A) -> (T, B) { T(y,x) = A(y,x) + 1.0\n B(y,x) = T(y,x) + T(y+1,x) }"
    s = schedule_of(text, H=5, W=7)
    with pytest.raises(ScheduleError, match="not every element of output `T` would be computed once"):
        s.compute_at("T", "y_1")
    part = text.replace("T(y+1,x)", "A(y,x) where y in 1:H")
    s = schedule_of(part, H=5, W=7)
    with pytest.raises(ScheduleError, match="not every element of output `T` would be computed once"):
        s.compute_at("T", "y_1")


STEPS = """def steps(float(B,J) S, float(J,J) U) -> (H) {
    H(0,b,j) = S(b,j)
    for t in 0:3 {
        G(b,j) +=! H(t,b,k) * U(j,k)
        H(t+1,b,j) = G(b,j) + H(READ)
    } }"""


@pytest.mark.parametrize("read", ["t,b,j", "t,b,0"])
def test_what_the_next_step_reads_is_computed_where_this_one_still_reads(read: str) -> None:
    """A step reads `H(t)` and writes `H(t+1)`: no element is written before another iteration has read it."""
    original = kernel_of(STEPS.replace("READ", read), B=4, J=6)
    s = Schedule(original)
    tile, _ = s.split("b_1", 2)
    s.reverse_compute_at("H_1", tile)
    assert_unchanged(s, original, floats(4, 6), floats(6, 6))


def test_what_the_same_step_reads_is_not() -> None:
    in_place = """def f(float(B,J) S, float(J,J) U) -> (H) {
        H(b,j) = S(b,j)
        for t in 0:3 { G(b,j) +=! H(b,k) * U(j,k)
            H(b,j) = G(b,j) } }"""
    s = schedule_of(in_place, B=4, J=6)
    with pytest.raises(ScheduleError, match="`H` is used before `H_1` computes it"):
        s.reverse_compute_at("H_1", "j_1")


STATE = """def steps(float(B,J) S) -> (Y) {
    H(b,j) = S(b,j)
    C(0,b,j) = S(b,j)
    for t in 0:3 {
        D(b,j) = C(t,READ) * 2.0 + H(READ)
        C(t+1,b,j) = D(b,j) + 1.0
        H(b,j) = D(b,j) * 0.5
    }
    Y(b,j) = C(3,b,j) + H(b,j) }"""


def test_what_the_step_before_made_may_be_read_where_this_one_makes_it() -> None:
    """Each state is complete when a step begins, whatever part of the next one an iteration makes."""
    original = kernel_of(STATE.replace("READ", "b,j"), B=4, J=6)
    s = Schedule(original)
    loops = [[str(o) for o in s.split(s.loops(name)[2], 2)] for name in ("C_1", "H_1")]
    for name, (outer, inner) in zip(("C_1", "H_1"), loops):
        s.reorder(outer, s.loops(name)[1], inner)
    s.fuse_loops(loops[0][0], loops[1][0])
    s.compute_at("D", loops[0][0])
    assert_unchanged(s, original, floats(4, 6))
    s.parallel(loops[0][0])
    assert_unchanged(s, original, floats(4, 6))


def test_but_not_what_this_step_writes_over() -> None:
    text = """def steps(float(B,J) S, int32(J) P) -> (H) {
        H(b,j) = S(b,j)
        for t in 0:3 { D(b,j) = H(b,READ) * 2.0
            H(b,j) = D(b,j) + 1.0 } }"""
    original = kernel_of(text.replace("READ", "j"), B=4, J=6)
    s = Schedule(original)
    s.compute_at("D", "j_2")
    assert_unchanged(s, original, floats(4, 6), np.zeros(6, np.int32))
    s = schedule_of(text.replace("READ", "P(j)"), B=4, J=6)
    with pytest.raises(ScheduleError, match="`H`, which it is computed from"):
        s.compute_at("D", "j_2")
