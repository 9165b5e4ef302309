"""Chains: which stages are computed together, in which loops, and that results stay right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.auto.contraction import apply_contraction
from weft.auto.contraction_plan import ContractionPlan
from weft.auto.draft import Draft
from weft.auto.driver import AutoSchedule
from weft.auto.plan import rank_plans
from weft.auto.scheduler import auto_schedule
from weft.ir.expr import Binary, Load
from weft.ir.stmt import Alloc
from weft.ir.visit import walk
from weft.target.cpu.host import NAMED
from weft.target.cpu.lower import lower_kernel

MACHINE = NAMED["x86-64-avx512"]
MOMENTS = """
def moments(float(M,N) X) -> (float(M) Mean, float(M) Var) {
    S(m) +=! X(m,n)
    Mu(m) = S(m) / N
    Q(m) +=! (X(m,n) - Mu(m)) * (X(m,n) - Mu(m))
    Mean(m) = Mu(m)
    Var(m) = Q(m) / N
}"""
COLUMNS = """
def columns(float(M,N) X) -> (O) {
    T(n) max=! X(m,n)
    E(m,n) = exp(X(m,n) - T(n))
    S(n) +=! E(m,n)
    O(m,n) = E(m,n) / S(n)
}"""
LOSS = """
def loss(float(M,N) X, int(M) L) -> (Loss) {
    Top(m) max=! X(m,n)
    Total(m) +=! exp(X(m,n) - Top(m))
    C(m) = log(Total(m)) + Top(m) - X(m,L(m))
    Loss +=! C(m)
}"""
ATTENTION_WITH_STATISTICS = """
def attention(float(B,H,S,D) Q, float(B,H,T,D) K, float(B,H,T,E) V, float(B,1,S,T) M) -> (O, Lse) {
    R(b,h,s,t) +=! Q(b,h,s,d) * K(b,h,t,d)
    P(b,h,s,t) = R(b,h,s,t) * 0.35 + M(b,0,s,t)
    Top(b,h,s) max=! P(b,h,s,t)
    Y(b,h,s,e) +=! exp(P(b,h,s,t) - Top(b,h,s)) * V(b,h,t,e)
    Total(b,h,s) +=! exp(P(b,h,s,t) - Top(b,h,s))
    O(b,h,s,e) = Y(b,h,s,e) / Total(b,h,s)
    Lse(b,h,s) = Top(b,h,s) + log(Total(b,h,s))
}"""


def scheduled(op: weft.Operator | str, *args: Any, threads: int = 2) -> AutoSchedule:
    op = weft.define(op) if isinstance(op, str) else op
    return auto_schedule(weft.schedule(op, *args, numerics="fast"), MACHINE, threads)


def together(found: AutoSchedule) -> dict[str, str]:
    """What is computed together with each anchor."""
    joined = [d for d in found.decisions if d.topic == "fusion" and d.what.startswith("computed together")]
    return {d.subject: d.what.removeprefix("computed together with ") for d in joined}


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def assert_right(op: weft.Operator | str, *args: Any) -> None:
    op = weft.define(op) if isinstance(op, str) else op
    found = op.with_schedule("auto")(*args)
    expected = op.with_schedule("naive")(*args)
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_a_row_of_softmax_stays_in_the_first_cache() -> None:
    found = scheduled(weft.ops.softmax, (512, 1000))
    assert together(found) == {"O": "`Top`, `E`, `Total`"}
    assert str(found.schedule.loops("E")[0]) == str(found.schedule.loops("O")[0])
    assert "parallel" in str(found.schedule).splitlines()[1]


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (40, 1), (33, 100), (7, 64)])
def test_rows_of_any_shape(shape: tuple[int, int]) -> None:
    for op in (weft.ops.softmax, weft.ops.log_softmax, weft.ops.softmax_plain, weft.ops.causal_softmax):
        assert_right(op, floats(*shape))
    assert_right(weft.ops.layer_norm, floats(*shape), floats(shape[1]), floats(shape[1]))


def test_statistics_over_a_middle_axis_come_outermost() -> None:
    image, channel = floats(4, 8, 14, 14), floats(8)
    found = scheduled(weft.ops.batch_norm, image, channel, channel)
    assert str(found.schedule.loops("O")[0]).startswith("c")
    assert {"`Mean`", "`Var`"} <= set(together(found)["O"].split(", "))
    assert_right(weft.ops.batch_norm, image, channel, channel)


def test_two_results_share_loops() -> None:
    found = scheduled(MOMENTS, (64, 300))
    assert list(together(found)) == ["Var"]
    assert_right(MOMENTS, floats(64, 300))


def test_columns_are_done_some_vectors_at_a_time() -> None:
    found = scheduled(COLUMNS, (100, 512))
    tiles = [d.what for d in found.decisions if d.topic == "tiling"]
    assert any("values of `vn` at a time" in what for what in tiles)
    assert_right(COLUMNS, floats(100, 130))


def test_attention_is_done_head_by_head_where_a_cache_holds_the_scores_of_one() -> None:
    shape = (2, 4, 256, 64)
    found = scheduled(weft.ops.attention, shape, shape, shape)
    loops = [str(x) for x in found.schedule.loops("A")]
    anchor = [str(x) for x in found.schedule.loops("O")]
    assert loops[:2] == anchor[:2], "scores are computed in loops of the result"
    assert loops[2] != anchor[2], "all rows of a head at once"
    assert any(d.topic == "packing" and "`K`" in d.what for d in found.decisions)


def test_scores_of_attention_are_never_stored_in_full() -> None:
    shape = (1, 4, 2048, 64)
    found = scheduled(weft.ops.attention, shape, shape, shape)
    loops = [str(x) for x in found.schedule.loops("A")]
    anchor = [str(x) for x in found.schedule.loops("O")]
    assert loops[:3] == anchor[:3], "scores are computed in loops of the result"
    packs = [d for d in found.decisions if d.topic == "packing"]
    assert any("`K`" in d.what and loops[2] not in d.what for d in packs), "keys are copied once for all rows"


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (2, 3, 5, 7, 4), (1, 2, 40, 33, 20), (1, 2, 64, 64, 64)])
def test_attention_is_right(sizes: tuple[int, ...]) -> None:
    b, h, s, t, d = sizes
    assert_right(weft.ops.attention, floats(b, h, s, d), floats(b, h, t, d), floats(b, h, t, d))
    assert_right(weft.ops.causal_attention, *(floats(b, h, s, d) for _ in range(3)))


def test_layers_whose_weights_do_not_fit_stay_apart() -> None:
    large = scheduled(weft.ops.mlp2, (512, 1024), (1024, 1024), (1024,), (1024, 1024), (1024,))
    assert not together(large)
    told = {d.subject: d for d in large.decisions if d.topic == "plans"}["Y, fusion"]
    assert "apart" in told.what
    assert "together" in told.why
    small = scheduled(weft.ops.mlp2, (128, 64), (64, 64), (64,), (32, 64), (32,))
    assert "Y" in together(small)


@pytest.mark.parametrize("machine", ["x86-64-avx2", "x86-64-avx512"])
@pytest.mark.parametrize("sizes", [(152, 9, 21, 20, 47, 25, 17), (131, 11, 13, 19, 33, 37, 18)])
def test_a_chain_of_contractions_shares_no_loop_that_leaves_parts_of_vectors(
    machine: str, sizes: tuple[int, ...]
) -> None:
    """17 columns as 16 and 1 took ten times as long as the contractions by themselves; the model sees it coming."""
    m, n0, n1, n2, d0, d1, d2 = sizes
    op = weft.ops.kru3
    s = weft.schedule(op, (d0, n0), (d1, n1), (d2, n2), (m, n0, n1, n2), numerics="fast")
    found = auto_schedule(s, NAMED[machine], 1)
    plan = next(d.what for d in found.decisions if d.subject == "Y, fusion")
    assert "vd2" not in plan
    assert "vd2:" in next(d.why for d in found.decisions if d.subject == "Y, fusion"), "it was considered"


def test_what_is_shared_by_too_few_iterations_stays_apart() -> None:
    found = scheduled(weft.ops.softmax, (1, 1 << 20))
    assert any("too few for 2 threads" in d.why for d in found.decisions)


def test_a_sum_of_all_rows_ends_the_chain_before_it() -> None:
    found = scheduled(LOSS, (256, 500), np.zeros(256, np.int32))
    assert together(found) == {"C": "`Top`, `Total`"}
    assert_right(LOSS, floats(20, 50), np.arange(20, dtype=np.int32))


def test_results_in_between_join_through_what_reads_them() -> None:
    args = [floats(*s) for s in ((1, 4, 256), (4, 4, 2), (4,), (4, 4, 2), (4,), (4, 4), (4,), (8, 4), (8,))]
    found = scheduled(weft.ops.wavenet, *args, 4)
    assert list(together(found)) == ["Skip"]
    assert_right(weft.ops.wavenet, *args, 4)


def test_temporaries_of_uneven_tiles_are_as_long_as_a_tile() -> None:
    """The last of the shared tiles is not full; what is kept in between is no longer for it."""
    text = """def gated(float(R,T) X, float(C,R) W, float(S,C) V) -> (O) {
        G(c,t) +=! W(c,r) * X(r,t)
        Z(c,t) = tanh(G(c,t))
        O(s,t) +=! V(s,c) * Z(c,t)
    }"""
    x, w, v = floats(20, 4415), floats(24, 20), floats(100, 24)

    def together_first(subject: str, plans: Any, seconds: Any) -> list[Any]:
        return sorted(rank_plans(subject, plans, seconds), key=lambda plan: "together" not in str(plan))

    s = weft.schedule(weft.define(text), x, w, v, numerics="fast")
    auto_schedule(s, MACHINE, 1, rank=together_first)
    lowered = lower_kernel(s.kernel, fast=True)
    allocated = [n.buffer for n in walk(lowered) if isinstance(n, Alloc) and n.buffer.scope != "register"]
    assert all(int(b.shape[-1].value) <= 256 for b in allocated)  # type: ignore[attr-defined]
    np.testing.assert_allclose(s.build()(x, w, v), v @ np.tanh(w @ x), rtol=1e-4, atol=1e-4)


def test_copies_for_lanes_begin_where_shared_loops_are() -> None:
    text = """def pooled(float(C,H,W) I, float(F,C,3,3) K) -> (O) {
        T(f,h,w) +=! I(c,h + y,w + x) * K(f,c,y,x)
        O(f,h,w) max=! T(f,2*h + y,2*w + x) where y in 0:2, x in 0:2
    }"""
    args = floats(8, 9, 11), floats(58, 8, 3, 3)
    s = weft.schedule(weft.define(text), *args, numerics="fast")
    outer, _ = s.split("f_1", 29)
    s.compute_at("T", outer)
    draft = Draft(s, NAMED["x86-64-avx2"], 1)
    apply_contraction(draft, "T", ContractionPlan("vf", 16, (("vw", 3),), packed=("K",)))
    read = [n for n in walk(lower_kernel(s.kernel, draft.machine, fast=True)) if isinstance(n, Load)]
    lanes = [n.indices[-1] for n in read if n.buffer.name == "K_pack"]
    assert lanes
    assert not any(isinstance(n, Binary) and n.op in ("%", "//") for e in lanes for n in walk(e))
    np.testing.assert_allclose(s.build()(*args), weft.define(text, schedule="naive")(*args), rtol=1e-4)


def test_a_result_that_is_in_a_chain_joins_no_other() -> None:
    q, k, v, m = floats(2, 4, 10, 8), floats(2, 4, 10, 8), floats(2, 4, 10, 8), floats(2, 1, 10, 10)
    scheduled(ATTENTION_WITH_STATISTICS, q, k, v, m)
    o, lse = weft.define(ATTENTION_WITH_STATISTICS)(q, k, v, m)
    weights = np.exp(np.einsum("bhsd,bhtd->bhst", q, k, dtype=np.float64) * 0.35 + m)
    np.testing.assert_allclose(lse, np.log(weights.sum(-1)), rtol=1e-5, atol=1e-5)
    expected = np.einsum("bhst,bhte->bhse", weights / weights.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(o, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("heads", "rows", "width"), [(7, 478, 54), (3, 101, 40)])
def test_last_tiles_of_hopeless_plans_do_not_matter(
    heads: int, rows: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is chosen is the same as where the last tile of every plan is looked at."""
    arrays = [np.zeros((1, heads, rows, width), np.float32)] * 3
    chosen = str(scheduled(weft.ops.get("attention"), *arrays).schedule.trace)
    monkeypatch.setattr("weft.auto.chain_plan.SAME_TIME", float("inf"))
    assert str(scheduled(weft.ops.get("attention"), *arrays).schedule.trace) == chosen
