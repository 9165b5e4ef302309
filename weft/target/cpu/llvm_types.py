"""LLVM's spelling of types: ``float``, ``i64``, ``ptr``, ``<16 x float>``."""

from __future__ import annotations

from functools import cache

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
