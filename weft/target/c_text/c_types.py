"""How element types are called in CUDA C++.

A value of a narrow float is computed as a ``float`` that the narrow type can represent; in memory it is a
struct of its bits (see `weft.target.cuda.prelude`). A bool in memory is a byte.
"""

from __future__ import annotations

from weft.ir.dtype import DType

_INTEGERS = {
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "uint64": "unsigned long long",
}


def value_type(dtype: DType) -> str:
    """The C type a value of ``dtype`` is computed in."""
    if dtype.is_bool:
        return "bool"
    if dtype.is_integer:
        return _INTEGERS[dtype.name]
    return "double" if dtype.bits == 64 else "float"


def storage_type(dtype: DType) -> str:
    """The C type of one element of ``dtype`` in memory."""
    if dtype.is_bool:
        return "unsigned char"
    return dtype.name if dtype.is_narrow_float else value_type(dtype)
