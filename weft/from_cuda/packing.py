"""Numbers as the bytes that CUDA's arguments and variables hold them as."""

from __future__ import annotations

import struct

from weft.ir import dtype as dt
from weft.ir.dtype import DType

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
