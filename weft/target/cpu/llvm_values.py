"""LLVM's spelling of types (``float``, ``i64``, ``ptr``, ``<16 x float>``) and of the operands of instructions.

An operand is a value with its type; constants are written exactly.
"""

from __future__ import annotations

import struct
from functools import cache, lru_cache
from typing import NamedTuple

from weft.ir.dtype import DType

_BITS = {"float": 32, "double": 64, "half": 16, "bfloat": 16, "ptr": 64}


@cache
def lanes_of(type: str) -> int:
    """1 for a scalar."""
    return int(type[1 : type.index("x")]) if type.startswith("<") else 1


@cache
def element_of(type: str) -> str:
    return type[type.index("x") + 2 : -1] if type.startswith("<") else type


@cache
def vector(element: str, lanes: int) -> str:
    """``element`` itself for one lane."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


@cache
def bits_of(type: str) -> int:
    """Bits of one element."""
    element = element_of(type)
    return _BITS[element] if element in _BITS else int(element[1:])


@cache
def llvm_type(dtype: DType) -> str:
    """The type of a value in a register: bool is i1, narrow floats keep their storage type."""
    if dtype.is_bool:
        element = "i1"
    elif dtype.is_integer:
        element = f"i{dtype.bits}"
    elif dtype.kind == "bfloat":
        element = "bfloat"
    else:
        element = {16: "half", 32: "float", 64: "double"}[dtype.bits]
    return vector(element, dtype.lanes)


@cache
def mangled(type: str) -> str:
    """How intrinsic names spell a type: ``v4f32``, ``i64``, ``p0``."""
    element, lanes = element_of(type), lanes_of(type)
    names = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}
    return (f"v{lanes}" if lanes > 1 else "") + names.get(element, element)


@cache
def element_align(type: str) -> int:
    """Bytes an element of ``type`` is surely aligned to."""
    return max(bits_of(element_of(type)), 8) // 8


class Value(NamedTuple):
    """An operand: how it is written, and its LLVM type."""

    text: str
    type: str

    @property
    def typed(self) -> str:
        return f"{self.type} {self.text}"

    @property
    def lanes(self) -> int:
        return lanes_of(self.type)

    @property
    def element(self) -> str:
        return element_of(self.type)


@lru_cache(maxsize=4096, typed=True)
def _scalar_text_kept(element: str, number: float | int | bool) -> str:
    return _scalar_text(element, number)


def constant(type: str, number: float | int | bool) -> Value:
    """``number`` as a constant of ``type``, splatted over a vector; floats are rounded to the type, then exact.

    An integer given for a float32 or float64 type counts as its value, not as its bits.
    """
    element, lanes = element_of(type), lanes_of(type)
    # Zeros of either sign are equal keys, so floats are written anew.
    text = _scalar_text(element, number) if isinstance(number, float) else _scalar_text_kept(element, number)
    return Value(text if lanes == 1 else f"splat ({element} {text})", type)


def _scalar_text(element: str, number: float | int | bool) -> str:
    if element == "i1":
        return "true" if number else "false"
    if element.startswith("i"):
        return str(int(number))
    if element == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', number))[0]:04X}"
    if element == "bfloat":
        return f"0xR{_bfloat_bits(float(number)):04X}"
    if element == "float":
        number = _round_to_float(float(number))
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def _bfloat_bits(number: float) -> int:
    """Round to nearest even; a NaN stays one."""
    if number != number:
        return 0x7FC0
    bits = int(struct.unpack("<I", struct.pack("<f", _round_to_float(number)))[0])
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _round_to_float(number: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
