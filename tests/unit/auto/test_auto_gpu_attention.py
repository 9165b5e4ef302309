"""Attention from its formulas: two products in one pass, as CUDA text that the host runs; what takes another way."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scheduled_for_gpu import H200, make_case, schedule_case

sys.path.append(str(Path(__file__).parents[1] / "target"))  # how CUDA text is run on the host

from cuda_on_host import HostRunner, needs_compiler
from run_compiled import Fenced

import weft

ATTENTION = """def f(bfloat16(B,H,S,D) Q, bfloat16(B,H,T,D) K, bfloat16(B,H,T,E) V) -> (bfloat16(B,H,S,E) O) {
    P(b,h,s,t) +=! float32(Q(b,h,s,d)) * float32(K(b,h,t,d))
    X(b,h,s,t) = P(b,h,s,t) * 0.125
    M(b,h,s) max=! X(b,h,s,t)
    W(b,h,s,t) = exp(X(b,h,s,t) - M(b,h,s))
    L(b,h,s) +=! W(b,h,s,t)
    U(b,h,s,e) +=! W(b,h,s,t) * float32(V(b,h,t,e))
    O(b,h,s,e) = bfloat16(U(b,h,s,e) / L(b,h,s))
}"""
#: Formulas of scores and positions.
FORMULAS = {
    "plain": "P(b,h,s,t) * 0.125",
    "causal": "s >= t ? P(b,h,s,t) * 0.125 : -1e999",
    "window": "s >= t && s - t < 40 ? P(b,h,s,t) * 0.125 : -1e999",
    "soft cap": "20.0 * tanh(P(b,h,s,t) * 0.00625)",
    "alibi": "P(b,h,s,t) * 0.125 + (t - s) * 0.0625",
}


def with_formula(formula: str) -> str:
    return ATTENTION.replace("= P(b,h,s,t) * 0.125", f"= {formula}")


def run(text: str, shapes: list[tuple[int, ...]], machine: Any = H200) -> str:
    """The CUDA text, after its results were compared with the evaluator's; decisions are in front."""
    rng = np.random.default_rng(0)
    element = weft.numpy_dtype(text[text.index("(") + 1 :].partition("(")[0])
    case = make_case(text, [rng.normal(size=s).astype(element) for s in shapes], "fast")
    made = schedule_case(case, "fast", machine)
    runner = HostRunner(made.schedule.kernel, machine, fast=True, aligned=16)
    given = [Fenced(a) for a in (*case.inputs, *case.outputs)]
    assert runner(*(a.array for a in given)) == 0
    assert all(a.is_whole() for a in given)
    wide = [np.asarray(x).astype(np.float64) for x in (given[-1].array, case.expected[0])]
    np.testing.assert_allclose(*wide, rtol=3e-2, atol=3e-2)
    return runner.program.source


def shapes(s: int, t: int, d: int, e: int) -> list[tuple[int, ...]]:
    return [(1, 2, s, d), (1, 2, t, d), (1, 2, t, e)]


def is_one_pass(source: str) -> bool:
    return "_registers<" in source and source.count("__global__") == 1


@needs_compiler
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_of_scores_and_positions(name: str) -> None:
    source = run(with_formula(FORMULAS[name]), shapes(128, 256, 64, 64))
    assert is_one_pass(source)
    assert "bulk_copy_4" in source
