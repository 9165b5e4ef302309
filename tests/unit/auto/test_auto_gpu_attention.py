"""Attention from its formulas: two products in one pass, as CUDA text that the host runs; what takes another way."""

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
from weft.target.cuda.lower import compile_kernel
from weft.target.cuda.machine import gpu_for_arch

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
    for got, want in zip(given[len(case.inputs) :], case.expected, strict=True):
        wide = [np.asarray(x).astype(np.float64) for x in (got.array, want)]
        np.testing.assert_allclose(*wide, rtol=3e-2, atol=3e-2)
    return runner.program.source


def shapes(s: int, t: int, d: int, e: int) -> list[tuple[int, ...]]:
    return [(1, 2, s, d), (1, 2, t, d), (1, 2, t, e)]


def is_one_pass(source: str) -> bool:
    """One launch, in which weights come from registers (other ``_registers`` are those that roles hand over)."""
    return "_registers(float* c" in source and source.count("__global__") == 1


#: Keys and values for groups of heads, rows of other widths, heads within rows, no batches and parts written out.
GROUPED = ATTENTION.replace("bfloat16(B,H,T,", "bfloat16(B,G,T,").replace("(b,h,t,", "(b,h/2,t,")
WITHIN_ROWS = (
    ATTENTION.replace("B,H,S", "B,S,H").replace("B,H,T", "B,T,H").replace("Q(b,h,s,d)", "Q(b,s,h,d)")
    .replace("K(b,h,t,d)", "K(b,t,h,d)").replace("V(b,h,t,e)", "V(b,t,h,e)").replace("O(b,h,s,e)", "O(b,s,h,e)")
)  # fmt: skip
ALONE = """def f(float16(S,D) Q, float16(T,D) K, float16(T,E) V) -> (float16(S,E) O) {
    P(s,t) +=! float32(Q(s,d)) * float32(K(t,d))
    M(s) max=! P(s,t) * 0.125
    L(s) +=! exp(P(s,t) * 0.125 - M(s))
    U(s,e) +=! exp(P(s,t) * 0.125 - M(s)) * float32(V(t,e))
    O(s,e) = float16(U(s,e) / L(s))
}"""
BUILT: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    "heads within rows, a soft cap": (
        WITHIN_ROWS.replace("= P(b,h,s,t) * 0.125", f"= {FORMULAS['soft cap']}"),
        [(2, 256, 4, 128)] * 3,
    ),
    "alone": (ALONE, [(256, 64), (512, 64), (512, 64)]),
    "rows of 256": (ATTENTION, shapes(256, 256, 256, 256)),
    "fewer keys than a large tile": (ATTENTION, shapes(96, 96, 96, 128)),
}


#: A narrow bias and a narrow mask, which sums of weights read as well as those of values.
BIASED = with_formula(f"{FORMULAS['plain']} + float32(Y(h,s,t)) + float32(Z(b/2,t))").replace(
    "(B,H,T,E) V)", "(B,H,T,E) V, bfloat16(H,S,T) Y, bfloat16(C,T) Z)"
)


#: Weights that are normalized before they are multiplied: divided; multiplied and rounded; the sums are the result.
NORMALIZED = ATTENTION.replace("U(b,h,s,e) / L(b,h,s)", "U(b,h,s,e)").replace(
    "+=! W(b,h,s,t) *", "+=! W(b,h,s,t) / L(b,h,s) *"
)
ROUNDED = ATTENTION.replace("U(b,h,s,e) / L(b,h,s)", "U(b,h,s,e)").replace(
    "U(b,h,s,e) +=! W(b,h,s,t) *",
    "R(b,h,s) = 1.0 / L(b,h,s)\n A(b,h,s,t) = bfloat16(W(b,h,s,t) * R(b,h,s))\n U(b,h,s,e) +=! float32(A(b,h,s,t)) *",
)
SUMMED = (
    "\n".join(NORMALIZED.replace("bfloat16(B,H,S,E)", "float32(B,H,S,E)").splitlines()[:-2]).replace("U(", "O(") + "}"
)


#: Results of each row beside, which the backward pass needs.
WITH_LOGS = (
    with_formula(FORMULAS["causal"])
    .replace("E) O)", "E) O, float32(B,H,S) Z)")
    .replace("    U(b", "    Z(b,h,s) = M(b,h,s) + log(L(b,h,s))\n    U(b")
)


@needs_compiler
@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (WITH_LOGS, shapes(150, 150, 64, 64)),
        (ROUNDED, shapes(130, 170, 64, 64)),
        (with_formula("s + 43 >= t ? P(b,h,s,t) * 0.125 : -1e999"), shapes(38, 81, 128, 128)),
        (SUMMED, shapes(70, 130, 64, 64)),
        (with_formula(FORMULAS["window"]), shapes(200, 290, 80, 72)),
        (GROUPED.replace("= P(b,h,s,t) * 0.125", f"= {FORMULAS['alibi']}"), [(1, 4, 130, 64), *[(1, 2, 200, 64)] * 2]),
        (BIASED, [*shapes(140, 140, 64, 64), (2, 140, 140), (1, 140)]),
    ],
    ids=[
        "logarithms of totals",
        "rounded",
        "rows of one warp group",
        "sums as results",
        "window, of other widths",
        "groups of heads",
        "a narrow bias",
    ],
)
def test_right_results(text: str, sizes: list[tuple[int, ...]]) -> None:
    """Lengths that are no multiple of a tile, in blocks that go from tile to tile with more or fewer keys each."""
    source = run(text, sizes, SMALL)
    assert is_one_pass(source)
    assert "bulk_copy_" in source
    assert "&Q_map" in source


@pytest.mark.parametrize("name", BUILT)
def test_one_pass_that_builds(name: str) -> None:
    text, sizes = BUILT[name]
    case = make_case(text, [np.zeros(s, weft.numpy_dtype("float16" if text is ALONE else "bfloat16")) for s in sizes],
                     "unchecked")  # fmt: skip
    made = schedule_case(case, "fast", H200).schedule.kernel
    program = compile_kernel(made, H200, fast=True, aligned={b.name: 16 for b in made.buffers})
    assert is_one_pass(program.source)


def test_masked_tiles_are_left_out() -> None:
    case = make_case(with_formula(FORMULAS["window"]), [np.zeros(s, weft.numpy_dtype("bfloat16")) for s in
                     shapes(1024, 1024, 64, 64)], "unchecked")  # fmt: skip
    text = print_kernel(schedule_case(case, "fast", H200).schedule.kernel)
    assert "for t_o in max(s_o - 1, 0):max(s_o + 1, max(s_o - 1, 0) + 1) ahead" in text


@needs_compiler
def test_few_rows_in_parts_of_the_keys() -> None:
    """Heads of a group are rows of one tile; parts are found by blocks of their own, and brought together after it."""
    text = GROUPED.replace("h/2", "h/4").replace("= P(b,h,s,t) * 0.125", "= t < 700 ? P(b,h,s,t) * 0.125 : -1e999")
    source = run(text, [(1, 8, 1, 64), *[(1, 2, 1024, 64)] * 2])
    assert "_registers(float* c" in source
    assert source.count("__global__") == 2


TWICE = ATTENTION.replace("    O(b", "    U2(b,h,s,d) +=! W(b,h,s,t) * float32(K(b,h,t,d))\n    O(b").replace(
    "U(b,h,s,e) / L", "(U(b,h,s,e) + U2(b,h,s,e)) / L"
)


@pytest.mark.parametrize(
    ("text", "machine", "why"),
    [
        (ATTENTION, gpu_for_arch("sm_80"), None),
        (ATTENTION.replace("bfloat16", "float32"), H200, None),
        (ATTENTION.replace("+=! W(b,h,s,t)\n", "+=! W(b,h,s,t) * W(b,h,s,t) + 1.0\n"), H200, "elsewhere than one"),
        (TWICE, H200, "not those of weights and of weighted values"),
        (
            ATTENTION.replace(
                "U(b,h,s,e) +=! W(b,h,s,t) * float32(V(b,h,t,e))", "U(b,h,s,e) +=! W(b,h,t,s) * float32(V(b,h,t,e))"
            ),
            H200,
            "do not go through the same elements",
        ),
        (ATTENTION.replace("float32(V(b,h,t,e))", "float32(V(b,h,t,e)) * float32(K(b,h,t,r))"), H200, "same elements"),
        (ATTENTION.replace("K(b,h,t,d)", "Q(b,h,t,d)"), H200, "reads `Q` in more than one way"),
        (ATTENTION.replace("max=! X(b,h,s,t)", "max=! X(b,h,s,s) + Q(b,h,s,r)"), H200, ""),
    ],
    ids=[
        "an older machine",
        "wide floats",
        "sums of something else",
        "two products of weights",
        "other weights",
        "sums along two axes",
        "queries that are keys",
        "an extremum along another axis",
    ],
)
def test_others_take_another_way(text: str, machine: Any, why: str | None) -> None:
    element = weft.numpy_dtype(text[text.index("(") + 1 :].partition("(")[0])
    case = make_case(text, [np.zeros(s, element) for s in shapes(128, 128, 64, 64)], "unchecked")
    made = schedule_case(case, "fast", machine)
    told = [d.why for d in made.decisions if "in one pass" in d.what]
    assert all("online" not in str(s) for s in str(made.schedule.trace).splitlines())
    assert (why is None) == (not told)
    assert why is None or why in told[0]


def test_values_of_one_column_go_another_way() -> None:
    """Weights times one column are no matrix product, and there is no loop over columns to cut."""
    assert not is_one_pass(run(ALONE, [(33, 8), (128, 8), (128, 1)]))
