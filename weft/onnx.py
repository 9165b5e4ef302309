"""`weft.onnx`: Weft as a standard ONNX backend (`onnx.backend.base`), for CPUs and NVIDIA GPUs.

>>> import weft.onnx as backend
>>> [y] = backend.prepare(model).run([x])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.graph.from_onnx.edge import model_of_node
from weft.graph.from_onnx.model import OnnxModel, load_onnx
from weft.ir.errors import ArgumentError, Error


class BackendRep:
    """A prepared model: ``run(inputs)`` takes arrays in the order of the inputs, or by name."""

    def __init__(self, model: OnnxModel) -> None:
        self.model = model

    def run(self, inputs: Any, **_options: Any) -> tuple[Any, ...]:
        if isinstance(inputs, Mapping):
            return tuple(self.model.run(None, inputs))
        given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        names = [p.name for p in self.model.file.graph.inputs]
        if len(given) > len(names):
            raise ArgumentError(f"{self.model!r} takes {len(names)} inputs, not {len(given)}")
        return tuple(self.model.run(None, dict(zip(names, given))))


def prepare(model: Any, device: str = "CPU", **_options: Any) -> BackendRep:
    """``model`` ready to run; it is compiled for sizes when it meets them."""
    if not supports_device(device):
        raise ArgumentError(
            f"no ONNX model is compiled for the device {device!r} here",
            why="there are CPUs, and NVIDIA GPUs where PyTorch sees one",
            help='device="CPU", or "CUDA", "CUDA:1"',
        )
    return BackendRep(load_onnx(model, device="cpu" if device.upper().startswith("CPU") else device.lower()))


def run_model(model: Any, inputs: Any, device: str = "CPU", **options: Any) -> tuple[Any, ...]:
    return prepare(model, device, **options).run(inputs)


def run_node(
    node: Any, inputs: Sequence[Any], device: str = "CPU", outputs_info: Any = None, **options: Any
) -> tuple[Any, ...]:
    """One node of the newest operators, or of version ``opset_version``."""
    model = model_of_node(node, [getattr(i, "dtype", None) for i in inputs], options.pop("opset_version", None))
    return run_model(model, list(inputs), device)


def supports_device(device: str) -> bool:
    kind, _, number = device.upper().partition(":")
    if kind != "CUDA" or not (number or "0").isdecimal():
        return kind == "CPU"
    return int(number or 0) < _gpu_count()


def _gpu_count() -> int:
    """As many as PyTorch sees; none where it is not installed."""
    from weft.graph.from_torch.edge import torch

    try:
        return int(torch().cuda.device_count())
    except Error:
        return 0


def is_compatible(model: Any, device: str = "CPU", **_options: Any) -> bool:
    """Whether all operators of ``model`` are there."""
    try:
        prepare(model, device)
    except Error:
        return False
    return True


__all__ = ["BackendRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]
