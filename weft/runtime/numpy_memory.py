"""What numpy exports to C, and the allocator that arrays with memory of ours name as theirs (numpy's NEP 49)."""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

import numpy as np

from weft.ir.errors import InternalError
from weft.runtime.native import memory_function

#: Where an array has its flags and the allocator that owns its memory, in bytes, and two of the flags.
FLAGS, ALLOCATOR = 64, 88
CARRAY, OWNS_DATA = 0x501, 0x4
#: Places in numpy's table of what it exports.
NEW_ARRAY, CHOSEN_ALLOCATOR, USUAL_ALLOCATOR = 94, 305, 306

_NAME = b"mem_handler"


class _Allocator(ctypes.Structure):
    """numpy's PyDataMem_Handler."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in ("malloc", "calloc", "realloc", "free")),
    )


def exported(place: int) -> int:
    """What numpy exports to C at a place of its table."""
    multiarray: Any = sys.modules.get("numpy._core.multiarray") or sys.modules["numpy.core.multiarray"]
    table = capsule_pointer(multiarray._ARRAY_API, None)
    if ctypes.c_uint64.from_address(table + 2 * 8).value != id(np.ndarray):
        raise InternalError("numpy's function table is not the known one")
    return ctypes.c_uint64.from_address(table + 8 * place).value


def capsule_pointer(capsule: Any, name: bytes | None) -> int:
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    return int(prototype(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, name))


def usual_allocator() -> int:
    """The object that stands for numpy's own allocator, where arrays keep it at the known place; else 0."""
    usual = ctypes.c_uint64.from_address(exported(USUAL_ALLOCATOR)).value
    array = np.empty(1)
    kept = ctypes.c_uint64.from_address(id(array) + ALLOCATOR).value
    return usual if usual == kept else 0


@functools.cache
def own_allocator() -> object:
    """The object that stands for ours."""
    functions = {name: memory_function(f"weft_numpy_{name}") for name in ("malloc", "calloc", "realloc", "free")}
    _immortal.append(_Allocator(name=b"weft", version=1, **functions))
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return prototype(("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(_immortal[0]), _NAME, None)


#: Arrays refer to it until they end, which may be after everything else.
_immortal: list[_Allocator] = []
