"""Sums over small windows on a GPU by each thread's own arithmetic: single channels and groups of few."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.target.cuda.lower import compile_kernel
from weft.target.cuda.machine import gpu_for_arch

H200 = gpu_for_arch("sm_90")

CASES = {
    "single channels": ("X(n,h+p-1,w+q-1,c) * V(p,q,c)", "n,h,w,c", "h in 0:H, w in 0:W, X outside zero",
                        {"X": (2, 5, 9, 16), "V": (3, 3, 16)}),
    "stride 2": ("X(n,2*h+p-1,2*w+q-1,c) * V(p,q,c)", "n,h,w,c", "h in 0:3, w in 0:5, X outside zero",
                 {"X": (1, 6, 10, 24), "V": (3, 3, 24)}),
    "taps apart": ("X(n,h+2*p-4,w+2*q-4,c) * V(p,q,c)", "n,h,w,c", "h in 0:H, w in 0:W, X outside zero",
                   {"X": (1, 6, 10, 8), "V": (5, 5, 8)}),
    "inside": ("X(n,h+p,w+q,c) * V(p,q,c)", "n,h,w,c", "h in 0:4, w in 0:7", {"X": (2, 6, 9, 8), "V": (3, 3, 8)}),
    "one dimension": ("X(n,t+p-2,c) * V(p,c)", "n,t,c", "t in 0:T, X outside zero", {"X": (3, 15, 16), "V": (4, 16)}),
    "groups": ("X(n,h+p-1,w+q-1,g,c) * V(g,f,p,q,c)", "n,h,w,g,f", "h in 0:H, w in 0:W, X outside zero",
               {"X": (2, 4, 9, 6, 4), "V": (6, 4, 3, 3, 4)}),
    "groups of other sizes": ("X(n,h+p-1,w+q-1,g,c) * V(g,f,p,q,c)", "n,h,w,g,f", "h in 0:H, w in 0:W, X outside zero",
                              {"X": (1, 4, 6, 5, 2), "V": (5, 8, 3, 3, 2)}),
}  # fmt: skip
AXES = {
    "n,h,w,c": ("N,H,W,C", "P,Q,C"),
    "n,t,c": ("N,T,C", "P,C"),
    "n,h,w,g,f": ("N,H,W,G,C", "G,F,P,Q,C"),
}


@pytest.mark.parametrize(
    ("case", "done"), [*((case, "S(at)") for case in CASES), ("groups of other sizes", "max(S(at), 0) * 2")]
)
def test_results(case: str, done: str) -> None:
    sums, at, where, shapes = CASES[case]
    x, v = AXES[at]
    text = f"""def f(bfloat16({x}) X, bfloat16({v}) V) -> (bfloat16 O) {{
        S({at}) +=! {sums} where {where}
        O({at}) = {done.replace("at", at)}
    }}"""
    s = weft.schedule(weft.define(text), numerics="fast", **shapes)
    decisions = auto_schedule_gpu(s, H200).decisions
    assert any("of each row of a window" in d.why for d in decisions), decisions
    rng = np.random.default_rng(0)
    args = [rng.integers(-2, 3, shape).astype(weft.numpy_dtype("bfloat16")) for shape in shapes.values()]
    wanted = weft.define(text)(*args).astype(np.float32)
    np.testing.assert_array_equal(s.build()(*args).astype(np.float32), wanted)  # the grid, as it runs on the CPU
    program = compile_kernel(s.kernel, H200, fast=True, aligned={b.name: 16 for b in s.kernel.buffers})
    assert len(program.launches) == (2 if "groups" in case else 1)
    lanes = 4 if case == "groups of other sizes" else 8 if "groups" in case else 16
    assert f"load{'' if case == 'inside' else '_if'}<{lanes}>(X_v" in program.source  # all lanes at once


def test_copies_with_zeros_around_ask_what_is_there() -> None:
    """All lanes of a copy load together, but only where there is something."""
    text = """def f(bfloat16(H,C) X, bfloat16(C) B) -> (bfloat16 O) {
        O(h,c) = X(h-1,c) where h in 0:H+2, X outside zero
    }"""
    s = weft.schedule(weft.define(text), numerics="fast", X=(62, 64), B=(64,))
    auto_schedule_gpu(s, H200)
    source = compile_kernel(s.kernel, H200, fast=True, aligned={b.name: 16 for b in s.kernel.buffers}).source
    (load,) = (line for line in source.splitlines() if "(X_v, X" in line)
    assert "load_if<16>" in load
    assert "< 63" in load
