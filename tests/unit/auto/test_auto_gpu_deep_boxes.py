"""Gradients of convolutions' weights on a GPU: pieces of what is summed over are boxes of pixels, which the copy engine
fetches; right for any window, stride, spacing, number of images and channels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import weft
import weft.auto.gpu.contraction as contraction
from weft.auto.gpu.box_sizes import deep_sizes, with_deep_box
from weft.auto.gpu.contraction_product import Product, read_product
from weft.auto.gpu.contraction_tiles import ContractionPlan, Tiles
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.scheduler import auto_schedule_gpu
from weft.operators.schedule import OperatorSchedule
from weft.target.cuda.lower import compile_kernel
from weft.target.cuda.machine import gpu_for_arch

H200 = gpu_for_arch("sm_90")
TILES = Tiles(64, 64, 64, 16, 64, 2, warps=True, grouped=True)
SQUARE = "bfloat16(N,H,W,F) E, bfloat16(N,A,B,C) X"

#: Arguments, what is summed and where, shapes, the box of a piece, parts.
CASES: dict[str, tuple[str, str, str, dict[str, tuple[int, ...]], tuple[int, ...], int]] = {
    "3x3": (SQUARE, "E(n,h,w,f) * X(n,h+p-1,w+q-1,c) where p in 0:3, q in 0:3, X outside zero", "f,p,q,c",
            {"E": (2, 8, 6, 64), "X": (2, 8, 6, 64)}, (1, 8, 6), 1),
    "in parts": (SQUARE, "E(n,h,w,f) * X(n,h+p-1,w+q-1,c) where p in 0:3, q in 0:2, X outside zero", "f,p,q,c",
                 {"E": (3, 8, 12, 64), "X": (3, 8, 12, 64)}, (1, 4, 4), 6),
    "stride 2": (SQUARE, "E(n,h,w,f) * X(n,2*h+p-1,2*w+q-1,c) where p in 0:3, q in 0:3, X outside zero", "f,p,q,c",
                 {"E": (4, 6, 8, 64), "X": (4, 12, 16, 64)}, (2, 3, 8), 2),
    "no zeros around": (SQUARE, "E(n,h,w,f) * X(n,h+p,w+q,c) where p in 0:3, q in 0:2", "f,p,q,c",
                        {"E": (1, 8, 8, 64), "X": (1, 10, 9, 64)}, (1, 4, 8), 1),
    "taps apart": (SQUARE, "E(n,h,w,f) * X(n,h+2*p-2,w+2*q-2,c) where p in 0:3, q in 0:3, X outside zero", "f,p,q,c",
                   {"E": (2, 4, 8, 64), "X": (2, 4, 8, 64)}, (2, 2, 4), 1),
    "odd channels, odd images": (
        SQUARE, "E(n,h,w,f) * X(n,h+p-1,w+q-1,c) where p in 0:3, q in 0:3, X outside zero", "f,p,q,c",
        {"E": (3, 8, 6, 72), "X": (3, 8, 6, 88)}, (2, 4, 6), 2),
    "one dimension": ("bfloat16(N,H,F) E, bfloat16(N,A,C) X",
                      "E(n,h,f) * X(n,2*h+p-3,c) where p in 0:7, X outside zero", "f,p,c",
                      {"E": (8, 24, 64), "X": (8, 48, 64)}, (2, 24), 2),
    "groups": ("bfloat16(N,H,W,G,F) E, bfloat16(N,A,B,G,C) X",
               "E(n,h,w,g,f) * X(n,h+p-1,w+q-1,g,c) where p in 0:3, q in 0:3, X outside zero", "g,f,p,q,c",
               {"E": (1, 8, 8, 2, 64), "X": (1, 8, 8, 2, 64)}, (1, 2, 8), 2),
}  # fmt: skip


def start(case: str) -> tuple[OperatorSchedule, str]:
    given, sums, at, shapes, _, _ = CASES[case]
    text = f"""def f({given}) -> (bfloat16 O) {{
        S({at}) +=! {sums}
        O({at}) = S({at})
    }}"""
    return weft.schedule(weft.define(text), numerics="fast", **shapes), text


@pytest.mark.parametrize("case", CASES)
def test_results(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, box, parts = CASES[case]
    plan = ContractionPlan(replace(TILES, depth=int(np.prod(box))), parts, deep=box)
    monkeypatch.setattr(contraction, "contraction_tiles", lambda *_: [])
    monkeypatch.setattr(contraction, "deep_plans", lambda *_: [plan])
    s, text = start(case)
    decisions = auto_schedule_gpu(s, H200).decisions
    assert any("are boxes:" in d.what for d in decisions), decisions
    rng = np.random.default_rng(0)
    given = [b for b in s.kernel.buffers if b.name not in s.kernel.outputs]
    shapes = [[int(e.value) for e in b.shape] for b in given]  # type: ignore[attr-defined]
    args = [rng.integers(-2, 3, shape).astype(weft.numpy_dtype("bfloat16")) for shape in shapes]
    wanted = weft.define(text)(*args).astype(np.float32)
    np.testing.assert_array_equal(s.build()(*args).astype(np.float32), wanted)  # the grid, as it runs on the CPU
    check_boxes(s, box)


def check_boxes(s: OperatorSchedule, box: tuple[int, ...]) -> None:
    """The copy engine fetches them."""
    first, *others = compile_kernel(s.kernel, H200, fast=True, aligned={b.name: 16 for b in s.kernel.buffers}).launches
    assert [m.buffer for m in first.maps] == ["E", "X"]
    for m in first.maps:
        assert [n for n in m.box if n > 1] == [64, *(n for n in reversed(box) if n > 1)]
    assert not any(launch.maps for launch in others)


def product_of(**shapes: tuple[int, ...]) -> Product:
    text = """def f(bfloat16(N,H,W,F) E, bfloat16(N,H,W,C) X) -> (O) {
        O(f,p,q,c) +=! float32(E(n,h,w,f)) * float32(X(n,h+p-1,w+q-1,c)) where p in 0:3, q in 0:3, X outside zero
    }"""
    s = weft.schedule(weft.define(text), numerics="fast", **shapes)
    product = read_product(GpuDraft(s, H200).stage("O"), surrounded=False, deep_boxes=True)
    assert product is not None
    return product


@pytest.mark.parametrize("size", [(5, 30, 30), (64, 7, 7), (3, 28, 20)])
def test_boxes_end_where_images_do(size: tuple[int, int, int]) -> None:
    """Beyond a row there are other elements, which zeros must not be multiplied with; beyond all images are none."""
    product = product_of(E=(*size, 64), X=(*size, 64))
    found = deep_sizes(product)
    assert found
    for box in found:
        assert np.prod(box) % 16 == 0
        assert all(n % m == 0 for n, m in zip(size[1:], box[1:]))
        assert with_deep_box(product, box).deep == -(-size[0] // box[0]) * box[0] * size[1] * size[2]


def test_rows_of_odd_lengths_are_gathered() -> None:
    assert deep_sizes(product_of(E=(3, 41, 41, 64), X=(3, 41, 41, 64))) == []
