"""Products whose fragments are loaded beyond the end of a piece: the CUDA text, run by the host."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scheduled_for_gpu import H200, make_case, schedule_case

sys.path.append(str(Path(__file__).parents[1] / "target"))  # how CUDA text is run on the host

from cuda_on_host import HostRunner, needs_compiler
from run_compiled import Fenced

import weft
import weft.auto.gpu.contraction as contraction
from weft.auto.gpu.contraction_tiles import Tiles

pytestmark = needs_compiler

PLAIN = "def f(bfloat16(M,K) A, bfloat16(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
TRANSPOSED = "def f(bfloat16(K,M) A, bfloat16(N,K) B) -> (C) { C(m,n) +=! A(k,m) * B(n,k) }"
#: Operands called like what the code itself declares.
NAMED = "def f(bfloat16(M,K) a, bfloat16(K,N) b) -> (lane) { lane(i,j) +=! a(i,k) * b(k,j) }"
AROUND = "def f(bfloat16(G,M,K) A, bfloat16(G,K,N) B) -> (C) { C(m,n) +=! A(g,m,k) * B(g,k,n) }"
AHEAD = "a_at_next"


def run(monkeypatch: pytest.MonkeyPatch, text: str, shapes: list[tuple[int, ...]], depth: int, stages: int) -> str:
    """The CUDA text, after its results were compared with the evaluator's."""
    monkeypatch.setattr(contraction, "MATRIX", (Tiles(32, 32, depth, 16, 16, stages, 1.0, warps=True),))
    rng = np.random.default_rng(0)
    case = make_case(text, [rng.integers(-3, 4, s).astype(weft.numpy_dtype("bfloat16")) for s in shapes], "fast")
    runner = HostRunner(schedule_case(case, "fast", H200).schedule.kernel, H200, fast=True, aligned=16)
    given = [Fenced(a) for a in (*case.inputs, *case.outputs)]
    assert runner(*(a.array for a in given)) == 0
    assert all(a.is_whole() for a in given)
    wide = [np.asarray(x).astype(np.float64) for x in (given[-1].array, case.expected[0])]
    np.testing.assert_allclose(*wide, rtol=2e-2, atol=1e-5)
    return runner.program.source


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("depth", [32, 64])
def test_pieces_follow_without_a_gap(monkeypatch: pytest.MonkeyPatch, depth: int, stages: int) -> None:
    source = run(monkeypatch, PLAIN, [(64, 320), (320, 32)], depth, stages)
    assert AHEAD in source
    assert "async_copy_if<16>(ahead, " in source


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (TRANSPOSED, [(128, 32), (64, 128)]),
        (NAMED, [(32, 128), (128, 64)]),
        (AROUND, [(3, 32, 128), (3, 128, 32)]),
        (PLAIN, [(40, 200), (200, 56)]),
        (PLAIN, [(33, 131), (131, 35)]),
    ],
    ids=["transposed", "named", "around", "uneven", "odd"],
)
def test_any_product(monkeypatch: pytest.MonkeyPatch, text: str, shapes: list[tuple[int, ...]]) -> None:
    assert AHEAD in run(monkeypatch, text, shapes, 32, 3)


def test_an_odd_number_of_steps_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fragments of the next piece would come where those of the last step still are."""
    assert AHEAD not in run(monkeypatch, PLAIN, [(32, 96), (96, 32)], 48, 3)
