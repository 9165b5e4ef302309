"""Sums over short axes as products of matrices that are never made: first layers, few channels, gradients."""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
import weft.auto.gpu.contraction as contraction
from weft.auto.gpu.contraction_tiles import Tiles
from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.target.cuda.lower import compile_kernel
from weft.target.cuda.machine import gpu_for_arch

H200 = gpu_for_arch("sm_90")
WARPS = Tiles(32, 32, 32, 16, 16, 3, warps=True)

#: Sums, places of results, further conditions, shapes; launches, and bytes of the image that are copied at once.
CASES = {
    "first layer": ("X(n,2*h+p-3,2*w+q-3,c) * V(f,p,q,c)", "n,h,w,f", "h in 0:7, w in 0:8, X outside zero",
                    {"X": (1, 14, 16, 3), "V": (32, 7, 7, 3)}, 3, 8),
    "channels first": ("X(n,c,2*h+p-1,2*w+q-1) * V(f,c,p,q)", "n,f,h,w", "h in 0:4, w in 0:8, X outside zero",
                       {"X": (2, 3, 8, 16), "V": (32, 3, 3, 3)}, 3, 8),
    "eight channels": ("X(n,h+p-1,w+q-1,c) * V(f,p,q,c)", "n,h,w,f", "h in 0:H, w in 0:W, X outside zero",
                       {"X": (1, 5, 9, 8), "V": (32, 3, 3, 8)}, 1, 16),
    "twelve channels, inside": ("X(n,h+p,w+2*q,c) * V(f,p,q,c)", "n,h,w,f", "h in 0:4, w in 0:9",
                                {"X": (1, 6, 13, 12), "V": (32, 3, 3, 12)}, 3, 16),
    "one dimension": ("X(n,t+p-2,c) * V(f,p,c)", "n,t,f", "t in 0:T, X outside zero",
                      {"X": (2, 40, 4), "V": (32, 9, 4)}, 1, 8),
    "gradient of weights": ("X(n,h,w,f) * V(n,h+p-1,w+q-1,c)", "f,p,q,c", "p in 0:3, q in 0:3, V outside zero",
                            {"X": (2, 5, 4, 32), "V": (2, 5, 4, 32)}, 1, 16),
    "gradient, stride 2": ("X(n,h,w,f) * V(n,2*h+p-1,2*w+q-1,c)", "f,p,q,c", "p in 0:3, q in 0:3, V outside zero",
                           {"X": (2, 4, 4, 32), "V": (2, 8, 8, 40)}, 1, 16),
}  # fmt: skip


def axes(text: str) -> str:
    """Names of sizes for what is read."""
    plain = [part.strip(",") for part in text[text.index("(") + 1 : text.index(")")].split(",")]
    named = [next(x for x in part if x.isalpha()) for part in plain]
    further = {"h": "A", "w": "D"}
    return ",".join(further.get(x, x).upper() if "2*" in part else x.upper() for x, part in zip(named, plain))


@pytest.mark.parametrize("case", CASES)
def test_results(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction, "contraction_tiles", lambda p, m, kinds: [WARPS])
    sums, at, where, shapes, launches, wide = CASES[case]
    first, second = sums.split(" * ")
    text = f"""def f(bfloat16({axes(first)}) X, bfloat16({axes(second)}) V) -> (bfloat16 O) {{
        S({at}) +=! {sums} where {where}
        O({at}) = max(S({at}), 0)
    }}"""
    s = weft.schedule(weft.define(text), numerics="fast", **shapes)
    decisions = auto_schedule_gpu(s, H200).decisions
    assert any("of a matrix that is never made" in d.what for d in decisions), decisions
    assert any(d.what.endswith("sums a warp") for d in decisions), decisions
    rng = np.random.default_rng(0)
    args = [rng.integers(-2, 3, shape).astype(weft.numpy_dtype("bfloat16")) for shape in shapes.values()]
    wanted = weft.define(text)(*args).astype(np.float32)
    np.testing.assert_array_equal(s.build()(*args).astype(np.float32), wanted)  # the grid, as it runs on the CPU
    program = compile_kernel(s.kernel, H200, fast=True, aligned={b.name: 16 for b in s.kernel.buffers})
    assert len(program.launches) == launches
    assert re.search(rf"(async_copy|load)\w*<{wide}>\([^;]*\b[XV](_around|_pack)? \+", program.source)


def test_deep_channels_stay_as_they_are() -> None:
    text = """def f(bfloat16(N,H,W,C) X, bfloat16(F,P,Q,C) V) -> (bfloat16 O) {
        S(n,h,w,f) +=! X(n,h+p-1,w+q-1,c) * V(f,p,q,c) where h in 0:H, w in 0:W, X outside zero
        O(n,h,w,f) = S(n,h,w,f)
    }"""
    s = weft.schedule(weft.define(text), numerics="fast", X=(2, 8, 8, 32), V=(32, 3, 3, 32))
    assert not any("never made" in d.what for d in auto_schedule_gpu(s, H200).decisions)
