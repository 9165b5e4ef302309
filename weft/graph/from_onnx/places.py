"""Where an ONNX model runs, and the arrays that its calls give and get there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from weft.graph.evaluate import as_numpy
from weft.graph.run.arrays import Arrays, NumpyArrays
from weft.ir.errors import ArgumentError
from weft.ir.numpy_dtypes import from_numpy
from weft.runtime.arrays import device_of, is_on_gpu


class Place(Protocol):
    """Arrays are those that the executables of the place work with; values are numpy's."""

    arrays: Arrays
    #: as `find_place` takes it
    device: str

    def take(self, given: Any) -> Any:
        """What a caller gives, as an array."""

    def look(self, array: Any) -> tuple[Any, tuple[int, ...]]:
        """Its type, None where Weft has none such, and shape."""

    def copied(self, array: Any) -> Any: ...

    def give(self, results: Sequence[Any], inputs: Mapping[str, Any]) -> list[Any]:
        """Arrays as a caller gets them who gave ``inputs``."""


class Host:
    """This machine's memory, by numpy."""

    device = "cpu"

    def __init__(self) -> None:
        self.arrays: Arrays = NumpyArrays()

    def take(self, given: Any) -> Any:
        return as_numpy(given)

    def look(self, array: Any) -> tuple[Any, tuple[int, ...]]:
        return from_numpy(array.dtype), tuple(array.shape)

    def copied(self, array: Any) -> Any:
        return array.copy()

    def give(self, results: Sequence[Any], inputs: Mapping[str, Any]) -> list[Any]:
        return list(results)


class Gpu:
    """The memory of one GPU, by torch. A caller who gives no array that is there gets numpy's."""

    def __init__(self, arrays: Arrays, device: str = "cuda") -> None:
        self.arrays, self.device = arrays, device

    def take(self, given: Any) -> Any:
        if is_on_gpu(device_of(given)):
            return given
        return self.arrays.own(as_numpy(given))

    def look(self, array: Any) -> tuple[Any, tuple[int, ...]]:
        from weft.graph.from_torch.edge import element_type

        return element_type(array.dtype), tuple(array.shape)

    def copied(self, array: Any) -> Any:
        return array.clone()

    def give(self, results: Sequence[Any], inputs: Mapping[str, Any]) -> list[Any]:
        is_there = any(is_on_gpu(device_of(given)) for given in inputs.values())
        return list(results) if is_there else [as_numpy(r) for r in results]


def find_place(device: str) -> Place:
    """Of ``cpu``, ``cuda`` or ``cuda:1``."""
    match = re.fullmatch(r"cuda(?::(\d+))?", device)
    if device == "cpu":
        return Host()
    if match is None:
        raise ArgumentError(f"there is no device `{device}`", help='device="cpu", "cuda" or "cuda:1"')
    from weft.graph.from_torch.arrays import TorchArrays
    from weft.graph.run.cuda_processor import cuda_processor

    return Gpu(TorchArrays(cuda_processor(int(match[1] or 0))), device)
