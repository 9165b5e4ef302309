"""Numbers as the bytes that CUDA's arguments and variables hold them as."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from weft.from_cuda.types import Array, CType, Record, Scalar
from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.errors import ArgumentError

_FORMATS = {
    dt.bool_: "?", dt.int8: "b", dt.uint8: "B", dt.int16: "h", dt.uint16: "H", dt.int32: "i", dt.uint32: "I",
    dt.int64: "q", dt.uint64: "Q", dt.float16: "e", dt.float32: "f", dt.float64: "d",
}  # fmt: skip


def pack(value: int | float | bool, dtype: DType) -> bytes:
    """A number as CUDA's arguments hold it."""
    if dtype == dt.bfloat16:
        return struct.pack("<f", value)[2:]
    return struct.pack(f"<{_FORMATS[dtype]}", value)


def unpack(raw: bytes, offset: int, dtype: DType) -> int | float:
    part = raw[offset : offset + dtype.itemsize]
    if dtype == dt.bfloat16:
        return float(struct.unpack("<f", b"\0\0" + part)[0])
    found: int | float = struct.unpack(f"<{_FORMATS[dtype]}", part)[0]
    return found


def pack_record(type: Record, value: Any, name: str) -> bytes:
    """A record: its bytes (a numpy record has them), or its fields in their order, as a tuple or a list."""
    if isinstance(value, (tuple, list)):
        return bytes(_parts(type, value, name, bytearray(type.size)))
    given = _bytes_of(value)
    if given is None or len(given) != type.size:
        got = f"a {value.__class__.__name__}" if given is None else f"{len(given)} bytes"
        raise ArgumentError(
            f"argument `{name}` must have {type.size} bytes, got {got}", why=f"it is a {type.name}",
            help=f"give a tuple ({', '.join(f.name for f in type.fields)}), or a numpy record",
        )  # fmt: skip
    return given


def _bytes_of(value: Any) -> bytes | None:
    if hasattr(value, "tobytes"):
        made: bytes = value.tobytes()
        return made
    return bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else None


def _parts(type: Record, values: Sequence[Any], name: str, into: bytearray) -> bytearray:
    if len(values) != len(type.fields) or type.is_union:
        what = "which is a union" if type.is_union else f"which has {len(type.fields)} fields"
        raise ArgumentError(
            f"argument `{name}` was given {len(values)} values for a {type.name}, {what}",
            help=f"give its {type.size} bytes, or a tuple ({', '.join(f.name for f in type.fields)})",
        )
    for field, value in zip(type.fields, values):
        packed = _pack_as(field.type, value, f"{name}.{field.name}")
        into[field.offset : field.offset + len(packed)] = packed
    return into


def _pack_as(type: CType, value: Any, name: str) -> bytes:
    match type:
        case Record():
            return pack_record(type, value, name)
        case Array() if isinstance(value, (tuple, list)) and len(value) == type.count:
            return b"".join(_pack_as(type.of, v, name) for v in value)
        case Scalar():
            try:
                return pack(value, type.dtype)
            except (struct.error, TypeError, OverflowError) as error:
                raise ArgumentError(f"`{name}` cannot be {value!r}", why=f"it is a {type.name}: {error}") from None
    raise ArgumentError(
        f"`{name}` cannot be given as {value!r}", why="fields of a tuple are numbers, and tuples of them",
        help="give the bytes of the whole record",
    )  # fmt: skip
