"""Contractions scheduled automatically: the tiles chosen fit the registers, and results are right."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import weft
from weft.auto.contraction import apply_contraction
from weft.auto.contraction_nest import part_loops
from weft.auto.contraction_plan import Blocking, Contraction, ContractionPlan, is_contraction
from weft.auto.contraction_tiles import contraction_plans, least_seconds
from weft.auto.contraction_time import contraction_seconds, threaded_loops
from weft.auto.draft import Draft
from weft.auto.parallel_loops import exchange_seconds
from weft.auto.plan import Decision, knobs, rank_plans, read_plan
from weft.auto.scheduler import auto_schedule
from weft.ir.printer import print_kernel
from weft.ir.stmt import For, If, Store
from weft.ir.visit import walk
from weft.schedules.find import all_allocs, find_loop
from weft.target.cpu.host import NAMED
from weft.target.cpu.lower import lower_kernel

MACHINE = NAMED["x86-64-avx512"]
L1 = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! abs(A(m,k) - B(k,n)) }"
MATMUL = "def matmul(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
TRANSPOSED = "def transposed(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
BATCHED = "def batched(float(B,M,K) X, float(B,N,K) Y) -> (Z) { Z(b,m,n) +=! X(b,m,k) * Y(b,n,k) }"
DENSE = """
def dense(float(M,K) A, float(K,N) B, float(N) b) -> (O) {
    T(m,n) +=! A(m,k) * B(k,n)
    O(m,n) = max(T(m,n) + b(n), 0)
}"""
RESIDUAL = """
def residual(float(M,K) A, float(K,N) B, float(M,N) X) -> (O) {
    T(m,n) +=! A(m,k) * B(k,n)
    O(m,n) = max(T(m,n) + X(m,n), 0)
}"""
CURVED = """
def curved(float(M,K) A, float(K,N) B, float(N) b) -> (O) {
    T(m,n) +=! A(m,k) * B(k,n)
    O(m,n) = tanh(T(m,n) + b(n)) * exp(0 - T(m,n))
}"""
CONV = """
def conv(float(N,C,H,W) I, float(F,C,K,K) Kernel, int P, int S) -> (O) {
    O(n,f,h,w) +=! I(n,c,S*h + kh - P,S*w + kw - P) * Kernel(f,c,kh,kw)
        where h in 0:(H + 2*P - K) / S + 1, w in 0:(W + 2*P - K) / S + 1, I outside zero
}"""
DEPTHWISE = """
def depthwise(float(N,C,H,W) I, float(C,K,K) Kernel, int P) -> (O) {
    O(n,c,h,w) +=! I(n,c,h + kh - P,w + kw - P) * Kernel(c,kh,kw)
        where h in 0:H + 2*P - K + 1, w in 0:W + 2*P - K + 1, I outside zero
}"""
MAX_PLUS = "def max_plus(float(M,K) A, float(K,N) B) -> (C) { C(m,n) max=! A(m,k) + B(k,n) }"
DISTANCE = "def distance(float(M,K) X, float(N,K) Y) -> (O) { O(m,n) +=! abs(X(m,k) - Y(n,k)) }"


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def schedule(text: str, *args: Any, threads: int = 1, numerics: Any = "fast") -> tuple[Any, tuple[Decision, ...]]:
    s = weft.schedule(weft.define(text), *args, numerics=numerics)
    return s, auto_schedule(s, MACHINE, threads).decisions


def said(decisions: tuple[Decision, ...], topic: str) -> list[str]:
    return [d.what for d in decisions if d.topic == topic]


def plain(text: str, *args: Any) -> Any:
    return weft.define(text, schedule="naive")(*args)


def assert_right(s: Any, text: str, *args: Any) -> None:
    np.testing.assert_allclose(s.build()(*args), plain(text, *args), rtol=1e-4, atol=1e-3)


def plans_of(machine: str, m: int, n: int, k: int = 100) -> tuple[Draft, list[Contraction]]:
    s = weft.schedule(weft.define(MATMUL), floats(m, k), floats(k, n), numerics="fast")
    draft = Draft(s, NAMED[machine], 1)
    stage = draft.stage("C")
    lanes, enough = draft.lanes(stage), draft.enough_sums
    return draft, [Contraction(stage, plan, lanes, enough) for plan in contraction_plans(draft, stage)]


@pytest.mark.parametrize("machine", ["x86-64-avx2", "x86-64-avx512"])
@pytest.mark.parametrize(("m", "n"), [(512, 512), (1, 512), (7, 100), (997, 997), (3, 5), (64, 72)])
def test_tiles_fit_the_registers(m: int, n: int, machine: str) -> None:
    draft, plans = plans_of(machine, m, n)
    assert plans
    for c in plans:
        assert c.sums == 1 or c.sums + c.vectors + 1 <= draft.registers
        assert c.plan.width <= max(n, m, c.vector)
        assert all(size <= c.stage.by_name[name].count for name, size in c.plan.rows)
    if m >= 64 and n >= 64:
        assert plans[0].sums >= 8, "too few sums to hide the latency of one"


def test_of_a_last_vector_only_loads_are_masked() -> None:
    """Without masks in hardware too: a choice between old sums and new ones made the last tile 2.3 times as slow."""
    s = weft.schedule(weft.define(MATMUL), floats(128, 64), floats(64, 114), numerics="fast")
    apply_contraction(Draft(s, NAMED["x86-64-avx2"], 1), "C", ContractionPlan("vn", 24, (("vm", 4),)))
    text = print_kernel(lower_kernel(s.kernel, NAMED["x86-64-avx2"], fast=True))
    assert re.search(r"\(\w+ \* 8 \+ \w+ < 18 \? B\[", text)
    assert not re.search(r"if [^{]* < 18 \{\s*C_cache", text)


def test_an_element_goes_to_all_vectors_before_the_next_is_loaded() -> None:
    """Otherwise those of all rows are kept, and with 12 sums 16 registers are too few (conv1d was twice as slow)."""
    text = "def f(float(N,C,L) I, float(F,C,K) W) -> (O) { O(n,f,x) +=! I(n,c,x + k) * W(f,c,k) }"
    s = weft.schedule(weft.define(text), (12, 61, 707), (44, 61, 5), numerics="fast")
    draft = Draft(s, NAMED["x86-64-avx2"], 1)
    plan = ContractionPlan("vx", 8, (("vf", 4), ("vn", 3)))
    loops = part_loops(Contraction(draft.stage("O"), plan, 8, draft.enough_sums))
    assert [loop.of for loop in loops if loop.part == "unrolled"] == ["vf", "vn"]


CHANNELS_LAST = """def conv(float(N,H,W,C) X, float(F,C,3,3) K) -> (O) {
    O(n,h,w,f) +=! K(f,c,i,j) * X(n,h + i,w + j,c) where h in 0:H - 2, w in 0:W - 2, i in 0:3, j in 0:3 }"""


@pytest.mark.parametrize("channels", [24, 128, 130])
def test_sums_go_through_channels_as_they_lie_in_memory(channels: int) -> None:
    """Some lines of each pixel, then the other places of the window, whose elements are still near; weights alike."""
    x, k = floats(2, 9, 10, channels), floats(40, channels, 3, 3)
    s = weft.schedule(weft.define(CHANNELS_LAST), x, k, numerics="fast")
    draft = Draft(s, NAMED["x86-64-avx2"], 1, frozenset({"K"}))
    plan = next(p for p in contraction_plans(draft, draft.stage("O")) if p.lane == "vf")
    around = (("vi", 1), ("vj", 1), ("vc", 1))
    assert plan.steps == ((("vc", 64), *around) if channels == 128 else around)
    apply_contraction(draft, "O", replace(plan, packed=("K",)))
    text = print_kernel(s.kernel)
    packed = "K_pack: float32[2, 2, 3, 3, 64, " if channels == 128 else f", 3, 3, {channels}, "
    assert packed in text
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    np.testing.assert_allclose(s.build()(x, k), np.einsum("nhwcij,fcij->nhwf", windows, k), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_no_cache_holds_are_taken_in_strips(threads: int) -> None:
    """All panels are gone through for a part of the image, which is read from memory once."""
    x, k = floats(1, 80, 77, 64), floats(40, 64, 3, 3)
    s = weft.schedule(weft.define(CHANNELS_LAST), x, k, numerics="fast")
    draft = Draft(s, NAMED["x86-64-avx2"], threads, frozenset({"K"}))
    stage = draft.stage("O")
    plan = next(p for p in contraction_plans(draft, stage) if p.lane == "vf" and p.packed)
    assert [name for name, _ in plan.strips] == ["vh", "vw"], "weights are small"
    parts = [loop.part for loop in part_loops(Contraction(stage, plan, 8, draft.enough_sums))]
    assert parts.index("strips") < parts.index("panels") < parts.index("reductions")
    apply_contraction(draft, "O", plan)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    np.testing.assert_allclose(s.build()(x, k), np.einsum("nhwcij,fcij->nhwf", windows, k), rtol=1e-3, atol=1e-3)


def test_what_a_cache_holds_is_not_cut_into_strips() -> None:
    s = weft.schedule(weft.define(CHANNELS_LAST), (1, 16, 16, 64), (512, 64, 3, 3), numerics="fast")
    draft = Draft(s, NAMED["x86-64-avx2"], 1, frozenset({"K"}))
    assert all(not p.strips for p in contraction_plans(draft, draft.stage("O")))


@pytest.mark.parametrize(("rows", "width", "takes"), [(196, 128, True), (49, 1024, False)])
def test_threads_share_out_rows_unless_weights_are_large(rows: int, width: int, takes: bool) -> None:
    """So a thread finds in its caches what it wrote in the layer before; large weights are better read once."""
    a, b = floats(rows, width), floats(width, 4 * width)
    s = weft.schedule(weft.define(MATMUL), a, b, numerics="fast")
    draft = Draft(s, MACHINE, 2, frozenset({"B"}))
    plan = next(p for p in contraction_plans(draft, draft.stage("C")) if "B" in p.packed and p.blocking is None)
    assert [name for name, _ in plan.strips] == (["vm"] if takes else [])
    if takes:
        c = Contraction(draft.stage("C"), plan, 16, draft.enough_sums)
        loops = part_loops(c)
        assert [loop.part for loop in threaded_loops(draft, c, loops)] == ["strips"]
        apply_contraction(draft, "C", plan)
        np.testing.assert_allclose(s.build()(a, b), a @ b, rtol=1e-3, atol=1e-3)


def test_one_thread_waits_for_no_other() -> None:
    model = MACHINE.model
    assert exchange_seconds(model, 1, 1 << 20, 1 << 20) == 0
    near, far = exchange_seconds(model, 2, 1 << 18, 0), exchange_seconds(model, 2, 1 << 30, 0)
    assert 0 < near < far == exchange_seconds(model, 2, 1 << 31, 0), "what no near cache holds is in a shared one"


def test_the_next_panel_of_weights_is_fetched_while_tiles_are_computed() -> None:
    s = weft.schedule(weft.define(MATMUL), (64, 768), (768, 512), numerics="fast")
    draft = Draft(s, NAMED["x86-64-avx2"], 1, frozenset({"B"}))
    plan = next(p for p in contraction_plans(draft, draft.stage("C")) if "B" in p.packed and p.blocking is None)
    assert plan.steps == (("vk", 64), ("vk", 1))
    apply_contraction(draft, "C", plan)
    assert re.search(r"for k_o in 0:12 \{\s*call prefetch\(&B_pack\[n_o \+ 1, 0", print_kernel(s.kernel))


@pytest.mark.parametrize(("rows", "fetched"), [(98, False), (9800, True)])
def test_what_the_next_tile_reads_by_rows_is_fetched_from_beyond_the_second_cache(rows: int, fetched: bool) -> None:
    s = weft.schedule(weft.define(RESIDUAL), (rows, 64), (64, 128), (rows, 128), numerics="fast")
    auto_schedule(s, MACHINE, 1, frozenset({"B"}))
    text = print_kernel(s.kernel)
    assert ("call prefetch(&A[" in text, "call prefetch(&X[" in text) == (fetched, fetched)


@pytest.mark.parametrize(("rows", "k", "n"), [(128, 768, 2304), (128, 2048, 768)])
def test_of_plans_about_as_fast_that_which_copies_constants_alone_is_taken(rows: int, k: int, n: int) -> None:
    s = weft.schedule(weft.define(TRANSPOSED), (rows, k), (n, k), numerics="fast")
    draft = Draft(s, MACHINE, 2, frozenset({"B"}))
    assert contraction_plans(draft, draft.stage("C"))[0].packed == ("B",), "of those about as fast, the first is taken"


def test_panels_copied_in_every_call_turn_in_registers() -> None:
    s, decisions = schedule(BATCHED, (4, 64, 48), (4, 70, 48))
    assert any("turn in registers" in what for what in said(decisions, "tiling"))
    assert "shuffle(" in print_kernel(lower_kernel(s.kernel, MACHINE))
    assert_right(s, BATCHED, floats(4, 64, 48), floats(4, 70, 48))


@pytest.mark.parametrize(("rows", "threads"), [(1, 1), (1, 2), (3, 1), (3, 2)])
def test_what_is_read_once_comes_in_streams_side_by_side(rows: int, threads: int) -> None:
    """Eight rows of a matrix that no cache holds, a vector of each at a time."""
    s = weft.schedule(weft.define(MATMUL), (rows, 4099), (4099, 5001), numerics="fast")
    draft = Draft(s, NAMED["x86-64-avx512"], threads)
    plan = next(p for p in contraction_plans(draft, draft.stage("C")) if p.blocking and not p.packed)
    assert (plan.width, plan.blocking) == (16, Blocking("vk", 8, 5008 if threads == 1 else 2512))
    apply_contraction(draft, "C", plan)
    a, b = floats(rows, 4099), floats(4099, 5001)
    np.testing.assert_allclose(s.build()(a, b), a @ b, rtol=1e-3, atol=1e-2)


def test_what_tiles_on_an_edge_are_worth() -> None:
    """A copied operand fills the last tile along the lanes; few sums that are left wait for one another."""
    draft, _ = plans_of("x86-64-avx2", 98, 40)
    stage = draft.stage("C")

    def full(packed: tuple[str, ...]) -> dict[str, float]:
        plan = ContractionPlan("vn", 24, (("vm", 4),), packed)
        loops = part_loops(Contraction(stage, plan, 8, draft.enough_sums))
        return {loop.part: loop.full for loop in loops}

    assert full(("B",))["panels"] == 2
    assert full(())["panels"] == pytest.approx(1 + 2 / 3)
    assert full(())["rows"] == pytest.approx(24 + 8 / 12)  # 2 of 4 rows are 6 sums, the time of 8


def test_results_stored_across_lanes_are_not_hidden_behind_memory() -> None:
    text = "def f(float(B,M,K) X, float(B,N,K) Y) -> (Z) { Z(b,m,n) +=! X(b,m,k) * Y(b,n,k) }"
    s = weft.schedule(weft.define(text), (500, 72, 26), (500, 72, 26), numerics="fast")
    draft = Draft(s, NAMED["x86-64-avx2"], 1)
    stage = draft.stage("Z")
    along = contraction_seconds(draft, stage, ContractionPlan("vn", 24, (("vm", 4),), ("Y",)))
    across = contraction_seconds(draft, stage, ContractionPlan("vm", 24, (("vn", 4),), ("X",)))
    assert across > 1.2 * along


@pytest.mark.parametrize("text", [MATMUL, L1])
def test_no_plan_takes_less_than_its_busiest_unit(text: str) -> None:
    """Plans are not drawn that could not be best: what is taken for the least they need must be that."""
    s = weft.schedule(weft.define(text), floats(120, 64), floats(64, 136), numerics="fast")
    draft = Draft(s, NAMED["x86-64-avx2"], 1)
    stage = draft.stage("C")
    for plan in contraction_plans(draft, stage):
        assert least_seconds(draft, stage, plan) <= contraction_seconds(draft, stage, plan)


def test_tiles_come_out_even_where_there_are_tests_already() -> None:
    """Scores of causal attention: with 6 of 16 rows each element was tested, at a sixth of the speed."""
    s = weft.schedule(weft.ops.causal_attention, *[(1, 2, 128, 64)] * 3, numerics="fast")
    found = auto_schedule(s, NAMED["x86-64-avx2"], 1)
    tiles = [d.what for d in found.decisions if d.topic == "registers" and d.subject in ("A", "Y")]
    assert tiles
    assert all(what.split()[2] in ("2", "4", "8", "16") for what in tiles)


def test_tiles_that_leave_something_over_are_listed_where_even_ones_are_bad() -> None:
    """748 rows of 78: 17 at a time and 39 lanes come out even, and hold hardly any sums."""
    s = weft.schedule(weft.ops.causal_attention, *[(1, 2, 748, 78)] * 3, numerics="fast")
    found = auto_schedule(s, NAMED["x86-64-avx2"], 1)
    sums = {d.subject: d.why for d in found.decisions if d.topic == "registers" and d.what.startswith("tiles")}
    assert sums == {"A": "12 of 16 registers", "Y": "12 of 16 registers"}


def test_rows_of_tiles_lie_near_one_another() -> None:
    """Rows along the width of an image, where those along its height would do the same."""
    s = weft.schedule(weft.ops.conv2d, (1, 32, 30, 30), (64, 32, 3, 3), numerics="fast")
    draft = Draft(s, NAMED["x86-64-avx2"], 1)
    stage = next(x for x in draft.stages if x.reductions)
    rows = {name for plan in contraction_plans(draft, stage) if len(plan.rows) == 1 for name, _ in plan.rows}
    assert "vw" in rows
    assert "vh" not in rows


def test_what_stays_in_shared_loops_is_not_priced_as_if_it_went_to_memory() -> None:
    text = """
def two(float(M,K) A, float(M,K,N) B, float(M,N,L) C) -> (O) {
    T(m,n) +=! A(m,k) * B(m,k,n)
    O(m,l) +=! T(m,n) * C(m,n,l)
}"""
    s = weft.schedule(weft.define(text), floats(8, 16), floats(8, 16, 32), floats(8, 32, 64), numerics="fast")
    draft = Draft(s, MACHINE, 1)
    assert draft.stages.kept_inside(draft.stage("O")) == []
    s.compute_at("T", draft.stage("O").loops[0])
    assert draft.stages.kept_inside(draft.stage("T")) == ["T"]


def test_plans_are_told_and_so_are_those_that_lost() -> None:
    _, decisions = schedule(MATMUL, floats(512, 512), floats(512, 512))
    (told,) = [d for d in decisions if d.topic == "plans"]
    assert "ms expected of tiles vm:" in told.what
    assert told.why.startswith("not ")
    assert " ms tiles " in told.why


def test_plans_are_read_back_and_tell_their_knobs() -> None:
    _, plans = plans_of("x86-64-avx2", 1000, 800, 3000)
    for c in plans:
        assert read_plan(repr(c.plan), [ContractionPlan, Blocking]) == c.plan
    values = knobs(c.plan for c in plans)
    assert len(values["width"]) > 1
    assert ("B",) in values["packed"]


def test_a_ranker_may_choose_another_plan() -> None:
    """A tuner takes any plan of the list: here the one that the model likes least."""
    s = weft.schedule(weft.define(MATMUL), floats(60, 50), floats(50, 64), numerics="fast")
    taken: list[Any] = []

    def worst_first(subject: str, plans: Any, seconds: Any) -> list[Any]:
        ranked = list(reversed(rank_plans(subject, plans, seconds)))
        taken.extend(ranked[:1])
        return ranked

    found = auto_schedule(s, MACHINE, 1, rank=worst_first)
    assert str(taken[0]).startswith("in order")
    assert_right(found.schedule, MATMUL, floats(60, 50), floats(50, 64))


@pytest.mark.parametrize(
    ("text", "m", "n", "k"),
    [
        *((MATMUL, *size) for size in ((64, 64, 64), (5, 7, 3), (33, 50, 17), (1, 64, 40), (13, 1, 64))),
        *((text, 127, 130, 31) for text in (MATMUL, DENSE, CURVED, MAX_PLUS)),
        *((text, 5, 7, 3) for text in (DENSE, CURVED, MAX_PLUS)),
    ],
)
def test_matrices(text: str, m: int, n: int, k: int) -> None:
    args = [floats(m, k), floats(k, n), floats(n)][: 3 if "b(n)" in text else 2]
    s, decisions = schedule(text, *args)
    assert not said(decisions, "fallback")
    assert_right(s, text, *args)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (33, 50, 17), (6, 200, 40)])
@pytest.mark.parametrize("text", [TRANSPOSED, DISTANCE])
def test_matrices_whose_lanes_are_apart(text: str, m: int, n: int, k: int) -> None:
    s, decisions = schedule(text, floats(m, k), floats(n, k))
    assert said(decisions, "packing")
    assert_right(s, text, floats(m, k), floats(n, k))


def test_batches_run_on_threads() -> None:
    s, decisions = schedule(BATCHED, floats(8, 40, 26), floats(8, 40, 26), threads=2)
    assert find_loop(s.kernel, "b").kind == "parallel"
    assert any(" copied at `" in what for what in said(decisions, "packing"))
    assert_right(s, BATCHED, floats(8, 40, 26), floats(8, 40, 26))


def test_few_panels_are_divided_among_threads_by_rows() -> None:
    s, _ = schedule(MATMUL, floats(512, 64), floats(64, 32), threads=2)
    parallel = [n.var.name for n in walk(s.kernel) if isinstance(n, For) and n.kind == "parallel"]
    assert parallel == ["m_o"]


def test_cheap_epilogues_read_registers() -> None:
    args = floats(48, 32), floats(32, 64), floats(64)
    s, decisions = schedule(DENSE, *args)
    assert said(decisions, "fusion") == ["done at the end of each tile of `T`"]
    assert [a.buffer.scope for a in all_allocs(s.kernel)] == ["register"]
    assert_right(s, DENSE, *args)


def test_expensive_epilogues_follow_their_panel() -> None:
    args = floats(64, 32), floats(32, 256), floats(256)
    s, decisions = schedule(CURVED, *args)
    assert any(what.startswith("done in each iteration of") for what in said(decisions, "fusion"))
    assert_right(s, CURVED, *args)


def test_what_no_cache_holds_is_finished_row_by_row() -> None:
    """A long formula is not written out for the last tile of rows of 211, which is not full: it cannot join them."""
    text = """def f(float(H,W,C) I, float(K,K,C,F) Kernel, float(F) bias) -> (O) {
        T(h,w,f) +=! I(h + kh,w + kw,c) * Kernel(kh,kw,c,f) where h in 0:H - K + 1, w in 0:W - K + 1
        O(h,w,f) = 0.5 * (T(h,w,f) + bias(f)) * (1.0 + erf(0.7071 * (T(h,w,f) + bias(f))))
    }"""
    args = floats(181, 213, 16), floats(3, 3, 16, 32), floats(32)
    s, decisions = schedule(text, *args)
    assert any(what.startswith("done in each iteration of") for what in said(decisions, "fusion"))
    assert_right(s, text, *args)


@pytest.mark.parametrize(
    ("c", "f", "size", "k", "pad", "step", "threads"),
    [(16, 32, 14, 3, 1, 1, 1), (8, 20, 9, 3, 1, 2, 2), (4, 4, 20, 5, 2, 1, 2), (16, 8, 12, 1, 0, 1, 1)],
)
def test_convolutions(c: int, f: int, size: int, k: int, pad: int, step: int, threads: int) -> None:
    args = floats(2, c, size, size + 3), floats(f, c, k, k), pad, step
    s, decisions = schedule(CONV, *args, threads=threads)
    assert not said(decisions, "fallback")
    assert any("zeros around" in what for what in said(decisions, "packing")) == (pad > 0)
    assert_right(s, CONV, *args)


def test_the_last_vector_of_a_row_with_zeros_around_it_needs_no_test() -> None:
    args = floats(1, 8, 6, 23), floats(4, 8, 3, 3), 1, 1
    s = weft.schedule(weft.define(CONV), *args, numerics="fast")
    machine = NAMED["x86-64-avx2"]
    auto_schedule(s, machine, 1)
    assert 'pad_rows("I_around", 1)' in str(s.trace)
    tested = [n for n in walk(lower_kernel(s.kernel, machine, fast=True)) if isinstance(n, If)]
    stored = {n.buffer.name for test in tested for n in walk(test) if isinstance(n, Store)}
    assert stored == {"O"}  # sums are computed for whole vectors, and stored as far as they are asked for
    assert_right(s, CONV, *args)


def test_one_kernel_a_channel() -> None:
    args = floats(1, 6, 20, 32), floats(6, 3, 3), 1
    s, _ = schedule(DEPTHWISE, *args)
    assert find_loop(s.kernel, "kh").kind == find_loop(s.kernel, "kw").kind == "unroll", "rows share what they load"
    assert_right(s, DEPTHWISE, *args)


def test_strict_numerics_keep_the_order_of_sums() -> None:
    for text, args in (
        (MATMUL, (floats(33, 40), floats(40, 50))),
        (CONV, (floats(1, 4, 9, 9), floats(20, 4, 3, 3), 1, 1)),
    ):
        s, decisions = schedule(text, *args, numerics="strict")
        assert said(decisions, "registers")
        np.testing.assert_array_equal(s.build()(*args), plain(text, *args))


def test_symbolic_sizes() -> None:
    matmul = weft.define(MATMUL, schedule="auto", dynamic=("M", "N", "K"))
    for m, n, k in ((1, 1, 1), (33, 50, 17), (64, 128, 64), (0, 4, 3)):
        a, b = floats(m, k), floats(k, n)
        np.testing.assert_allclose(matmul(a, b), a @ b, rtol=1e-4, atol=1e-3)


def test_a_matrix_times_a_vector_is_no_contraction() -> None:
    """Every element of the matrix is used once, along its rows: there is nothing to keep in registers."""
    s = weft.schedule(weft.ops.matvec, floats(200, 300), floats(300), numerics="fast")
    assert is_contraction(Draft(s, MACHINE, 1).stage("y"))
    told = [d.what for d in auto_schedule(s, MACHINE, 1).decisions if d.topic == "plans"]
    assert len(told) == 1
    assert "in order along vk" in told[0]


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_other_types(dtype: Any) -> None:
    text = DENSE.replace("float(", "double(" if dtype is np.float64 else "float16(")
    args = floats(40, 33).astype(dtype), floats(33, 70).astype(dtype), floats(70).astype(dtype)
    s, _ = schedule(text, *args)
    expected = plain(text, *args).astype(np.float64)
    np.testing.assert_allclose(s.build()(*args).astype(np.float64), expected, rtol=1e-2, atol=1e-2)


_IMAGE = "float(N,C,H,W) I, float(F,C) K"
MERGED = {
    "1x1 convolution": (f"def f({_IMAGE}) -> (O) {{ O(n,f,h,w) +=! I(n,c,h,w) * K(f,c) }}", "nchw,fc->nfhw"),
    "features last": ("def f(float(N,H,W,C) I, float(F,C) K) -> (O) { O(n,h,w,f) +=! I(n,h,w,c) * K(f,c) }",
                      "nhwc,fc->nhwf"),
    "turned results": (f"def f({_IMAGE}) -> (O) {{ O(n,f,w,h) +=! I(n,c,h,w) * K(f,c) }}", "nchw,fc->nfwh"),
    "with a formula": (f"def f({_IMAGE}) -> (O) {{ T(n,f,h,w) +=! I(n,c,h,w) * K(f,c)  O(n,f,h,w) = 2 * T(n,f,h,w) }}",
                       "nchw,fc->nfhw"),
    "read by rows": (f"def f({_IMAGE}, float(H) b) -> (O) {{ T(n,f,h,w) +=! I(n,c,h,w) * K(f,c)"
                     "  O(n,f,h,w) = T(n,f,h,w) * b(h) }", "nchw,fc->nfhw"),
}  # fmt: skip


@pytest.mark.parametrize("width", [17, 32])
@pytest.mark.parametrize("name", MERGED)
def test_rows_that_are_no_whole_vectors_are_one_axis(name: str, width: int) -> None:
    """Where all of the program walks them together, and vectors go along them; results are the same in any case."""
    text, sums = MERGED[name]
    shape = (2, 9, width, 20) if name == "features last" else (2, 20, 9, width)
    args = [floats(*shape), floats(7, 20)]
    expected = np.einsum(sums, *args) * (2 if name == "with a formula" else 1)
    if name == "read by rows":
        args.append(floats(9))
        expected = expected * args[2][:, None]
    _, decisions = schedule(text, *args)
    is_merged = any("are one axis" in d.what for d in decisions)
    assert is_merged == (name in ("1x1 convolution", "with a formula") and width == 17)
    np.testing.assert_allclose(weft.define(text)(*args), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("sizes", [(2, 17, 3), (1, 1, 1), (3, 8, 13), (17, 17, 17)])
def test_an_operand_that_is_read_along_its_diagonal_too(sizes: tuple[int, int, int]) -> None:
    """What its lanes would be is no dimension of the one access, and both read the same copy."""
    op = weft.define(
        """
        def f(float(M,K) X, float(N,K) Y) -> (T, I) {
            T(m,n) +=! (X(m,m) - Y(n,k)) * (X(m,k) - Y(n,k)) where m in 0:min(M,K)
            I(m) argmin=! T(m,n)
        }"""
    )
    rows, columns, depth = sizes
    rng = np.random.default_rng(0)
    x, y = (rng.random((n, max(rows, depth)), np.float32).astype(np.float64) for n in (rows, columns))
    wide = ((np.diagonal(x)[:rows, None, None] - y) * (x[:, None] - y)).sum(2)
    total, least = op(x.astype(np.float32), y.astype(np.float32))
    np.testing.assert_allclose(total, wide, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(least, total.argmin(1))


def test_a_fault_of_a_strategy_is_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users get the next way, and `explain` says why; our own tests the fault."""

    def broken(*_: object) -> None:
        raise AssertionError("nobody thought of this")

    monkeypatch.setattr("weft.auto.contraction_time.draw_contraction", broken)
    op = weft.define("def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")
    shapes = {"A": (65, 66), "B": (66, 67)}
    with pytest.raises(AssertionError, match="nobody thought"):
        op.explain(**shapes)
    monkeypatch.setenv("WEFT_FAULTS", "")
    said = op.explain(**shapes)
    assert "a fault of Weft, AssertionError: nobody thought of this" in said
    a, b = (np.ones(shape, np.float32) for shape in shapes.values())
    np.testing.assert_array_equal(op(a, b), np.full((65, 67), 66, np.float32))
