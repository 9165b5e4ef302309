"""Gradients of convolutions' weights, and transposed convolutions (gradients of images): against cuDNN through PyTorch,
bfloat16, channels last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.gpu.convolutions import Shape
from bench.gpu.workloads import Workload, defined, normal

#: Channels in are those of images, out those of what is handed back.
OF_WEIGHTS = [
    Shape(64, 56, 64, 64), Shape(64, 28, 128, 128), Shape(64, 14, 256, 256), Shape(64, 7, 512, 512),
    Shape(64, 56, 128, 128, 3, 2), Shape(64, 28, 256, 256, 3, 2), Shape(64, 14, 512, 512, 3, 2),
    Shape(32, 56, 128, 128), Shape(2, 32, 640, 640), Shape(1, 64, 320, 320), Shape(16, 30, 96, 208, 5),
    Shape(16, 64, 64, 128, 5, 2), Shape(64, 56, 256, 512, 1, 2),
]  # fmt: skip


def _definition(shape: Shape) -> str:
    step = "" if shape.stride == 1 else f"{shape.stride}*"
    off = f" - {shape.padding}" if shape.padding else ""
    where = f"where p in 0:{shape.window}, q in 0:{shape.window}" + (", X outside zero" if shape.padding else "")
    return f"""def gradient(bfloat16(N,H,W,F) E, bfloat16(N,A,B,C) X) -> (bfloat16 O) {{
        S(f,p,q,c) +=! E(n,h,w,f) * X(n,{step}h + p{off},{step}w + q{off},c) {where}
        O(f,p,q,c) = S(f,p,q,c)
    }}"""


def of_weights(shape: Shape) -> Workload:
    def run(torch: Any, e: Any, x: Any) -> Any:
        given = [a.permute(0, 3, 1, 2) for a in (e, x)]
        weights = torch.empty(shape.filters, shape.channels, shape.window, shape.window, device=e.device, dtype=e.dtype)
        options = ([shape.stride] * 2, [shape.padding] * 2, [1, 1], False, [0, 0], 1, [False, True, False])
        weights = weights.to(memory_format=torch.channels_last)
        return torch.ops.aten.convolution_backward(*given, weights, None, *options)[1].permute(0, 2, 3, 1)

    sizes = (
        (shape.images, shape.result, shape.result, shape.filters),
        (shape.images, shape.size, shape.size, shape.channels),
    )
    return Workload(
        f"gradient of weights {shape}", "gradients of weights", defined(_definition(shape)), normal(*sizes), run,
        flops=shape.flops, compiled=False, graphs=True,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Transposed:
    """Images of ``size`` by ``size`` pixels made larger: channels in and out, a square window, its stride, what is left
    out around and added behind."""

    images: int
    size: int
    channels: int
    filters: int
    window: int
    stride: int = 2
    padding: int = 0
    more: int = 0

    @property
    def result(self) -> int:
        return (self.size - 1) * self.stride + self.window - 2 * self.padding + self.more

    @property
    def definition(self) -> str:
        """Each result from the taps that reach it."""
        off = f" + {self.padding}" if self.padding else ""
        y, x = (f"{at}{off} - {tap}" for at, tap in (("y", "p"), ("x", "q")))
        return f"""def up(bfloat16(N,H,W,C) X, bfloat16(C,P,Q,F) V) -> (bfloat16(N,{self.result},{self.result},F) O) {{
            S(n,y,x,f) +=! (({y}) % {self.stride} == 0 && ({x}) % {self.stride} == 0) ?
                X(n,({y})/{self.stride},({x})/{self.stride},c) * V(c,p,q,f) : 0
                where y in 0:{self.result}, x in 0:{self.result}, X outside zero
            O(n,y,x,f) = S(n,y,x,f)
        }}"""

    def __str__(self) -> str:
        image = f"{self.images}x{self.size}x{self.size}, {self.channels} to {self.filters}"
        return f"{image}, {self.window}x{self.window}/{self.stride}"


#: As in U-Nets, in generators, and as gradients of images under windows of stride 2 (ResNet-50's).
TRANSPOSED = [
    Transposed(8, 32, 512, 256, 2), Transposed(8, 64, 256, 128, 2), Transposed(8, 128, 128, 64, 2),
    Transposed(64, 8, 512, 256, 4, padding=1), Transposed(64, 16, 256, 128, 4, padding=1),
    Transposed(64, 32, 128, 64, 4, padding=1), Transposed(64, 28, 128, 128, 3, padding=1, more=1),
    Transposed(64, 14, 256, 256, 3, padding=1, more=1), Transposed(64, 7, 512, 512, 3, padding=1, more=1),
    Transposed(16, 32, 64, 128, 5, padding=2, more=1), Transposed(8, 40, 96, 96, 3, 3),
]  # fmt: skip


def transposed(shape: Transposed) -> Workload:
    def run(torch: Any, x: Any, v: Any) -> Any:
        options = {"stride": shape.stride, "padding": shape.padding, "output_padding": shape.more}
        found = torch.nn.functional.conv_transpose2d(x.permute(0, 3, 1, 2), v.permute(0, 3, 1, 2), **options)
        return found.permute(0, 2, 3, 1)

    def make(torch: Any) -> Sequence[Any]:
        x, v = normal(*sizes)(torch)
        return [x, v * (shape.channels * (shape.window / shape.stride) ** 2) ** -0.5]

    window = (shape.window, shape.window)
    sizes = ((shape.images, shape.size, shape.size, shape.channels), (shape.channels, *window, shape.filters))
    flops = 2 * shape.images * shape.size**2 * shape.window**2 * shape.channels * shape.filters
    return Workload(
        f"transposed {shape}", "transposed convolutions", defined(shape.definition), make, run, flops=flops,
        compiled=False, graphs=True,
    )  # fmt: skip


def convolution_gradients() -> list[Workload]:
    return [*(of_weights(s) for s in OF_WEIGHTS), *map(transposed, TRANSPOSED)]
