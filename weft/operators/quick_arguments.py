"""Arguments of a call on a GPU, read as quickly as Python can: what they look like, and the values a kernel gets.

Only what is usual is read here; anything else raises `Unusual`, and the call is checked the careful way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from weft.ir.dtype import SCALAR_TYPES
from weft.operators.interface import Parameter
from weft.operators.stages import ALIGNMENT

#: Takes an array, adds to a list all that its code depends on, and gives its address.
Reader = Callable[[Any, list[Any]], int]
_LOW_BITS = ALIGNMENT - 1


class Unusual(Exception):
    """Not an argument that can be taken quickly."""


class QuickRule(NamedTuple):
    """A parameter that is a number: its Python types and, for integers, its range."""

    kinds: tuple[type, ...]
    least: float
    most: float
    is_constant: bool

    def checked(self, value: Any) -> Any:
        if type(value) not in self.kinds or not self.least <= value <= self.most:
            raise Unusual
        return value


def quick_rule(param: Parameter) -> QuickRule:
    dtype = SCALAR_TYPES[param.dtype]
    if dtype.is_bool:
        return QuickRule((bool,), 0, 1, False)
    if dtype.is_integer:
        return QuickRule((int,), dtype.min_value, dtype.max_value, param.role == "constant")
    largest = float("inf") if dtype.bits == 64 else 3.4e38  # beyond, rounding decides
    return QuickRule((float, int), -largest, largest, False)


def quick_reader(kind: type) -> Reader:
    """How arrays of class ``kind`` are read."""
    found = _readers.get(kind)
    if found is None:
        found = _readers[kind] = _choose_reader(kind)
    return found


def _choose_reader(kind: type) -> Reader:
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and kind in (torch.Tensor, torch.nn.Parameter):
        return _torch_reader(torch)
    if cupy is not None and kind is cupy.ndarray:
        return _read_cupy
    return _refuse


def _torch_reader(torch: Any) -> Reader:
    grad_enabled = torch.is_grad_enabled

    def read(tensor: Any, key: list[Any]) -> int:
        if tensor.requires_grad and grad_enabled():
            raise Unusual
        pointer: int = tensor.data_ptr()
        key += (
            tensor.dtype, tensor.shape, tensor.stride(), tensor.get_device(), tensor.is_neg(), pointer & _LOW_BITS
        )  # fmt: skip
        return pointer

    return read


def _read_cupy(array: Any, key: list[Any]) -> int:
    pointer: int = array.data.ptr
    key += (array.dtype, array.shape, array.strides, array.data.device_id, pointer & _LOW_BITS)
    return pointer


def _refuse(value: Any, key: list[Any]) -> int:
    raise Unusual


_readers: dict[type, Reader] = {}
