"""Convolutions, ResNet-50's and others, against cuDNN through PyTorch, which may choose among its algorithms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.gpu.workloads import Workload, defined


@dataclass(frozen=True, slots=True)
class Shape:
    """Images of ``size`` by ``size`` pixels, channels in and out, a square window of taps, its stride and spacing."""

    images: int
    size: int
    channels: int
    filters: int
    window: int = 3
    stride: int = 1
    dilation: int = 1

    @property
    def padding(self) -> int:
        return self.dilation * (self.window // 2)

    @property
    def result(self) -> int:
        return (self.size + 2 * self.padding - self.dilation * (self.window - 1) - 1) // self.stride + 1

    @property
    def flops(self) -> int:
        taps = self.window**2 * self.channels
        return 2 * self.images * self.result**2 * self.filters * taps

    def __str__(self) -> str:
        more = f"/{self.stride}" if self.stride > 1 else ""
        more += f", {self.dilation} apart" if self.dilation > 1 else ""
        image = f"{self.images}x{self.size}x{self.size}, {self.channels} to {self.filters}"
        return f"{image}, {self.window}x{self.window}{more}"


#: Those of ResNet-50, the first aside.
RESNET = [
    Shape(64, 56, 64, 64, 1), Shape(64, 56, 64, 64), Shape(64, 56, 64, 256, 1), Shape(64, 56, 256, 64, 1),
    Shape(64, 56, 256, 128, 1), Shape(64, 56, 128, 128, 3, 2), Shape(64, 28, 128, 512, 1),
    Shape(64, 56, 256, 512, 1, 2), Shape(64, 28, 512, 128, 1), Shape(64, 28, 128, 128), Shape(64, 28, 512, 256, 1),
    Shape(64, 28, 256, 256, 3, 2), Shape(64, 14, 256, 1024, 1), Shape(64, 14, 1024, 256, 1), Shape(64, 14, 256, 256),
    Shape(64, 14, 512, 512, 3, 2), Shape(64, 7, 512, 2048, 1), Shape(64, 7, 2048, 512, 1), Shape(64, 7, 512, 512),
]  # fmt: skip
#: Others, some of sizes that nobody would choose.
OTHERS = [
    Shape(32, 56, 128, 128), Shape(1, 64, 320, 320), Shape(2, 32, 640, 640), Shape(8, 65, 256, 256, 3, 1, 2),
    Shape(16, 30, 96, 208, 5), Shape(3, 41, 72, 120), Shape(12, 112, 64, 128, 3, 2), Shape(1, 128, 128, 128),
]  # fmt: skip


def definition(shape: Shape, layout: str, epilogue: str) -> str:
    """In the whiteboard language; ``layout`` NHWC or NCHW, weights likewise."""
    step = "" if shape.stride == 1 else f"{shape.stride}*"
    apart = "" if shape.dilation == 1 else f"{shape.dilation}*"
    off = f" - {shape.padding}" if shape.padding else ""
    y, x = (f"{step}{o}{off} + {apart}{tap}" for o, tap in (("h", "p"), ("w", "q")))
    last = layout == "NHWC"
    pixel, weight = (f"n,{y},{x},c", "f,p,q,c") if last else (f"n,c,{y},{x}", "f,c,p,q")
    sums, axes = ("n,h,w,f", "N,H,W,C") if last else ("n,f,h,w", "N,C,H,W")
    given = f"bfloat16({axes}) X, bfloat16({weight.upper()}) V"
    given += ", bfloat16(F) B" if "B(" in epilogue else ""
    given += ", bfloat16(N,A,D,G) R" if "R(" in epilogue else ""
    size = shape.result
    where = f"where h in 0:{size}, w in 0:{size}" + (", X outside zero" if shape.padding else "")
    done = epilogue.replace("at", sums)
    shown = sums.upper().replace("H", str(size)).replace("W", str(size))
    return f"""def conv({given}) -> (bfloat16({shown}) O) {{
        S({sums}) +=! X({pixel}) * V({weight}) {where}
        O({sums}) = {done}
    }}"""


EPILOGUES = {
    "": "S(at)",
    "bias, ReLU": "max(S(at) + B(f), 0)",
    "bias, residual, ReLU": "max(S(at) + B(f) + R(at), 0)",
}


def convolution(shape: Shape, layout: str = "NHWC", done: str = "") -> Workload:
    last = layout == "NHWC"

    def run(torch: Any, x: Any, v: Any, *others: Any) -> Any:
        given = [a.permute(0, 3, 1, 2) if last else a for a in (x, v)]
        options = {"stride": shape.stride, "padding": shape.padding, "dilation": shape.dilation}
        found = torch.nn.functional.conv2d(*given, *others[:1], **options)
        found = found.permute(0, 2, 3, 1) if last else found
        found = found + others[1] if others[1:] else found
        return torch.relu(found) if others else found

    return Workload(
        f"{layout} {shape}{', ' if done else ''}{done}", "fused convolutions" if done else f"convolutions {layout}",
        defined(definition(shape, layout, EPILOGUES[done])), _arguments(shape, last, EPILOGUES[done]), run,
        flops=shape.flops, compiled=bool(done), graphs=True,
    )  # fmt: skip


def _arguments(shape: Shape, last: bool, epilogue: str) -> Callable[[Any], Sequence[Any]]:
    def make(torch: Any) -> Sequence[Any]:
        def drawn(*sizes: int) -> Any:
            return torch.randn(*sizes, device="cuda").to(torch.bfloat16)

        n, s, c, f, k = shape.images, shape.size, shape.channels, shape.filters, shape.window
        x, v = (drawn(n, s, s, c), drawn(f, k, k, c)) if last else (drawn(n, c, s, s), drawn(f, c, k, k))
        others = [drawn(f)] if "B(" in epilogue else []
        size = (shape.result, shape.result)
        others += [drawn(n, *size, f) if last else drawn(n, f, *size)] if "R(" in epilogue else []
        return [x, v * (c * k * k) ** -0.5, *others]

    return make


def convolutions() -> list[Workload]:
    """Those of issue 13's bars."""
    every = [convolution(s) for s in (*RESNET, *OTHERS)]
    first = [convolution(s, "NCHW") for s in (*RESNET[::3], *OTHERS)]
    fused = [convolution(s, "NHWC", "bias, ReLU") for s in (*RESNET[::2], *OTHERS)]
    return [*every, *first, *fused, *(convolution(s, "NHWC", "bias, residual, ReLU") for s in RESNET[2::4])]
