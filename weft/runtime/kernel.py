"""A compiled kernel in memory, called the plain way: through ctypes, with pointers and numbers.

The calling convention is one pointer to 8-byte slots, one a parameter, and one more for the
record that a failing assert writes its values to. `fastcall` builds on the same entry.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

from weft.ir.asserts import format_message
from weft.ir.dtype import DType
from weft.ir.errors import Error, IndexOutOfRange, InternalError, ProgramError, TargetError
from weft.ir.span import Span
from weft.runtime.loader import LoadedObject, load_object
from weft.runtime.native import RUNTIME_SYMBOLS

RECORD_LENGTH = 8
_Entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


class LoadedKernel:
    """Machine code of one kernel; ``params`` has a type for each scalar and None for each buffer.

    ``messages`` and ``spans`` say what each assert means and where it stands.
    """

    def __init__(
        self,
        code: LoadedObject,
        entry: str,
        params: Sequence[DType | None],
        messages: Sequence[str] = (),
        spans: Sequence[Span | None] = (),
    ) -> None:
        self.code = code
        self.address = code.address(entry)
        self.params = tuple(params)
        self.messages = tuple(messages)
        self.spans = tuple(spans) or (None,) * len(self.messages)
        self._entry = _Entry(self.address)

    def run(self, values: Sequence[int | float]) -> None:
        """One call; a buffer is given by the address of its element [0, ..., 0]. The GIL is released."""
        record = (ctypes.c_int64 * RECORD_LENGTH)()
        slots = pack_slots(self.params, values, ctypes.addressof(record))
        status = self._entry(ctypes.addressof(slots))
        if status:
            raise self.error(status, list(record))

    def error(self, status: int, record: Sequence[int]) -> Error:
        """The error that a non-zero status stands for."""
        return status_error(status, record, self.messages, self.spans)


def load_kernel(
    object_bytes: bytes,
    entry: str,
    params: Sequence[DType | None],
    messages: Sequence[str] = (),
    spans: Sequence[Span | None] = (),
) -> LoadedKernel:
    """Object code placed in memory, linked against the runtime."""
    return LoadedKernel(load_object(object_bytes, RUNTIME_SYMBOLS), entry, params, messages, spans)


def pack_slots(params: Sequence[DType | None], values: Sequence[int | float], record: int) -> Any:
    """The argument slots of a call, as a ctypes array."""
    if len(params) != len(values):
        raise InternalError(f"a kernel of {len(params)} parameters was called with {len(values)} values")
    return (ctypes.c_uint64 * (len(values) + 1))(*slot_bits(params, values), record)


def slot_bits(params: Sequence[DType | None], values: Sequence[int | float]) -> list[int]:
    """What the slots of parameters of these types hold: an address, or the bits of a number."""
    return [int(v) if dtype is None else scalar_bits(dtype, v) for dtype, v in zip(params, values)]


def scalar_bits(dtype: DType, value: int | float) -> int:
    """The 8 bytes a scalar is passed in: floats up to 32 bits as a float32, integers extended."""
    if not dtype.is_float:
        return int(value) & (1 << 64) - 1
    if dtype.bits == 64:
        return int.from_bytes(struct.pack("<d", value), "little")
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return 0xFF800000 if value < 0 else 0x7F800000


def status_error(
    status: int, record: Sequence[int], messages: Sequence[str], spans: Sequence[Span | None] = ()
) -> Error:
    """The error that a kernel's non-zero status stands for."""
    if status == -1:
        return TargetError(
            "out of memory while a kernel ran",
            why="a temporary array could not be allocated",
            help="free memory or use smaller sizes",
        )
    if not 1 <= status <= len(messages):
        return InternalError(f"a kernel returned the unknown status {status}")
    span, message = spans[status - 1] if spans else None, format_message(messages[status - 1], record)
    if message.startswith("assertion "):  # of a CUDA source
        return ProgramError(message, span=span)
    return IndexOutOfRange(
        message,
        span=span,
        why="indices count from 0 and stay below the size; negative ones do not count from the end",
    )
