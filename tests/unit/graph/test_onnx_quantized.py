"""ONNX models of small integers: products and convolutions of them, as tools for quantizing models write them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
sys.path.insert(0, str(Path(__file__).parent))

from onnx_models import TensorProto, helper, model, node

import weft

RNG = np.random.default_rng(0)


def small(dtype: Any, *sizes: int) -> Any:
    facts = np.iinfo(dtype)
    return RNG.integers(facts.min, facts.max + 1, sizes).astype(dtype)


def run(made: Any, x: Any, constants: dict[str, Any], kind: int = TensorProto.UINT8) -> Any:
    return weft.load_onnx(model([made], {"x": x.shape}, ["y"], constants, kind=kind))(x)


@pytest.mark.parametrize("zero", [np.int8(3), small(np.int8, 6)])
def test_products_of_small_integers(zero: Any) -> None:
    x, w = small(np.uint8, 2, 5, 70), small(np.int8, 70, 6)
    made = run(node("MatMulInteger", "x w a b", "y"), x, {"w": w, "a": np.uint8(120), "b": zero})
    assert made.dtype == np.int32
    np.testing.assert_array_equal(made, (x.astype(np.int32) - 120) @ (w.astype(np.int32) - zero))


def test_scaled_products_of_small_integers() -> None:
    x, w, scales = small(np.uint8, 5, 70), small(np.int8, 70, 6), np.linspace(0.01, 0.03, 6, dtype=np.float32)
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    constants = {
        "xs": np.float32(0.02), "xz": np.uint8(120), "w": w, "ws": scales, "wz": small(np.int8, 6),
        "ys": np.float32(0.5), "yz": np.uint8(100),
    }  # fmt: skip
    whole = (x.astype(np.int64) - 120) @ (w.astype(np.int64) - constants["wz"])
    expected = np.clip(np.rint(whole * (0.02 * scales / 0.5)) + 100, 0, 255)
    off = run(helper.make_node("QLinearMatMul", names, ["y"]), x, constants).astype(int) - expected
    assert np.abs(off).max() <= 1  # a half may be rounded either way
    assert np.mean(off != 0) < 0.05


def _convolved(x: Any, w: Any) -> Any:
    torch = pytest.importorskip("torch")
    return torch.nn.functional.conv2d(torch.from_numpy(x.astype(float)), torch.from_numpy(w.astype(float)), padding=1)


def test_convolutions_of_small_integers() -> None:
    x, w = small(np.uint8, 1, 3, 9, 7), small(np.uint8, 4, 3, 3, 3)
    made = run(node("ConvInteger", "x w z", "y", pads=[1] * 4), x, {"w": w, "z": np.uint8(120)})
    np.testing.assert_array_equal(made, _convolved(x - 120.0, w))


def test_scaled_convolutions_of_small_integers() -> None:
    x, w, scales = small(np.uint8, 1, 3, 9, 7), small(np.int8, 4, 3, 3, 3), np.array([1, 2, 0.5, 3], np.float32) / 100
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    constants = {
        "xs": np.float32(0.02), "xz": np.uint8(120), "w": w, "ws": scales, "wz": np.zeros(4, np.int8),
        "ys": np.float32(0.1), "yz": np.uint8(100), "b": RNG.integers(-900, 900, 4).astype(np.int32),
    }  # fmt: skip
    made = run(helper.make_node("QLinearConv", names, ["y"], pads=[1] * 4), x, constants)
    whole = _convolved(x - 120.0, w).numpy() + constants["b"].reshape(4, 1, 1)
    off = made.astype(int) - np.clip(np.rint(whole * (0.02 * scales / 0.1).reshape(4, 1, 1)) + 100, 0, 255)
    assert np.abs(off).max() <= 1
    assert np.mean(off != 0) < 0.05
