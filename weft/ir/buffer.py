"""Buffers: named, typed, shaped memory in a scope."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.errors import InternalError
from weft.ir.expr import Const, Expr, idx
from weft.ir.quick_init import quick_init
from weft.ir.span import Span

#: The name of a memory: see `weft.ir.memory`.
Scope = str


@quick_init
@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory for ``shape`` elements of ``dtype``.

    ``strides`` are in elements and may be zero or negative (index 0 is where the pointer
    points); None means dense, last dimension fastest. ``scope`` says who sees it and where
    it lives: ``global`` memory, ``shared`` by the threads of a block, ``register`` values of
    one thread (indices constant after unrolling), ``constant`` read-only, ``local`` a
    thread's own memory; or any other that a machine has (`weft.ir.memory`).
    """

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...] | None = None
    scope: Scope = "global"
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        for e in (*self.shape, *(self.strides or ())):
            if e.dtype != dt.index:
                raise InternalError(f"cannot build buffer {self.name}", why=f"sizes are int64, got {e.dtype}")
        if self.strides is not None and len(self.strides) != len(self.shape):
            raise InternalError(f"cannot build buffer {self.name}", why="as many strides as dimensions are needed")
        if not self.scope.isidentifier():
            raise InternalError(f"cannot build buffer {self.name}", why=f"`{self.scope}` is no name of a scope")

    @property
    def rank(self) -> int:
        return len(self.shape)

    def element_strides(self) -> tuple[Expr, ...]:
        """The strides in elements, made from the shape where the buffer is dense."""
        return self.strides if self.strides is not None else dense_strides(self.shape)

    def element_count(self) -> int | None:
        """Elements from the first to the last, holes of its strides included; None where that is not a number."""
        last = 0
        for size, stride in zip(self.shape, self.element_strides()):
            if not isinstance(size, Const) or not isinstance(stride, Const):
                return None
            if int(size.value) <= 0:
                return 0
            last += (int(size.value) - 1) * int(stride.value)
        return last + 1

    def byte_count(self) -> int | None:
        """The bytes of as many elements."""
        count = self.element_count()
        return None if count is None else count * self.dtype.itemsize


def dense_strides(shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    strides: list[Expr] = []
    step: Expr = idx(1)
    for size in reversed(shape):
        strides.append(step)
        if isinstance(step, Const) and isinstance(size, Const):
            step = idx(int(step.value) * int(size.value))
        else:
            step = step * size
    return tuple(reversed(strides))
