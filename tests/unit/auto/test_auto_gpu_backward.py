"""Products of formulas of products: attention's backward pass from its formulas, each axis of sums in one launch."""

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
from weft.ir.printer import print_kernel
from weft.target.cuda.machine import gpu_for_arch
from weft.tensor.program import TensorProgram

BACKWARD = """def f(bfloat16(B,H,S,D) Q, bfloat16(B,H,T,D) K, bfloat16(B,H,T,E) V, bfloat16(B,H,S,E) G,
      float32(B,H,S) L, float32(B,H,S) R) -> (bfloat16(B,H,S,D) dQ, bfloat16(B,H,T,D) dK, bfloat16(B,H,T,E) dV) {
    X(b,h,s,t) +=! float32(Q(b,h,s,d)) * float32(K(b,h,t,d))
    P(b,h,s,t) = {weight}
    Y(b,h,s,t) +=! float32(G(b,h,s,e)) * float32(V(b,h,t,e))
    Z(b,h,s,t) = P(b,h,s,t) * (Y(b,h,s,t) - R(b,h,s))
    UV(b,h,t,e) +=! P(b,h,s,t) * float32(G(b,h,s,e))
    UK(b,h,t,d) +=! Z(b,h,s,t) * float32(Q(b,h,s,d))
    UQ(b,h,s,d) +=! Z(b,h,s,t) * float32(K(b,h,t,d))
    dV(b,h,t,e) = bfloat16(UV(b,h,t,e))
    dK(b,h,t,d) = bfloat16(UK(b,h,t,d) * 0.125)
    dQ(b,h,s,d) = bfloat16(UQ(b,h,s,d) * 0.125)
}"""
#: Keys and values that heads share: their gradients are summed over those, too. Sums are results as they are.
SHARED = """def f(bfloat16(B,S,H,D) Q, bfloat16(B,T,N,D) K, bfloat16(B,T,N,E) V, bfloat16(B,S,H,E) G, float32(B,H,S) L,
      float32(B,H,S) R) -> (float32(B,S,H,D) dQ, float32(B,T,N,D) dK, bfloat16(B,T,N,E) dV) {
    X(b,h,s,t) +=! float32(Q(b,s,h,d)) * float32(K(b,t,{group},d))
    P(b,h,s,t) = s >= t ? exp(X(b,h,s,t) * 0.125 - L(b,h,s)) : 0.0
    Y(b,h,s,t) +=! float32(G(b,s,h,e)) * float32(V(b,t,{group},e))
    Z(b,h,s,t) = P(b,h,s,t) * (Y(b,h,s,t) - R(b,h,s))
    UV(b,t,n,e) +=! P(b,{head},s,t) * float32(G(b,s,{head},e)) where r in 0:2
    dK(b,t,n,d) +=! Z(b,{head},s,t) * float32(Q(b,s,{head},d)) where r in 0:2
    dQ(b,s,h,d) +=! Z(b,h,s,t) * float32(K(b,t,{group},d))
    dV(b,t,n,e) = bfloat16(UV(b,t,n,e))
}"""
WEIGHT = "exp(X(b,h,s,t) * 0.125 - L(b,h,s))"
PLAIN, CAUSAL = BACKWARD.replace("{weight}", WEIGHT), BACKWARD.replace("{weight}", f"s >= t ? {WEIGHT} : 0.0")
#: No batches, sums along one axis that share scores with sums along the other, and a formula written out.
ALONE = """def f(float16(M,K) A, float16(N,K) B, float16(N,C) U, float16(M,C) W)
      -> (float16(M,C) Rows, float16(N,C) Columns) {
    X(m,n) +=! float32(A(m,k)) * float32(B(n,k))
    T(m,n) = X(m,n) * 0.25
    P(m,n) = max(T(m,n), 0.0)
    R(m,c) +=! P(m,n) * float32(U(n,c))
    S(n,c) +=! P(m,n) * float32(W(m,c))
    Rows(m,c) = float16(R(m,c))
    Columns(n,c) = float16(S(n,c) + 1.0)
}"""


def shapes(s: int, t: int, d: int, e: int, heads: int = 2) -> list[tuple[int, ...]]:
    return [(1, heads, n, w) for n, w in ((s, d), (t, d), (t, e), (s, e))] + [(1, heads, s)] * 2


def arguments(sizes: list[tuple[int, ...]], element: str = "bfloat16") -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    types = [weft.numpy_dtype(element if n < 4 else "float32") for n in range(len(sizes))]
    return [(rng.normal(size=s) + (2.5 if len(s) == 3 else 0)).astype(t) for s, t in zip(sizes, types)]


def run_on_host(program: TensorProgram | str, given: list[Any]) -> tuple[str, str]:
    """The program and its CUDA text, after its results were compared with the evaluator's."""
    case = make_case(program, given, "fast")
    made = schedule_case(case, "fast", SMALL).schedule.kernel
    runner = HostRunner(made, SMALL, fast=True, aligned=16)
    fenced = [Fenced(a) for a in (*case.inputs, *case.outputs)]
    assert runner(*(a.array for a in fenced)) == 0
    assert all(a.is_whole() for a in fenced)
    for got, want in zip(fenced[len(case.inputs) :], case.expected, strict=True):
        wide = [np.asarray(x).astype(np.float64) for x in (got.array, want)]
        assert np.linalg.norm(wide[0] - wide[1]) < 6e-3 * np.linalg.norm(wide[1])
    return print_kernel(made), runner.program.source


def run(text: str, sizes: list[tuple[int, ...]], element: str = "bfloat16") -> tuple[str, str]:
    """The same of a backward pass: two launches, their scores in registers."""
    made, source = run_on_host(text, arguments(sizes, element))
    assert source.count("__global__") == 2
    assert "_registers(float* c" in source
    assert "bulk_copy_" in source
    return made, source


@needs_compiler
def test_masked_tiles_are_left_out_and_products_overlap() -> None:
    """Tiles that are not full, of which a mask leaves nothing of many; products run while formulas are computed."""
    text, source = run(CAUSAL, shapes(200, 200, 64, 80))
    assert "in t_again_o * 2:4 ahead" in text
    assert "in 0:s_o + 1 ahead" in text
    waits = [line.strip() for line in source.splitlines() if line.strip().startswith("wgmma_wait<")]
    assert waits == [f"wgmma_wait<{n}>();" for n in (2, 1, 0, 0, 0)]
    # The same text in every process, or each would build it anew: operands in registers are in the program's order.
    assert source.index("bfloat16 Z_again_pack[") < source.index("bfloat16 P_again_pack[")


@needs_compiler
@pytest.mark.parametrize(("heads", "group", "head"), [(4, "h/2", "n*2+r"), (2, "h/2", "n*2+r")], ids=["groups", "one"])
def test_heads_that_share_keys(heads: int, group: str, head: str) -> None:
    """Each head's gradients in the one launch, those of all that share them after it."""
    sizes = [(1, n, h, 64) for n, h in ((130, heads), (128, heads // 2), (128, heads // 2), (130, heads))]
    _, source = run_on_host(
        SHARED.replace("{group}", group).replace("{head}", head), arguments([*sizes, *[(1, heads, 130)] * 2])
    )
    assert source.count("_registers(float* c") == 1
    assert source.count("__global__") == 4


@needs_compiler
def test_two_axes_of_one_product() -> None:
    run(ALONE, [(130, 64), (128, 64), (128, 64), (130, 64)], "float16")


@pytest.mark.parametrize(
    ("text", "machine"),
    [
        (PLAIN, gpu_for_arch("sm_80")),
        (PLAIN.replace("UV(b,h,t,e) +=! P(b,h,s,t)", "UV(b,h,t,e) +=! P(b,h,t,s)"), H200),
        (PLAIN.replace("UK(b,h,t,d) +=! Z(b,h,s,t)", "UK(b,h,t,d) +=! Z(b,h,s,t) * P(b,h,s,t)"), H200),
    ],
    ids=["an older machine", "other weights", "more than weights"],
)
def test_others_take_another_way(text: str, machine: object) -> None:
    case = make_case(text, [np.zeros_like(a) for a in arguments(shapes(128, 128, 64, 64))], "unchecked")
    assert "X_again" not in print_kernel(schedule_case(case, "fast", machine).schedule.kernel)
