"""The functions of the intrinsics table, on values of programs written in Python."""

from __future__ import annotations

from collections.abc import Callable

from weft.ir.intrinsics import INTRINSICS
from weft.tensor.value import Operand, Value, call


def _intrinsic(name: str) -> Callable[..., Value]:
    def apply(*args: Operand) -> Value:
        return call(name, *args)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"`{name}` of the intrinsics table."
    return apply


globals().update({name: _intrinsic(name) for name in INTRINSICS})

__all__ = [*INTRINSICS]
