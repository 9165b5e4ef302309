"""DLPack capsules: memory that one framework shows another, read and made without either's help.

A capsule holds a C structure that describes an array and says how to give it back. One that is read here stays
with whoever made it: when the last reference goes, the capsule itself gives the memory back.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.errors import InternalError
from weft.runtime.argument import dense_strides

CUDA = 2
_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"
_READ_ONLY = 1
_CODES: dict[int, dt.Kind] = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool", 10: "e4m3fn", 12: "e5m2"}
_NUMBERS = {kind: number for number, kind in _CODES.items()}


def dlpack_type(dtype: DType) -> int:
    """The four bytes of a DLDataType: what kind it is, how many bits, how many lanes."""
    return _NUMBERS[dtype.kind] | dtype.itemsize * 8 << 8 | 1 << 16


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


class Shown(NamedTuple):
    """What a capsule says of an array; ``dtype`` is None where Weft has no such type."""

    pointer: int
    device: int
    dtype: DType | None
    type_name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writable: bool


class Held:
    """Keeps a capsule, and lets go of it in a finalizer: Python puts an error that is under way aside for one, but
    not for what a capsule runs when it goes."""

    __slots__ = ("capsule",)

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __del__(self) -> None:
        self.capsule = None


def read_capsule(capsule: Any) -> Shown:
    """The array that ``capsule`` describes; keep the capsule as long as the memory is used."""
    api = ctypes.pythonapi
    name = _VERSIONED if _is_valid(capsule, _VERSIONED) else _PLAIN
    if not _is_valid(capsule, name):
        raise InternalError("a DLPack capsule cannot be read", why="it was used before, or is none")
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    address = get(capsule, name)
    if name == _VERSIONED:
        versioned = _ManagedVersioned.from_address(address)
        return _shown(versioned.tensor, writable=not versioned.flags & _READ_ONLY)
    return _shown(_Managed.from_address(address).tensor, writable=True)


def _is_valid(capsule: Any, name: bytes) -> bool:
    check = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
    return bool(check(capsule, name))


def _shown(tensor: _Tensor, *, writable: bool) -> Shown:
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else dense_strides(shape)
    kind = _CODES.get(tensor.code)
    name = f"type {tensor.code} of {tensor.bits}" if kind is None else DType(kind, tensor.bits).name
    name += f"x{tensor.lanes}" if tensor.lanes != 1 else ""
    dtype = dt.SCALAR_TYPES.get(name)
    return Shown((tensor.data or 0) + tensor.byte_offset, tensor.device, dtype, name, shape, strides, writable)


#: Arrays shown to others, by the address of the structure that describes them, until they are given back.
_lent: dict[int, tuple[Any, ...]] = {}


def _give_back(address: int) -> None:
    _lent.pop(address, None)


def _drop_unused(capsule: int) -> None:
    """A capsule that nobody took: whoever takes one renames it, and then gives the memory back by its deleter."""
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
    if valid(capsule, _PLAIN):
        _lent.pop(get(capsule, _PLAIN), None)


_give_back_function = _Deleter(_give_back)
_drop_unused_function = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_drop_unused)


def make_capsule(owner: Any, pointer: int, device: int, dtype: DType, shape: tuple[int, ...]) -> Any:
    """A capsule for a dense array on GPU number ``device``; ``owner`` lives until it is given back."""
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    strides = (ctypes.c_int64 * len(shape))(*dense_strides(shape))
    tensor = _Tensor(pointer, CUDA, device, len(shape), _NUMBERS[dtype.kind], dtype.itemsize * 8, 1, sizes, strides, 0)
    managed = _Managed(tensor, None, _give_back_function)
    address = ctypes.addressof(managed)
    _lent[address] = (managed, sizes, strides, owner)
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    return new(address, _PLAIN, ctypes.cast(_drop_unused_function, ctypes.c_void_p))
