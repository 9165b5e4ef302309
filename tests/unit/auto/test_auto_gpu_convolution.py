"""Convolutions on a GPU as implicit products: tiles are boxes of pixels, right for any window, stride, spacing and
padding, and fetched by the copy engine where there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import weft
import weft.auto.gpu.contraction as contraction
from weft.auto.gpu.box_sizes import with_box
from weft.auto.gpu.contraction_product import read_product
from weft.auto.gpu.contraction_tiles import ContractionPlan, Tiles
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.auto.plan import Decision
from weft.operators.schedule import OperatorSchedule
from weft.target.cuda.lower import compile_kernel, emit_kernel
from weft.target.cuda.machine import gpu_for_arch

H200 = gpu_for_arch("sm_90")
GROUPED = Tiles(64, 64, 64, 16, 64, 3, warps=True, grouped=True)
WARPS = Tiles(32, 32, 32, 16, 16, 3, warps=True)

CASES: dict[str, tuple[str, str, dict[str, tuple[int, ...]]]] = {
    "3x3": ("X(n,h+p-1,w+q-1,c) * V(f,p,q,c) where h in 0:H, w in 0:W, X outside zero", "n,h,w,f",
            {"X": (3, 8, 8, 64), "V": (64, 3, 3, 64)}),
    "uneven": ("X(n,h+p-1,w+q-1,c) * V(f,p,q,c) where h in 0:H, w in 0:W, X outside zero", "n,h,w,f",
               {"X": (2, 7, 9, 72), "V": (72, 3, 3, 72)}),
    "stride 2": ("X(n,2*h+p-1,2*w+q-1,c) * V(f,p,q,c) where h in 0:H/2, w in 0:W/2, X outside zero", "n,h,w,f",
                 {"X": (2, 14, 12, 64), "V": (64, 3, 3, 64)}),
    "stride 3, no zeros around": ("X(n,3*h+p,3*w+q,c) * V(f,p,q,c) where h in 0:5, w in 0:8", "n,h,w,f",
                                  {"X": (2, 14, 23, 64), "V": (64, 2, 2, 64)}),
    "taps apart": ("X(n,h+2*p-2,w+2*q-2,c) * V(f,p,q,c) where h in 0:H, w in 0:W, X outside zero", "n,h,w,f",
                   {"X": (4, 5, 4, 64), "V": (64, 3, 3, 64)}),
    "columns of weights": ("X(n,h+p,w+q,c) * V(p,q,c,f) where h in 0:8, w in 0:8", "n,h,w,f",
                           {"X": (2, 10, 9, 64), "V": (3, 2, 64, 64)}),
    "one dimension": ("X(n,2*t+p-3,c) * V(f,p,c) where t in 0:L/2, X outside zero", "n,t,f",
                      {"X": (3, 44, 64), "V": (64, 7, 64)}),
    "three dimensions": ("X(n,d+a-1,h+p-1,w+q-1,c) * V(f,a,p,q,c) where d in 0:D, h in 0:H, w in 0:W, X outside zero",
                         "n,d,h,w,f", {"X": (2, 3, 4, 4, 64), "V": (64, 3, 1, 2, 64)}),
}  # fmt: skip
#: Run as groups of warps multiply them.
BY_GROUPS = ("uneven", "stride 2")
AXES = {"n,h,w,f": ("N,H,W,C", "F,P,Q,C"), "n,t,f": ("N,L,C", "F,P,C"), "n,d,h,w,f": ("N,D,H,W,C", "F,A,P,Q,C")}


def start(case: str, done: str = "S(at)", more: str = "") -> tuple[OperatorSchedule, tuple[Decision, ...], str]:
    sums, at, shapes = CASES[case]
    x, v = AXES[at]
    v = "P,Q,C,F" if "p,q,c,f" in sums else v
    text = f"""def f(bfloat16({x}) X, bfloat16({v}) V{more}) -> (bfloat16 O) {{
        S({at}) +=! {sums}
        O({at}) = {done.replace("at", at)}
    }}"""
    s = weft.schedule(weft.define(text), numerics="fast", **shapes, **({"B": (shapes["V"][0],)} if more else {}))
    return s, auto_schedule_gpu(s, H200).decisions, text


def arguments(s: OperatorSchedule) -> list[Any]:
    """Small whole numbers, so that sums are exact."""
    rng = np.random.default_rng(0)
    given = [b for b in s.kernel.buffers if b.name not in s.kernel.outputs]
    shapes = [[int(e.value) for e in b.shape] for b in given]  # type: ignore[attr-defined]
    return [rng.integers(-2, 3, shape).astype(weft.numpy_dtype("bfloat16")) for shape in shapes]


@pytest.mark.parametrize("case", CASES)
def test_results(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = GROUPED if case in BY_GROUPS else WARPS
    monkeypatch.setattr(contraction, "contraction_tiles", lambda p, m, kinds: [tiles])
    s, decisions, text = start(case)
    assert any("boxes" in d.what for d in decisions), decisions
    args = arguments(s)
    wanted = weft.define(text)(*args).astype(np.float32)
    np.testing.assert_array_equal(s.build()(*args).astype(np.float32), wanted)  # the grid, as it runs on the CPU
    if tiles is GROUPED:
        check_boxes(case, s)


def check_boxes(case: str, s: OperatorSchedule) -> None:
    """The copy engine fetches them."""
    (launch,) = compile_kernel(s.kernel, H200, fast=True, aligned={b.name: 16 for b in s.kernel.buffers}).launches
    image, _ = launch.maps
    assert (image.buffer, image.box[0]) == ("X", 64)
    assert np.prod(image.box[1:]) == 64
    assert max(image.steps) == (2 if case in ("stride 2", "one dimension") else 3 if "stride 3" in case else 1)


@pytest.mark.parametrize("case", ["stride 2"])
def test_channels_are_summed_in_parts(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pixels are few: a launch for the parts, of boxes that the engine fetches, and one that adds them up."""
    plan = ContractionPlan(replace(GROUPED, depth=32), 2, boxed=True)
    monkeypatch.setattr(contraction, "possible_plans", lambda *a, **b: [plan])
    s, decisions, text = start(case)
    assert any("2 parts of 32 steps" in d.what for d in decisions), decisions
    args = arguments(s)
    wanted = weft.define(text)(*args).astype(np.float32)
    np.testing.assert_array_equal(s.build()(*args).astype(np.float32), wanted)


def test_channels_first_are_turned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images and weights are copied so that channels lie side by side; results are stored as they are wanted."""
    monkeypatch.setattr(contraction, "contraction_tiles", lambda p, m, kinds: [GROUPED])
    text = """def f(bfloat16(N,C,H,W) X, bfloat16(F,C,P,Q) V) -> (bfloat16(N,F,4,4) O) {
        S(n,f,h,w) +=! X(n,c,2*h+p-1,2*w+q-1) * V(f,c,p,q) where h in 0:4, w in 0:4, X outside zero
        O(n,f,h,w) = S(n,f,h,w)
    }"""
    s = weft.schedule(weft.define(text), numerics="fast", X=(6, 64, 8, 8), V=(64, 64, 3, 3))
    decisions = auto_schedule_gpu(s, H200).decisions
    assert sum("lies along memory" in d.what for d in decisions) == 2, decisions
    args = arguments(s)
    wanted = weft.define(text)(*args).astype(np.float32)
    np.testing.assert_array_equal(s.build()(*args).astype(np.float32), wanted)
    program = compile_kernel(s.kernel, H200, fast=True, aligned={b.name: 16 for b in s.kernel.buffers})
    assert [len(launch.maps) for launch in program.launches] == [0, 0, 2]


@pytest.mark.parametrize(("layout", "size"), [("n,h,w,c", 7), ("n,c,h,w", 7)])
def test_windows_of_one_pixel_are_products(layout: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All pixels are one axis, whatever the layout: no copy where rows begin at multiples of 16 bytes."""
    monkeypatch.setattr(contraction, "contraction_tiles", lambda p, m, kinds: [GROUPED])
    out = layout.replace("c", "f")
    text = f"""def f(bfloat16({layout.upper()}) X, bfloat16(F,C,P,Q) V) -> (bfloat16 O) {{
        S({out}) +=! X({layout}) * V(f,c,p,q)
        O({out}) = S({out})
    }}"""
    shape = (3, 128, size, size) if layout == "n,c,h,w" else (3, size, size, 128)
    s = weft.schedule(weft.define(text), numerics="fast", X=shape, V=(64, 128, 1, 1))
    decisions = auto_schedule_gpu(s, H200).decisions
    assert sum("are one axis" in d.what for d in decisions) >= 1
    args = arguments(s)
    given = [a.reshape(shape) if a.size == np.prod(shape) else a.reshape(64, 128, 1, 1) for a in args]
    wanted = weft.define(text)(*given).astype(np.float32)
    np.testing.assert_array_equal(s.build()(*given).astype(np.float32), wanted)
    program = compile_kernel(s.kernel, H200, fast=True, aligned={b.name: 16 for b in s.kernel.buffers})
    assert [len(launch.maps) for launch in program.launches] == ([0] if (layout, size) == ("n,c,h,w", 7) else [2])


@pytest.mark.parametrize("case", [case for case in CASES if case not in BY_GROUPS])
def test_the_copy_engine_fetches_boxes(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction, "contraction_tiles", lambda p, m, kinds: [GROUPED])
    check_boxes(case, start(case)[0])


def test_what_is_done_with_sums_is_done_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction, "contraction_tiles", lambda p, m, kinds: [GROUPED])
    s, _, text = start("uneven", "max(S(at) + B(f), 0)", ", bfloat16(F) B")
    args = arguments(s)
    wanted = weft.define(text)(*args).astype(np.float32)
    np.testing.assert_array_equal(s.build()(*args).astype(np.float32), wanted)
    aligned = {b.name: 16 for b in s.kernel.buffers}
    assert len(compile_kernel(s.kernel, H200, fast=True, aligned=aligned).launches) == 1
    threads = emit_kernel(s.kernel, H200, fast=True, aligned={**aligned, "X": 8})
    assert (
        "async_copy_or_zero<8>" in threads
    )  # the engine cannot fetch X, so threads copy, zeros where there is nothing
    assert "bulk_copy" not in threads


@pytest.mark.parametrize(("channels", "held"), [(128, 3), (1024, 1)])
def test_blocks_of_short_tiles_share_a_multiprocessor(
    channels: int, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One stores what it has while another multiplies; a long depth keeps a block busy by itself."""
    monkeypatch.setattr(contraction, "contraction_tiles", lambda p, m, kinds: [GROUPED])
    text = """def f(bfloat16(N,H,W,C) X, bfloat16(F,C) V) -> (bfloat16 O) {
        S(n,h,w,f) +=! X(n,h,w,c) * V(f,c)
        O(n,h,w,f) = S(n,h,w,f)
    }"""
    s = weft.schedule(weft.define(text), numerics="fast", X=(8, 64, 64, channels), V=(64, channels))
    auto_schedule_gpu(s, H200)
    source = emit_kernel(s.kernel, H200, fast=True, aligned={b.name: 16 for b in s.kernel.buffers})
    assert f"__launch_bounds__(160, {held})" in source


def test_boxes_are_of_results_as_they_are_stored() -> None:
    """A product that stores less does not get boxes, and with them prices, that were found for one that stores more."""
    s = weft.schedule(weft.define(PLAIN_WINDOW), numerics="fast", X=(4, 16, 16, 64), V=(64, 3, 3, 64))
    product = read_product(GpuDraft(s, H200).stage("O"), surrounded=False)
    assert product is not None
    for stored in (4, 2):
        found = with_box(replace(product, stored=stored), 64, 64)
        assert found is not None
        assert found.stored == stored


PLAIN_WINDOW = """def f(bfloat16(N,H,W,C) X, bfloat16(F,P,Q,C) V) -> (float32 O) {
    O(n,h,w,f) +=! float32(X(n,h+p-1,w+q-1,c)) * float32(V(f,p,q,c)) where h in 0:H, w in 0:W, X outside zero
}"""
