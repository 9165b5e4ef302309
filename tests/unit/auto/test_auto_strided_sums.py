"""Strided transposed convolutions, on a GPU and on a CPU: only the taps that reach a result are multiplied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
import weft.auto.gpu.contraction as contraction
from weft.auto.gpu.contraction_tiles import Tiles
from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.auto.scheduler import auto_schedule
from weft.operators.schedule import OperatorSchedule
from weft.target.cpu.host import host_machine
from weft.target.cuda.lower import compile_kernel
from weft.target.cuda.machine import gpu_for_arch

H200 = gpu_for_arch("sm_90")
GROUPED = Tiles(64, 64, 64, 16, 64, 3, warps=True, grouped=True)

#: Window, stride, what is left out around, and what is added behind; launches on a GPU.
CASES = {
    "2x2/2": (2, 2, 0, 0, 1),
    "4x4/2": (4, 2, 1, 0, 1),
    "3x3/2": (3, 2, 1, 1, 4),
    "5x5/2": (5, 2, 2, 1, 4),
    "3x3/3": (3, 3, 0, 0, 1),
    "3x3/2 of an odd size": (3, 2, 1, 0, 0),
}


def text_of(window: int, stride: int, pad: int, more: int, size: int, dtype: str, done: str = "S(at)") -> str:
    result = (size - 1) * stride + window - 2 * pad + more
    y, x = (f"{at} + {pad} - {tap}" for at, tap in (("y", "p"), ("x", "q")))
    bias = f", {dtype}(F) B" if "B(" in done else ""
    return f"""def up({dtype}(N,H,W,C) X, {dtype}(C,P,Q,F) V{bias}) -> ({dtype}(N,{result},{result},F) O) {{
        S(n,y,x,f) +=! (({y}) % {stride} == 0 && ({x}) % {stride} == 0) ?
            X(n,({y})/{stride},({x})/{stride},c) * V(c,p,q,f) : 0
            where y in 0:{result}, x in 0:{result}, X outside zero
        O(n,y,x,f) = {done.replace("at", "n,y,x,f")}
    }}"""


def wanted(x: np.ndarray, v: np.ndarray, stride: int, pad: int, more: int) -> np.ndarray:
    n, size, window = x.shape[0], x.shape[1], v.shape[1]
    whole = np.zeros((n, *((size - 1) * stride + window + more,) * 2, v.shape[3]))
    for p in range(window):
        for q in range(window):
            reach = (size - 1) * stride + 1
            whole[:, p : p + reach : stride, q : q + reach : stride] += x.astype(float) @ v[:, p, q].astype(float)
    end = whole.shape[1] - pad
    return whole[:, pad:end, pad:end]


def arguments(shapes: Any, dtype: str) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.integers(-2, 3, shape).astype(weft.numpy_dtype(dtype)) for shape in shapes]


def start(
    case: str, dtype: str, size: int, channels: int, done: str = "S(at)"
) -> tuple[OperatorSchedule, list[Any], np.ndarray]:
    window, stride, pad, more, _ = CASES[case]
    shapes = {"X": (2, size, size, 2 * channels), "V": (2 * channels, window, window, channels)}
    shapes |= {"B": (channels,)} if "B(" in done else {}
    text = text_of(window, stride, pad, more, size, dtype, done)
    args = arguments(shapes.values(), dtype)
    right = wanted(*args[:2], stride, pad, more)
    right = np.maximum(right + args[2].astype(float), 0) if "B(" in done else right
    return weft.schedule(weft.define(text), numerics="fast", **shapes), args, right


@pytest.mark.parametrize("case", CASES)
def test_on_a_gpu(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction, "contraction_tiles", lambda p, m, kinds: [GROUPED])
    s, args, right = start(case, "bfloat16", 8, 64, "max(S(at) + B(f), 0)" if case == "3x3/2" else "S(at)")
    decisions = auto_schedule_gpu(s, H200).decisions
    assert any("a test lets no other pass" in d.why for d in decisions), decisions
    got = s.build()(*args).astype(float).reshape(right.shape)  # the grid, as it runs on the CPU
    np.testing.assert_array_equal(got, right.astype(weft.numpy_dtype("bfloat16")).astype(float))
    launches = compile_kernel(s.kernel, H200, fast=True, aligned={b.name: 16 for b in s.kernel.buffers}).launches
    assert sum(bool(launch.maps) for launch in launches) == CASES[case][-1]  # by boxes that the copy engine fetches


@pytest.mark.parametrize("case", CASES)
def test_on_a_cpu(case: str) -> None:
    s, args, right = start(case, "float32", 5, 8)
    decisions = auto_schedule(s, host_machine(), 1).decisions
    assert any("a test lets no other pass" in d.why for d in decisions), decisions
    np.testing.assert_array_equal(s.build()(*args).reshape(right.shape), right)


def test_a_test_of_one_factor_stays() -> None:
    """Zero times what the other factor is need not be zero."""
    text = """def f(float(L) X, float(P) V) -> (float(8) O) {
        O(t) +=! ((t - p) % 2 == 0 ? X((t - p)/2) : 0) * V(p) where t in 0:8, X outside zero
    }"""
    s = weft.schedule(weft.define(text), numerics="fast", X=(4,), V=(2,))
    assert not any("lets no other pass" in d.why for d in auto_schedule(s, host_machine(), 1).decisions)
    x, v = np.ones(4, np.float32), np.array([1, np.inf], np.float32)
    assert np.isnan(s.build()(x, v)).any()
