"""Products whose depth is a single piece: tiles of a side are fetched ahead; convolutions of one pixel, too."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.auto.gpu.contraction as contraction
from weft.auto.gpu.contraction_tiles import Tiles
from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.operators.schedule import OperatorSchedule
from weft.target.cuda.lower import emit_kernel
from weft.target.cuda.machine import gpu_for_arch

H200 = gpu_for_arch("sm_90")
GROUPED = Tiles(64, 64, 64, 16, 64, 3, warps=True, grouped=True)
RESIDUAL = """def f(bfloat16(M,K) X, bfloat16(N,K) V, bfloat16(M,N) R) -> (bfloat16 O) {
    S(m,n) +=! X(m,k) * V(n,k)
    O(m,n) = max(S(m,n) + R(m,n), 0)
}"""
BATCHED = """def f(bfloat16(B,M,K) X, bfloat16(B,K,N) V) -> (bfloat16 O) {
    S(b,m,n) +=! X(b,m,k) * V(b,k,n)
    O(b,m,n) = S(b,m,n)
}"""
LAST = """def f(bfloat16(N,H,W,C) X, bfloat16(F,P,Q,C) V, bfloat16(F) B) -> (bfloat16 O) {
    S(n,h,w,f) +=! X(n,h+p,w+q,c) * V(f,p,q,c)
    O(n,h,w,f) = max(S(n,h,w,f) + B(f), 0)
}"""
FIRST = """def f(bfloat16(N,C,H,W) X, bfloat16(F,C,P,Q) V) -> (bfloat16 O) {
    S(n,f,h,w) +=! X(n,c,h+p,w+q) * V(f,c,p,q)
    O(n,f,h,w) = S(n,f,h,w)
}"""
SUMS = """def f(bfloat16(N,H,W,C) X, bfloat16(F,P,Q,C) V) -> (float32 S) {
    S(n,h,w,f) +=! float32(X(n,h+p,w+q,c)) * float32(V(f,p,q,c))
}"""
CASES = {
    "uneven": (RESIDUAL, {"X": (370, 64), "V": (72, 64), "R": (370, 72)}),
    "batched": (BATCHED, {"X": (3, 128, 64), "V": (3, 64, 128)}),
    "pixels, uneven": (LAST, {"X": (2, 15, 11, 64), "V": (72, 1, 1, 64), "B": (72,)}),
    "pixels, sums alone": (SUMS, {"X": (2, 16, 12, 64), "V": (64, 1, 1, 64)}),
    "planes": (FIRST, {"X": (3, 64, 16, 16), "V": (64, 64, 1, 1)}),
    "planes of several tiles": (FIRST, {"X": (2, 64, 14, 20), "V": (136, 64, 1, 1)}),
}


def scheduled(case: str, monkeypatch: pytest.MonkeyPatch) -> tuple[OperatorSchedule, str, list[np.ndarray]]:
    monkeypatch.setattr(contraction, "contraction_tiles", lambda p, m, kinds: [GROUPED])
    text, shapes = CASES[case]
    s = weft.schedule(weft.define(text), numerics="fast", **shapes)
    auto_schedule_gpu(s, H200)
    rng = np.random.default_rng(0)
    args = [rng.integers(-2, 3, shape).astype(weft.numpy_dtype("bfloat16")) for shape in shapes.values()]
    return s, text, args


@pytest.mark.parametrize("case", CASES)
def test_tiles_are_fetched_ahead(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ring of a loop through tiles, which the engine is ahead in; blocks of threads go through it as it stands."""
    s, text, args = scheduled(case, monkeypatch)
    wanted = weft.define(text)(*args).astype(np.float32)
    np.testing.assert_array_equal(s.build()(*args).astype(np.float32), wanted)  # the grid, as it runs on the CPU
    source = emit_kernel(s.kernel, H200, fast=True, aligned={b.name: 16 for b in s.kernel.buffers})
    assert "bulk_copy" in source
    turns = 2 if case == "batched" else 3  # no more than there are tiles
    assert f"start_turns<{turns}, 4>" in source


def test_every_second_pixel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes with gaps are fetched as those of any convolution."""
    text = LAST.replace("h+p,w+q", "2*h+p,2*w+q").replace("* V(f,p,q,c)", "* V(f,p,q,c) where h in 0:16, w in 0:8")
    monkeypatch.setitem(CASES, "stride", (text, {"X": (2, 31, 16, 64), "V": (64, 1, 1, 64), "B": (64,)}))
    s, text, args = scheduled("stride", monkeypatch)
    np.testing.assert_array_equal(s.build()(*args).astype(np.float32), weft.define(text)(*args).astype(np.float32))


def test_tiles_whose_results_go_to_memory_are_written_out_by_twos() -> None:
    """Each is started before the one before it is waited for; four of them take twice as long to compile."""
    s = weft.schedule(weft.define(RESIDUAL), numerics="fast", X=(100352, 64), V=(256, 64), R=(100352, 256))
    auto_schedule_gpu(s, H200)
    source = emit_kernel(s.kernel, H200, fast=True, aligned={b.name: 16 for b in s.kernel.buffers})
    assert source.count("wgmma_start();") == 2
