"""An array as kernels see it, whoever made it and wherever its memory is."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from weft.ir.dtype import DType
from weft.ir.errors import ArgumentError, UnsupportedError
from weft.ir.span import Span

#: Whose arrays a call takes and gives; "dlpack" is everybody else who shares memory of a GPU.
Framework = Literal["numpy", "torch", "cupy", "dlpack"]


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """How many elements apart neighbours are in each dimension of a row-major array."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


class ArgumentInfo(NamedTuple):
    """An array as kernels see it; ``strides`` count elements, ``pointer`` is element [0, ..., 0].

    ``owner`` keeps the memory alive, ``memory`` too where it is not the caller's array itself. ``device`` is "cpu" or
    "cuda:0". ``note`` says where a copy had to be made. Data on a GPU is there once ``stream`` has come so far, where
    one is given.
    """

    framework: Framework
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    pointer: int
    writable: bool
    owner: Any
    device: str = "cpu"
    note: str | None = None
    stream: int | None = None
    memory: Any = None

    @property
    def extent(self) -> tuple[int, int]:
        """First byte and one past the last byte any element occupies; equal when there are none."""
        if 0 in self.shape:
            return self.pointer, self.pointer
        reach = [(n - 1) * s for n, s in zip(self.shape, self.strides)]
        low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
        size = self.dtype.itemsize
        return self.pointer + low * size, self.pointer + (high + 1) * size


class Place(NamedTuple):
    """Which argument an error is about."""

    name: str
    span: Span | None

    def error(self, what: str, *, why: str | None = None, help: str | None = None) -> ArgumentError:
        return ArgumentError(f"argument `{self.name}` {what}", span=self.span, why=why, help=help)

    def unknown_type(self, name: object) -> UnsupportedError:
        """The error for elements of a type called ``name``."""
        return UnsupportedError(
            f"argument `{self.name}` is {name}, which Weft does not compute with",
            span=self.span,
            help="use float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64, bool or an integer type",
        )
