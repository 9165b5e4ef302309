"""Two products one after the other in one launch where that is expected to be sooner: CUDA text that the host runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scheduled_for_gpu import H200, SMALL, make_case, schedule_case

sys.path.append(str(Path(__file__).parents[1] / "target"))  # how CUDA text is run on the host

from cuda_on_host import HostRunner, needs_compiler
from run_compiled import Fenced

import weft
import weft.auto.gpu.chained_products as chained_products
from weft.target.cuda.machine import gpu_for_arch

LAYERS = """def f(bfloat16(M,K) X, bfloat16(H,K) W, bfloat16(H) B, bfloat16(N,H) V, bfloat16(N) D)
    -> (bfloat16(M,N) O) {
    P(m,h) +=! X(m,k) * W(h,k)
    A(m,h) = max(P(m,h) + B(h), 0)
    Q(m,n) +=! A(m,h) * V(n,h)
    O(m,n) = Q(m,n) + D(n)
}"""
#: The second matrix the other way round, and float32 between; batches before rows, and a matrix that gates.
WIDE = (
    LAYERS.replace("bfloat16(N,H) V", "bfloat16(H,N) V").replace("A(m,h) * V(n,h)", "A(m,h) * float32(V(h,n))")
    .replace("X(m,k) * W(h,k)", "float32(X(m,k)) * float32(W(h,k))").replace("B(h), 0", "float32(B(h)), 0.0")
    .replace("= Q(m,n) + D(n)", "= bfloat16(Q(m,n) + float32(D(n)))")
)  # fmt: skip
GATED = """def f(bfloat16(B,S,K) X, bfloat16(H,K) W, bfloat16(B,S,H) G, bfloat16(N,H) V) -> (bfloat16(B,S,N) O) {
    P(b,s,h) +=! X(b,s,k) * W(h,k)
    A(b,s,h) = P(b,s,h) * G(b,s,h)
    Q(b,s,n) +=! A(b,s,h) * V(n,h)
    O(b,s,n) = 0.5 * Q(b,s,n)
}"""


def shapes(m: int, k: int, h: int, n: int) -> list[tuple[int, ...]]:
    return [(m, k), (h, k), (h,), (n, h), (n,)]


@needs_compiler
@pytest.mark.parametrize(
    ("text", "sizes", "by_engine"),
    [
        (LAYERS, shapes(1000, 80, 128, 64), True),
        (WIDE, [(300, 64), (128, 64), (128,), (128, 128), (128,)], True),
        (GATED, [(2, 200, 64), (64, 64), (2, 200, 64), (64, 64)], False),
    ],
    ids=["uneven", "wide, turned", "batches, gated"],
)
def test_right_results(
    monkeypatch: pytest.MonkeyPatch, text: str, sizes: list[tuple[int, ...]], by_engine: bool
) -> None:
    monkeypatch.setattr(chained_products, "_apart", lambda *_: 1.0)  # whatever the model expects
    rng = np.random.default_rng(0)
    case = make_case(text, [rng.normal(size=s).astype(weft.numpy_dtype("bfloat16")) for s in sizes], "fast")
    runner = HostRunner(schedule_case(case, "fast", SMALL).schedule.kernel, SMALL, fast=True, aligned=16)
    given = [Fenced(a) for a in (*case.inputs, *case.outputs)]
    assert runner(*(a.array for a in given)) == 0
    assert all(a.is_whole() for a in given)
    got, want = (np.asarray(x).astype(np.float64) for x in (given[-1].array, case.expected[0]))
    assert np.linalg.norm(got - want) < 6e-3 * np.linalg.norm(want)
    source = runner.program.source
    assert source.count("__global__") == 1
    assert "_registers(float* c" in source
    assert ("bulk_copy_" in source) == by_engine


def decisions(text: str, sizes: list[tuple[int, ...]], machine: Any = H200, numerics: str = "fast") -> list[str]:
    case = make_case(text, [np.zeros(s, weft.numpy_dtype("bfloat16")) for s in sizes], "unchecked")
    return [f"{d.what}: {d.why}" for d in schedule_case(case, numerics, machine).decisions]


def is_together(told: list[str]) -> bool:
    return any("which stay in registers" in what for what in told)


@pytest.mark.parametrize("size", [(1 << 18, 128, 256, 128), (65536, 64, 128, 64)], ids=str)
def test_taken_where_it_is_sooner(size: tuple[int, int, int, int]) -> None:
    assert is_together(decisions(LAYERS, shapes(*size)))


#: What is between is a result too; it is used twice, or elsewhere; the first product is used again.
RESULT = LAYERS.replace("-> (bfloat16(M,N) O)", "-> (bfloat16(M,N) O, bfloat16(M,H) A)")
TWICE = LAYERS.replace("D(n)\n}", "D(n) + A(m,n)\n}")
ELSEWHERE = LAYERS.replace("A(m,h) = max(P(m,h)", "A(m,h) = max(P(m,(h+1)%128)")
AGAIN = LAYERS.replace("D(n)\n}", "D(n) + P(m,n)\n}")


@pytest.mark.parametrize(
    ("text", "size", "machine", "numerics"),
    [
        (LAYERS, (4096, 768, 3072, 768), H200, "fast"),
        (LAYERS, (65536, 64, 96, 64), H200, "fast"),
        (LAYERS, (64, 64, 128, 64), H200, "fast"),
        (LAYERS, (65536, 64, 128, 64), H200, "strict"),
        (LAYERS, (65536, 64, 128, 64), gpu_for_arch("sm_80"), "fast"),
        *((text, (65536, 64, 128, 64), H200, "fast") for text in (RESULT, TWICE, ELSEWHERE, AGAIN)),
    ],
    ids=["wide", "no whole tiles", "few rows", "strict", "before", "a result", "twice", "elsewhere", "again"],
)
def test_others_take_another_way(text: str, size: tuple[int, int, int, int], machine: Any, numerics: str) -> None:
    assert not is_together(decisions(text, shapes(*size), machine, numerics))
