"""Programs of which some plan does not fit the GPU: another way is found, and the reason told."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scheduled_for_gpu import check_case, make_case

import weft
from weft.auto.draft import MOST_TRIED, Barred, Taken
from weft.auto.driver import Misfit, Step, drive
from weft.auto.gpu import fits, scheduler
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.fits import surely_fits
from weft.auto.gpu.grid import Shape
from weft.auto.gpu.points import POINTS, PointsPlan
from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.auto.strategy import schedule_nests
from weft.ir.errors import TargetError
from weft.ir.stmt import Kernel
from weft.schedules.find import all_loops, top_nests
from weft.schedules.schedule import Schedule
from weft.target.cuda.lower import emit_kernel
from weft.target.cuda.machine import gpu_for_arch

H200 = gpu_for_arch("sm_90")
ARCHES = ("sm_80", "sm_90")
#: Results that are written through two iterators in a subscript; whether each element is written once.
SUBSCRIPTS = [
    "def f(float(H,N) A) -> (float(2*H,N) O) { O(2*h+a,n) = A(h,n) where a in 0:2 }",
    "def f(float(H,N) A) -> (float(N,2*H) O) { O(n,2*h+a) = A(h,n) where a in 0:2 }",
    "def f(float(H,N) A) -> (float((H+3)/4,N) O) { O(h/4,n) +=! A(h,n) }",
    "def f(float(H,N) A) -> (float(H+2,N) O) { O(h+k,n) +=! A(h,n) where k in 0:3 }",
]
ATTENTION = """
def f({T}(B,M,D) Q, {T}(B,N,D) K, {T}(B,N,D) V) -> (O) {{
    S(b,m,n) +=! Q(b,m,d) * K(b,n,d)
    P({order}) = exp(S(b,m,n) * 0.1)
    Z(b,m) +=! P({order})
    U(b,m,e) +=! P({order}) * V(b,n,e)
    O(b,m,e) = U(b,m,e) / Z(b,m)
}}"""


def ones(*shapes: tuple[int, ...], dtype: Any = np.float32) -> list[Any]:
    return [np.ones(shape, dtype) for shape in shapes]


def text_of(program: str, args: list[Any], arch: str) -> str:
    """CUDA text of its automatic schedule."""
    machine, case = gpu_for_arch(arch), make_case(program, args, "unchecked")
    made = auto_schedule_gpu(Schedule(case.kernel, numerics="fast", sizes=case.sizes), machine)
    return emit_kernel(made.schedule.kernel, machine, fast=True, aligned={b.name: 256 for b in case.kernel.buffers})


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("program", SUBSCRIPTS)
def test_two_iterators_in_a_written_subscript(program: str, arch: str) -> None:
    assert "__global__" in text_of(program, ones((2048, 64)), arch)
    check_case(program, [np.random.default_rng(0).standard_normal((37, 5), np.float32)])


def test_elements_that_are_written_once_are_written_at_once() -> None:
    """Iterators that share a subscript are no reduction where nothing is added up."""
    case = make_case(SUBSCRIPTS[0], ones((2048, 64)), "unchecked")
    kernel = auto_schedule_gpu(Schedule(case.kernel, numerics="fast"), H200).schedule.kernel
    assert not [f for f in all_loops(kernel) if f.kind == "serial" and "h" in f.var.name]


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("kind", ["half", "bfloat16", "float"])
@pytest.mark.parametrize("order", ["b,m,n", "b,n,m", "m,b,n"])
def test_attention_of_any_type_and_scores_that_are_turned(kind: str, order: str, arch: str) -> None:
    dtype = {"half": "float16", "float": "float32"}.get(kind, kind)
    args = ones((2, 128, 64), (2, 256, 64), (2, 256, 64), dtype=weft.numpy_dtype(dtype))
    assert "__global__" in text_of(ATTENTION.format(T=kind, order=order), args, arch)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize(
    ("program", "shapes", "dtype"),
    [
        ("def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k)*B(k,n) }", [(0, 64), (64, 64)], "f"),
        ("def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k)*B(k,n) }", [(64, 0), (0, 64)], "f"),
        ("def f(half(M,K) A, half(K,N) B) -> (C) { C(m,n) +=! A(m,k)*B(k,n) }", [(128, 64), (64, 0)], "e"),
        ("def f(half(C,H,W) X, half(C,3,3) K) -> (O) { O(c,y,x) +=! X(c,y+r,x+s)*K(c,r,s) }",
         [(3, 2, 8), (3, 3, 3)], "e"),
        ("def f(half(C,H,W) X, half(C,2,1) K) -> (O) { O(c,y,x) +=! X(c,y+r,x+s)*K(c,r,s) }",
         [(3, 1, 8), (3, 2, 1)], "e"),
        ("def f(float(M,N) A) -> (O) { X(m) max=! A(m,n)\n E(m,n) = exp(A(m,n)-X(m))\n S(m) +=! E(m,n)\n"
         " O(m,n) = E(m,n)/S(m) }", [(0, 64)], "f"),
        (ATTENTION.format(T="half", order="b,m,n"), [(2, 0, 64), (2, 64, 64), (2, 64, 64)], "e"),
    ],
)  # fmt: skip
def test_nothing_to_do(program: str, shapes: list[tuple[int, ...]], dtype: str, arch: str) -> None:
    assert text_of(program, ones(*shapes, dtype=dtype), arch)


@pytest.mark.parametrize("width", [1, 2])
def test_sums_into_elements_that_meet_where_an_axis_has_one(width: int) -> None:
    program = "def f(half(W,C) I, half(C,K) L) -> (half(W+K-1) O) { O(w+k) +=! I(w,c)*L(c,k) }"
    for arch in ARCHES:
        assert text_of(program, ones((width, 64), (64, 8), dtype="e"), arch)


def test_a_column_of_factors_and_overlapping_elements() -> None:
    assert text_of("def f(float(H,N) A, float(W) B) -> (float(H*W,N) O) { O(W*h+w,n) = A(h,n)*B(w) }",
                   ones((500, 3), (7,)), "sm_90")  # fmt: skip
    transposed = """def f(float(N,C,H,W) I, float(C,F,KH,KW) K) -> (float(N,F,H+KH-1,W+KW-1) O) {
        O(n,f,h+y,w+x) +=! I(n,c,h,w) * K(c,f,y,x) }"""
    assert text_of(transposed, ones((1, 4096, 4, 4), (4096, 1, 16, 16)), "sm_90")


def refusing(most: int) -> Any:
    """A check by which nests of more than so many threads a block do not fit."""

    def emit(kernel: Kernel, *_: Any, **__: Any) -> str:
        for loop in all_loops(kernel):
            if loop.kind == "thread" and int(loop.hi.value) > most:  # type: ignore[attr-defined]
                raise TargetError(f"{int(loop.hi.value)} threads are too many")  # type: ignore[attr-defined]
        return ""

    return emit


def schedule_points(rows: int, monkeypatch: pytest.MonkeyPatch, most: int) -> Any:
    case = make_case("def f(float(M,N) A) -> (O) { O(m,n) = A(m,n) + 1 }", ones((rows, 512)), "unchecked")
    monkeypatch.setattr(fits, "surely_fits", lambda nest, machine: False)
    monkeypatch.setattr(fits, "emit_kernel", refusing(most))
    return auto_schedule_gpu(Schedule(case.kernel, numerics="fast"), H200)


def test_a_plan_that_does_not_fit_is_barred_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made = schedule_points(4096, monkeypatch, 128)
    threads = [int(f.hi.value) for f in all_loops(made.schedule.kernel) if f.kind == "thread"]  # type: ignore[attr-defined]
    assert threads
    assert max(threads) <= 128
    told = [d for d in made.decisions if d.topic == "fallback"]
    assert told
    assert all(d.subject == "O" and d.what.startswith("not scheduled as points") for d in told)
    assert re.fullmatch(r"\d+ threads are too many", told[0].why)


def test_where_no_plan_fits_the_simplest_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any strategy a nest is a grid; without that, loops as they were."""
    made = schedule_points(64, monkeypatch, 0)
    assert not [f for f in all_loops(made.schedule.kernel) if f.kind == "thread"]
    said = [d.what for d in made.decisions if d.topic == "fallback"]
    assert said[-1].startswith("scheduled without `schedule_rest`")


def test_only_what_nobody_can_run_is_an_error() -> None:
    case = make_case("def f(float(M) A) -> (O) { O(m) = A(m) + 1 }", ones((64,)), "unchecked")
    never = TargetError("it never fits")
    steps = [Step(lambda draft: schedule_nests(draft, [POINTS]))]
    with pytest.raises(TargetError, match="it never fits"):
        drive(Schedule(case.kernel), lambda s: GpuDraft(s, H200), steps, lambda draft: Misfit(frozenset("O"), never))


def test_a_fault_of_a_step_is_told_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(draft: GpuDraft) -> None:
        draft.s.bind(draft.s.loops("O")[0], "thread")
        raise AssertionError("nobody thought of this")

    case = make_case("def f(float(M,N) A) -> (O) { O(m,n) = A(m,n) + 1 }", ones((8, 8)), "unchecked")
    steps = (Step(broken), *scheduler.STEPS)
    monkeypatch.setattr(scheduler, "STEPS", steps)
    with pytest.raises(AssertionError, match="nobody thought"):
        auto_schedule_gpu(Schedule(case.kernel), H200)
    monkeypatch.setenv("WEFT_FAULTS", "")
    made = auto_schedule_gpu(Schedule(case.kernel), H200)
    emit_kernel(made.schedule.kernel, H200)
    told = [d for d in made.decisions if d.what == "a step is left out"]
    assert [d.why.split(" (")[0] for d in told] == ["a fault of Weft, AssertionError: nobody thought of this"]


def test_what_surely_fits_is_not_written_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    def unasked(*_: Any, **__: Any) -> str:
        raise AssertionError("it fits")

    monkeypatch.setattr(fits, "emit_kernel", unasked)
    for shapes in ([(512, 512), (512, 512)], [(1, 64), (64, 64)]):
        program = "def f(half(M,K) A, half(K,N) B) -> (half(M,N) C) { C(m,n) +=! A(m,k)*B(k,n) }"
        case = make_case(program, ones(*shapes, dtype="e"), "unchecked")
        made = auto_schedule_gpu(Schedule(case.kernel, numerics="fast"), H200)
        assert all(surely_fits(nest, H200) for nest in top_nests(made.schedule.kernel))


def test_a_way_is_barred_once_many_of_its_plans_are() -> None:
    *first, last = [PointsPlan(Shape(32 * n), 1) for n in range(1, MOST_TRIED + 2)]
    barred = Barred()
    for plan in first:
        assert not barred.has("points", "O", plan)
        barred.bar(Taken("points", "O", plan, frozenset("O")))
        assert barred.has("points", "O", plan)
    assert barred.has("points", "O", last)
    assert not barred.has("points", "O", replace(last, joined=True))
    assert not barred.has("points", "P", last)
