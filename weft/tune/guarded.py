"""Arrays whose surroundings are watched: they end at a page that nobody may touch, and known values stand before them.

What is written behind an array ends its process; what is written before it is seen by `Guarded.is_intact`.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from weft.ir.dtype import SCALAR_TYPES
from weft.ir.numpy_dtypes import to_numpy
from weft.runtime.argument import ArgumentInfo

_PAGE = mmap.PAGESIZE
_FENCE = 0xA5
_NO_ACCESS = 0


class Given(NamedTuple):
    """An array as plain data: the bytes of its extent, element [0, ..., 0] ``offset`` bytes behind their begin."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    data: bytes


def take(info: ArgumentInfo) -> Given:
    """What is in an array of this process."""
    low, high = info.extent
    data = ctypes.string_at(low, high - low) if high > low else b""
    return Given(info.dtype.name, info.shape, info.strides, info.pointer - low if data else 0, data)


def plain(given: Given) -> npt.NDArray[Any]:
    """The array in memory of its own, aligned as results of numpy are."""
    memory = np.empty(max(len(given.data), 1) + 64, np.uint8)
    start = -memory.ctypes.data % 64
    memory[start : start + len(given.data)] = np.frombuffer(given.data, np.uint8)
    return _array(memory, start, given)


class Guarded:
    """The array between guards."""

    def __init__(self, given: Given) -> None:
        size = len(given.data)
        body = -(-max(size, 1) // _PAGE) * _PAGE + _PAGE
        self._map = mmap.mmap(-1, body + _PAGE)
        memory: npt.NDArray[Any] = np.frombuffer(self._map, np.uint8)
        address, self._start = memory.ctypes.data, body - size
        memory[: self._start] = _FENCE
        memory[self._start : body] = np.frombuffer(given.data, np.uint8)
        self._before = memory[: self._start]
        self.array = _array(memory, self._start, given)
        _protect(address + body, _PAGE)

    @property
    def is_intact(self) -> bool:
        """Whether nothing before the array was written."""
        return bool((self._before == _FENCE).all())


def _array(memory: npt.NDArray[Any], start: int, given: Given) -> npt.NDArray[Any]:
    dtype = SCALAR_TYPES[given.dtype]
    strides = tuple(s * dtype.itemsize for s in given.strides)
    if 0 in given.shape:
        return np.empty(given.shape, to_numpy(dtype))
    made: npt.NDArray[Any] = np.ndarray(given.shape, to_numpy(dtype), memory, start + given.offset, strides)
    return made


def _protect(address: int, size: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), _NO_ACCESS):
        raise OSError(ctypes.get_errno(), "mprotect")
