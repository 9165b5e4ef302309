"""ONNX models on a GPU: the same results as on the CPU, by numpy's arrays and by tensors that are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

import weft
from tests.unit.graph.onnx_models import mlp, model, node


def images() -> Any:
    """Convolutions, a depthwise one among them, a pool, and channels that are weighted by their means."""
    rng = np.random.default_rng(0)
    shapes = {"w": (16, 3, 3, 3), "d": (16, 1, 5, 5), "s": (16, 16, 1, 1), "v": (8, 16, 1, 1), "b": (16,)}
    constants = {name: (rng.standard_normal(shape) * 0.2).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        node("Conv", "x w b", "h", pads=[1, 1, 1, 1], strides=[2, 2]), node("Relu", "h", "r"),
        node("Conv", "r d", "e", pads=[2, 2, 2, 2], group=16), node("GlobalAveragePool", "e", "m"),
        node("Conv", "m s", "t"), node("Sigmoid", "t", "g"), node("Mul", "e g", "z"), node("Conv", "z v", "y"),
    ]  # fmt: skip
    return model(nodes, {"x": ["n", 3, 64, 64]}, ["y"], constants)


def attention() -> Any:
    """Attention as exporters write it out, between two products."""
    rng = np.random.default_rng(1)
    constants = {n: (rng.standard_normal((32, 32)) * 0.2).astype(np.float32) for n in ("q", "k", "v", "o")}
    nodes = [
        node("MatMul", "x q", "a"), node("MatMul", "x k", "c"), node("MatMul", "x v", "e"),
        node("Transpose", "c", "ct", perm=[0, 2, 1]), node("MatMul", "a ct", "p"), node("Softmax", "p", "w", axis=-1),
        node("MatMul", "w e", "m"), node("MatMul", "m o", "y"),
    ]  # fmt: skip
    return model(nodes, {"x": ["n", 24, 32]}, ["y"], constants)


@pytest.mark.parametrize(
    ("make", "shape"), [(mlp, (3, 2, 4)), (images, (2, 3, 64, 64)), (attention, (2, 24, 32))], ids=lambda v: str(v)[:14]
)
def test_results_are_those_of_the_cpu(torch: Any, make: Callable[[], Any], shape: tuple[int, ...]) -> None:
    there, here = weft.load_onnx(make(), device="cuda"), weft.load_onnx(make())
    for n in range(4):
        x = np.random.default_rng(n).standard_normal(shape).astype(np.float32)
        made, right = there(x), here(x)
        assert isinstance(made, np.ndarray)
        np.testing.assert_allclose(made, right, rtol=2e-3, atol=2e-3)
        given = torch.from_numpy(x).cuda()
        tensor = there(given)
        assert tensor.device == given.device
        np.testing.assert_allclose(tensor.cpu().numpy(), right, rtol=2e-3, atol=2e-3)
