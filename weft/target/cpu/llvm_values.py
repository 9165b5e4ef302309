"""Operands of LLVM instructions: values with their type, and constants written exactly."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from weft.target.cpu.llvm_types import element_of, lanes_of


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
