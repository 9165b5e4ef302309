"""Windows of one operand: any size, stride and remainder."""

from __future__ import annotations

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("width", [5, 17, 33, 40, 112])
@pytest.mark.parametrize(("size", "stride"), [(3, 2), (2, 2), (3, 1), (5, 4), (2, 5)])
@pytest.mark.parametrize("target", ["host", "x86-64-avx2"])
def test_pools(width: int, size: int, stride: int, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if target != "host":
        monkeypatch.setenv("WEFT_TARGET", target)
    image = np.random.default_rng(0).standard_normal((2, 3, 9, width), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(image, (size, size), (2, 3))[:, :, ::stride, ::stride]
    np.testing.assert_array_equal(weft.ops.max_pool2d(image, size, stride), windows.max((4, 5)))
    np.testing.assert_allclose(weft.ops.avg_pool2d(image, size, stride), windows.mean((4, 5)), rtol=1e-5, atol=1e-6)


def test_windows_are_written_out() -> None:
    told = weft.ops.max_pool2d.explain(I=(1, 8, 40, 40), K=3, S=2)
    assert "windows of 9 written out" in told


def test_images_on_threads(two_threads: None) -> None:
    assert "`n` on 2 threads" in weft.ops.max_pool2d.explain(I=(4, 64, 40, 40), K=3, S=2)
    assert "`c` on 2 threads" in weft.ops.max_pool2d.explain(I=(1, 64, 40, 40), K=3, S=2)
    assert "`n_c` on 2 threads" in weft.ops.max_pool2d.explain(I=(3, 64, 40, 40), K=3, S=2)
