"""Floats of few bits that arrays hold as numbers: what each code stands for, as a float32.

Arrays of such floats come as bytes, two elements of 4 bits in each, or as scales of blocks that are powers of two.
Each is integer arithmetic and a look at bits, so targets need to know nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.ir import dtype as dt
from weft.ir.expr import Binary, Call, Compare, Expr, Select, cast, const
from weft.ir.intrinsics import REINTERPRET


def _int(value: int) -> Expr:
    return const(value, dt.int32)


def _float(bits: Expr) -> Expr:
    return Call(REINTERPRET, (bits,), dt.float32)


def _float4_e2m1fn(code: Expr) -> Expr:
    """A sign, two bits of exponent, one of fraction: 0, 0.5, 1, 1.5, 2, 3, 4, 6. Its bits are the middle of a float's,
    but for the two numbers without a leading one."""
    size = Binary("&", code, _int(7))
    whole = _float(Binary("<<", size, _int(22)) + _int(126 << 23))
    value = Select(Compare("<", size, _int(2)), cast(dt.float32, size) * 0.5, whole)
    return Select(Compare("==", Binary("&", code, _int(8)), _int(0)), value, -value)


def _float8_e8m0fnu(code: Expr) -> Expr:
    """2 to the power of the code less 127; 255 is no number. The least is half of what an exponent of 0 would be."""
    power = Binary("&", code, _int(255))
    least, none = _int(1 << 22), _int(0x7FC00000)
    lowest = Select(Compare("==", power, _int(0)), least, Binary("<<", power, _int(23)))
    return _float(Select(Compare("==", power, _int(255)), none, lowest))


#: What an int32 stands for whose low bits are a code, or that has the bits of a float.
CODES: dict[str, Callable[[Expr], Expr]] = {
    "as_float32": _float,
    "as_float4_e2m1fn": _float4_e2m1fn,
    "as_float8_e8m0fnu": _float8_e8m0fnu,
}
