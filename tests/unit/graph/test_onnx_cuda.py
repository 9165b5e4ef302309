"""ONNX models on a GPU, with the driver faked: torch's libraries as candidates, arrays of both kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

import torch

from tests.unit.graph.fake_cuda import FakeArrays
from tests.unit.graph.onnx_models import mlp, model, node
from weft.graph.from_onnx import places
from weft.graph.from_onnx.edge import read_model
from weft.graph.from_onnx.model import OnnxModel, load_onnx
from weft.graph.from_onnx.places import Gpu, find_place
from weft.ir.errors import ArgumentError

Fake = Callable[..., FakeArrays]


def images() -> Any:
    rng = np.random.default_rng(0)
    constants = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in {"w": (8, 3, 3, 3), "v": (4, 8, 1, 1), "b": (8,)}.items()
    }
    nodes = [
        node("Conv", "x w b", "h", pads=[1, 1, 1, 1]), node("Relu", "h", "r"),
        node("Conv", "r v", "c", name="second"), node("GlobalAveragePool", "c", "y"),
    ]  # fmt: skip
    return model(nodes, {"x": ["n", 3, 8, 8]}, ["y"], constants)


@pytest.mark.parametrize(
    ("make", "shape", "library"),
    [(mlp, (3, 2, 4), "aten.matmul.default"), (images, (2, 3, 8, 8), "aten.convolution.default")],
)
def test_models_run_as_on_the_cpu(
    fake_cuda: Fake, make: Callable[[], Any], shape: tuple[int, ...], library: str
) -> None:
    net = OnnxModel(read_model(make()), "fast", Gpu(fake_cuda(library)))
    right = load_onnx(make())
    for n in range(4):
        x = np.random.default_rng(n).standard_normal(shape).astype(np.float32)
        made = net(x)
        assert isinstance(made, np.ndarray)
        np.testing.assert_allclose(made, right(x), rtol=1e-4, atol=1e-4)
    (variant,) = net.variants.values()
    assert variant.compiled is not None
    assert [c.call.target for c in variant.compiled.report.calls] == [library]
    assert variant.compiled.executable._recorded is not None  # type: ignore[attr-defined]


def test_who_gives_tensors_there_gets_such(fake_cuda: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "is_on_gpu", lambda device: True)
    monkeypatch.setattr(places, "device_of", lambda given: None)
    net = OnnxModel(read_model(mlp()), "fast", Gpu(fake_cuda()))
    made = net(torch.randn(3, 2, 4))
    assert isinstance(made, torch.Tensor)


def test_devices_that_are_none() -> None:
    with pytest.raises(ArgumentError, match="there is no device `gpu`"):
        find_place("gpu")
