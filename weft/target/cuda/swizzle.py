"""Swizzled shared memory: rows of 128 bytes whose 16-byte pieces are permuted, differently in each of 8 rows.

Threads that read (or write) the same piece of neighbouring rows then find them in different banks, without padding.
The permutation is the one that matrix instructions of warp groups expect: bits 4 to 6 of an address are combined with
bits 7 to 9. Where an element lies is nobody's business but the code's, so this is no part of the program: every
address of such a buffer goes through `SWIZZLE`.
"""

from __future__ import annotations

from collections.abc import Collection

from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Const, Load, idx
from weft.ir.hardware import BULK_COPY, HARDWARE
from weft.ir.nesting import statements_in
from weft.ir.stmt import Evaluate, Stmt, Tensorized
from weft.ir.visit import stores, walk

#: Bytes of a row, and after how many the pattern begins again.
ROW, SWIZZLE_ALIGN = 128, 1024

SWIZZLE = """template <class T> __device__ __forceinline__ T* swizzle(T* p, int offset) {
  const int bytes = offset * (int)sizeof(T);
  return reinterpret_cast<T*>(reinterpret_cast<char*>(p) + (bytes ^ (bytes >> 3 & 0x70)));
}"""


def find_swizzled(body: Stmt, nests: Collection[str] = ()) -> frozenset[str]:
    """The shared buffers that matrix instructions of warp groups read, where rows are as these need them, and those
    that the copy engine fills.

    These are calls; ``nests`` are the intrinsics whose nests are to be such calls.
    """
    filled = [n for s in statements_in(body, Tensorized) if s.intrinsic == BULK_COPY for n in stores(s)]
    users = [n for n in statements_in(body, Evaluate) if _needs_groups(n.call.name)]
    later = [n for n in statements_in(body, Tensorized) if n.intrinsic in nests and _needs_groups(n.intrinsic)]
    read = [n for user in (*users, *later) for n in walk(user) if isinstance(n, (Load, AddressOf))]
    touched = [n.buffer for n in (*read, *filled)]
    return frozenset(b.name for b in touched if b.scope == "shared" and has_rows(b))


def _needs_groups(intrinsic: str) -> bool:
    return intrinsic in HARDWARE and "wgmma" in HARDWARE[intrinsic].needs


def has_rows(buffer: Buffer) -> bool:
    """Whether ``buffer`` is made of whole rows of 128 bytes."""
    length = ROW // buffer.dtype.itemsize
    *outer, last = buffer.element_strides()
    if buffer.shape[-1] != idx(length) or last != idx(1):
        return False
    return all(isinstance(s, Const) and int(s.value) % length == 0 for s in outer)
