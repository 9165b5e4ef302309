"""Products whose depth is in blocks with factors of their own: the CUDA text, run by the host, and what is refused."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scheduled_for_gpu import H200, make_case, schedule_case

sys.path.append(str(Path(__file__).parents[1] / "target"))  # how CUDA text is run on the host

from cuda_on_host import HostRunner, needs_compiler
from run_compiled import Fenced

import weft
import weft.auto.gpu.block_plan as block_plan
from weft.auto.gpu.contraction_tiles import Tiles
from weft.target.cuda.machine import GpuMachine

pytestmark = needs_compiler

GROUPS = Tiles(64, 64, 128, 16, 64, 3, warps=True, grouped=True)
TWO_GROUPS = Tiles(128, 64, 128, 16, 64, 3, warps=True, grouped=True)
WARPS = Tiles(32, 32, 128, 16, 16, 3, warps=True)

#: A factor of each row, and of each square of 128 by 128, of both operands.
SQUARES = """def f({t}(M,G,B) X, {t}(N,G,B) W, float32(M,G) p, float32(L,G) q) -> ({o}(M,N) C) {{
    P(m,n,g) +=! {s}(X(m,g,k)) * {s}(W(n,g,k))
    S(m,n) +=! {v}P(m,n,g){w} * p(m,g) * q(n/{c},g)
    C(m,n) = {o}(S(m,n)) }}"""
#: Factors of rows of both.
ROWS = SQUARES.replace("float32(L,G) q", "float32(N,G) q").replace("n/{c}", "n")
#: The same as one sum.
FLAT = """def f({t}(M,K) X, {t}(N,K) W, float32(M,G) p, float32(N,G) q) -> (float32(M,N) C) {{
    C(m,n) +=! {s}(X(m,k)) * {s}(W(n,k)) * p(m,k/{c}) * q(n,k/{c}) }}"""
FLOAT8 = {"t": "float8_e4m3fn", "s": "float32", "v": "", "w": "", "o": "bfloat16", "c": 128}
INT8 = {**FLOAT8, "t": "int8", "s": "int32", "v": "float32(", "w": ")"}
BFLOAT16 = {**FLOAT8, "t": "bfloat16", "o": "float32"}


def compare(text: str, shapes: list[tuple[int, ...]], machine: GpuMachine = H200) -> str:
    """The CUDA text, after its results were compared with the evaluator's."""
    rng = np.random.default_rng(0)
    types = re.findall(r"(\w+)\([A-Z,]+\) \w+(?=[,)])", text.partition("->")[0])
    drawn = [rng.integers(-3, 4, s).astype(weft.numpy_dtype(t)) for t, s in zip(types, shapes, strict=True)]
    case = make_case(text, drawn, "fast")
    runner = HostRunner(schedule_case(case, "fast", machine).schedule.kernel, machine, fast=True, aligned=16)
    given = [Fenced(a) for a in (*case.inputs, *case.outputs)]
    assert runner(*(a.array for a in given)) == 0
    assert all(a.is_whole() for a in given)
    wide = [np.asarray(x).astype(np.float64) for x in (given[-1].array, case.expected[0])]
    np.testing.assert_allclose(*wide, rtol=2e-2, atol=1e-5)
    return runner.program.source


def only(monkeypatch: pytest.MonkeyPatch, tiles: Tiles) -> None:
    monkeypatch.setattr(block_plan, "_tiles", lambda draft, found: [replace(tiles, depth=found.product.deep)])


CASES: dict[str, tuple[str, dict[str, Any], tuple[int, int, int, int]]] = {
    "squares": (SQUARES, FLOAT8, (128, 256, 4, 128)),
    "squares, uneven": (SQUARES, FLOAT8, (130, 200, 3, 128)),
    "rows": (ROWS, FLOAT8, (128, 128, 4, 128)),
    "rows, uneven": (ROWS, FLOAT8, (100, 70, 3, 128)),
    "few rows": (ROWS, FLOAT8, (24, 128, 4, 128)),
    "bytes": (ROWS, INT8, (64, 128, 3, 128)),
    "long blocks": (SQUARES, BFLOAT16, (64, 128, 3, 128)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("tiles", [GROUPS, TWO_GROUPS, WARPS], ids=["groups", "two groups", "warps"])
def test_blocks(monkeypatch: pytest.MonkeyPatch, case: str, tiles: Tiles) -> None:
    if case == "few rows" and tiles is TWO_GROUPS:
        pytest.skip("tiles have more rows than there are")
    only(monkeypatch, tiles)
    text, types, (m, n, g, b) = CASES[case]
    scales = (-(-n // 128), g) if text is SQUARES else (n, g)
    source = compare(text.format(**types), [(m, g, b), (n, g, b), (m, g), scales], replace(H200, sms=1))
    assert ("wgmma" if tiles.grouped else "mma") in source
    assert ("bulk_copy" in source) == tiles.grouped


@pytest.mark.parametrize(("m", "n", "k", "c"), [(128, 192, 512, 128), (70, 130, 256, 64), (64, 64, 192, 32)])
def test_one_sum_is_taken_apart(monkeypatch: pytest.MonkeyPatch, m: int, n: int, k: int, c: int) -> None:
    only(monkeypatch, GROUPS if c == 128 else WARPS)
    text = FLAT.format(**{**FLOAT8, "c": c})
    source = compare(text, [(m, k), (n, k), (m, k // c), (n, k // c)], replace(H200, sms=1))
    assert "mma_e4m3" in source
