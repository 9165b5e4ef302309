"""What the fast call compares arguments with, written down as its machine code reads it."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from weft.ir.dtype import DType
from weft.ir.numpy_dtypes import to_numpy
from weft.runtime import fastcall_text as text
from weft.runtime.argument import dense_strides
from weft.runtime.dlpack import dlpack_type


class DeviceMemory(NamedTuple):
    """Where an array on a GPU is: on device number ``device``, its address ``offset`` beyond a multiple of
    ``alignment``, made by the framework of that number (`fastcall_native.Exchange`). ``make`` makes another one."""

    device: int
    framework: int
    alignment: int
    offset: int = 0
    make: Callable[[], Any] | None = None


class TensorLayout(NamedTuple):
    """An array argument: exactly this type, shape and strides (in elements); on the CPU, or as ``memory`` says.

    Of a table without outputs, arguments may be ``written``. ``framework`` is the number of the only one whose arrays
    are meant, 0 where it does not matter.
    """

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    memory: DeviceMemory | None = None
    written: bool = False
    framework: int = 0

    @property
    def is_dense(self) -> bool:
        wanted = zip(self.shape, self.strides, dense_strides(self.shape))
        return 0 in self.shape or all(size == 1 or stride == step for size, stride, step in wanted)


class ScalarType(NamedTuple):
    """A number passed to the kernel."""

    dtype: DType


class ConstantValue(NamedTuple):
    """An integer the code was specialized for: exactly this value."""

    value: int


ArgumentRule: TypeAlias = "TensorLayout | ScalarType | ConstantValue"


class Records:
    """Structures of machine code, and everything they point at; all of it stays as long as this object."""

    def __init__(self) -> None:
        self._kept: list[object] = []

    def words(self, values: Iterable[int]) -> int:
        """The address of eight-byte words."""
        listed = list(values)
        made = (ctypes.c_int64 * len(listed))(*listed)
        self._kept.append(made)
        return ctypes.addressof(made)

    def address_of(self, value: object) -> int:
        """The address of a Python object."""
        self._kept.append(value)
        return id(value)

    def record(self, rule: ArgumentRule, slot: int, *, allocate: bool = False, with_torch: bool = False) -> list[int]:
        """The fields of an argument or, where it may have to be made (``allocate``), of an output."""
        fields = dict.fromkeys(text.RECORD, 0) | {"slot": slot}
        if isinstance(rule, ConstantValue):
            fields |= {"kind": text.INTEGER, "least": rule.value, "most": rule.value}
        elif isinstance(rule, ScalarType):
            fields |= _scalar_fields(rule.dtype)
        else:
            fields |= self._tensor_fields(rule)
            if allocate:
                fields |= self._allocation_fields(rule, with_torch)
        return list(fields.values())

    def _tensor_fields(self, layout: TensorLayout) -> dict[str, int]:
        size = layout.dtype.itemsize
        reach = [(n - 1) * s * size for n, s in zip(layout.shape, layout.strides)]
        is_empty = 0 in layout.shape
        return {
            "kind": text.TENSOR,
            "ndim": len(layout.shape),
            "dlpack": dlpack_type(layout.dtype),
            "low": 0 if is_empty else sum(r for r in reach if r < 0),
            "high": 0 if is_empty else sum(r for r in reach if r > 0) + size,
            "written": layout.written,
            "dims": self.words(layout.shape),
            "strides": self.words(s * size for s in layout.strides),
            "elements": self.words(layout.strides),
            "keep": self.words(-(n > 1 and not is_empty) for n in layout.shape),
            **(self._host_fields(layout) if layout.memory is None else _device_fields(layout.memory)),
        }

    def _host_fields(self, layout: TensorLayout) -> dict[str, int]:
        numpy_type, size = to_numpy(layout.dtype), layout.dtype.itemsize
        twins = {"l": "q", "q": "l", "L": "Q", "Q": "L"}  # two names of the 64-bit integers
        other = np.dtype(twins.get(numpy_type.char, numpy_type.char)) if layout.dtype.is_integer else numpy_type
        return {
            "type": numpy_type.num,
            "other_type": other.num if other.itemsize == size else numpy_type.num,
            "descr": self.address_of(numpy_type),
            "framework": layout.framework,
            "place": text.ON_CPU,
            "mask": size - 1,
        }

    def _allocation_fields(self, layout: TensorLayout, with_torch: bool) -> dict[str, int]:
        make = _torch_maker(layout) if layout.memory is None and with_torch else layout.memory and layout.memory.make
        if not make:
            return {}
        if isinstance(make, functools.partial) and not make.keywords:
            function, args = make.func, make.args
        else:
            function, args = make, ()
        return {"maker": self.address_of(function), "maker_args": self.address_of(args)}


def _device_fields(memory: DeviceMemory) -> dict[str, int]:
    return {
        "framework": memory.framework,
        "place": text.ON_CUDA | memory.device << 32,
        "mask": memory.alignment - 1,
        "offset": memory.offset,
    }


def _torch_maker(layout: TensorLayout) -> Callable[[], Any]:
    torch = sys.modules["torch"]
    one = () if 0 not in layout.shape else layout.shape
    prototype = torch.empty(one, dtype=getattr(torch, layout.dtype.name), device="cpu").expand(layout.shape)
    return functools.partial(torch.empty_like, prototype)


def _scalar_fields(dtype: DType) -> dict[str, int]:
    if dtype.is_bool:
        return {"kind": text.BOOL}
    if dtype.is_float:
        return {"kind": text.FLOAT64 if dtype.bits == 64 else text.FLOAT32}
    # What int64 cannot hold goes the slow way.
    return {"kind": text.INTEGER, "least": dtype.min_value, "most": min(dtype.max_value, (1 << 63) - 1)}
