"""GPU memory of our own, for callers whose framework cannot give any: results of calls with plain DLPack arrays."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np

from weft.ir.dtype import DType
from weft.ir.errors import ArgumentError
from weft.ir.numpy_dtypes import from_numpy, to_numpy
from weft.runtime.argument import ArgumentInfo
from weft.runtime.cuda_arrays import order_streams
from weft.runtime.cuda_device import find_device
from weft.runtime.cuda_driver import LEGACY_STREAM, ask, driver
from weft.runtime.dlpack import CUDA, make_capsule


class DeviceArray:
    """A dense array on a GPU that others take as it is: it speaks DLPack and the CUDA array interface.

    >>> jax.numpy.from_dlpack(op(x))
    """

    def __init__(self, dtype: DType, shape: tuple[int, ...], device: int) -> None:
        self.weft_dtype, self.shape, self.device = dtype, shape, device
        self.nbytes = math.prod(shape) * dtype.itemsize
        place = find_device(device)
        with place.current():
            self.pointer = int(ask("cuMemAllocAsync", max(self.nbytes, 1), LEGACY_STREAM))
        weakref.finalize(self, _free, driver(), place.context, self.pointer).atexit = False

    @staticmethod
    def from_numpy(array: Any, device: int = 0) -> DeviceArray:
        """A copy of an array on GPU number ``device``."""
        host = np.ascontiguousarray(array)
        dtype = from_numpy(host.dtype)
        if dtype is None:
            raise ArgumentError(
                f"an array of {host.dtype} cannot be copied to a GPU", why="Weft does not compute with its elements"
            )
        made = DeviceArray(dtype, np.shape(array), device)
        with find_device(device).current():
            ask("cuMemcpyHtoD", made.pointer, host.ctypes.data, made.nbytes)
        return made

    @property
    def dtype(self) -> np.dtype[Any]:
        return to_numpy(self.weft_dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "strides": None,
            "stream": LEGACY_STREAM,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.device

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> Any:
        if stream not in (None, -1, 0, LEGACY_STREAM):
            from weft.runtime.cuda_driver import wait_for

            with find_device(self.device).current():
                wait_for(stream or 0, LEGACY_STREAM)
        return make_capsule(self, self.pointer, self.device, self.weft_dtype, self.shape)

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy on the CPU; waits for the GPU."""
        host = np.empty(self.shape, self.dtype)
        with find_device(self.device).current():
            ask("cuMemcpyDtoH", host.ctypes.data, self.pointer, self.nbytes)
        return host

    def fill(self, value: int | float | bool, stream: int) -> None:
        """Sets every element, in the order of ``stream``."""
        element = np.array(value, self.dtype).tobytes()
        count, size = math.prod(self.shape), len(element)
        if size == 8 and element[:4] == element[4:]:
            count, size = count * 2, 4
        with find_device(self.device).current():
            if size == 8:
                host = np.full(self.shape, value, self.dtype)
                ask("cuMemcpyHtoD", self.pointer, host.ctypes.data, self.nbytes)
            elif count:
                bits = int.from_bytes(element[:size], "little")
                ask(f"cuMemsetD{size * 8}Async", self.pointer, bits, count, stream)

    def __repr__(self) -> str:
        return f"<weft array of {self.weft_dtype} {list(self.shape)} on cuda:{self.device}>"


def copy_dense_array(info: ArgumentInfo) -> DeviceArray:
    """A copy of a dense array on a GPU."""
    device = int(info.device[5:])
    made = DeviceArray(info.dtype, info.shape, device)
    with find_device(device).current():
        order_streams([info], LEGACY_STREAM)
        ask("cuMemcpyDtoDAsync", made.pointer, info.pointer, made.nbytes, LEGACY_STREAM)
    return made


def _free(api: Any, context: Any, pointer: int) -> None:
    """Runs whenever Python collects garbage: it takes no lock, imports nothing and raises nothing."""
    api.cuCtxPushCurrent(context)
    api.cuMemFreeAsync(pointer, LEGACY_STREAM)
    api.cuCtxPopCurrent()
