"""Models that PyTorch exported, with a size left open, against eager."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

pytest.importorskip("onnx")
torch = pytest.importorskip("torch")

nn = torch.nn


class Convolutions(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(),
            nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.Hardswish(), nn.MaxPool2d(2),
            nn.Upsample(scale_factor=2, mode="bilinear"), nn.ConvTranspose2d(8, 4, 2, 2), nn.AdaptiveAvgPool2d(1),
        )  # fmt: skip
        self.head = nn.Linear(4, 5)

    def forward(self, x: Any) -> Any:
        return torch.log_softmax(self.head(self.body(x).flatten(1)), -1)


class Encoder(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm, self.ahead = nn.Embedding(50, 32), nn.LayerNorm(32), nn.Linear(32, 96)

    def forward(self, ids: Any) -> Any:
        x = self.table(ids)
        q, k, v = self.ahead(self.norm(x)).view(*ids.shape, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1)
        return nn.functional.gelu(x + (scores @ v).transpose(1, 2).reshape(x.shape)), scores.amax(-1)


class Views(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        n = x.shape[0]
        y = x.view(n, -1, 4).permute(0, 2, 1).reshape(n, 2, -1)
        z = torch.cat([y[:, :, ::2], y[:, :, 1::2]], 2)
        z = torch.where(z > 0, z, torch.zeros_like(z)).cumsum(-1)
        below = torch.tril(torch.ones(z.shape[2], z.shape[2]))
        return torch.einsum("bij,kj->bik", z, below), z.std(-1), torch.topk(z, 2)[0]


Make = Callable[[int], Any]
MODELS: dict[str, tuple[Callable[[], Any], Make, dict[int, str]]] = {
    "convolutions": (Convolutions, lambda n: torch.randn(n, 3, 16, 16), {0: "n"}),
    "encoder": (Encoder, lambda n: torch.randint(0, 50, (n, n + 3)), {0: "n", 1: "t"}),
    "views": (Views, lambda n: torch.randn(n, 8, 3), {0: "n"}),
}


@pytest.mark.parametrize("name", MODELS)
def test_an_exported_model_gives_what_eager_gives(name: str) -> None:
    torch.manual_seed(0)
    build, make, sizes = MODELS[name]
    model, file = build().eval(), io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, (make(2),), file, dynamo=False, opset_version=17, input_names=["x"], dynamic_axes={"x": sizes}
        )
    net = weft.load_onnx(file.getvalue())
    for n in (2, 5):
        x = make(n)
        with torch.no_grad():
            expected = model(x)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for ours, theirs in zip(net.run(None, {"x": x.numpy()}), expected, strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-5)
