"""Where arrays on a GPU begin, as far as code depends on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.ir.stmt import Kernel

#: What accesses of several elements at once need; arrays that start elsewhere get code of their own.
ALIGNMENT = 16


def alignments(kernel: Kernel, misaligned: frozenset[str]) -> dict[str, int]:
    """To how many bytes the array of each buffer is aligned."""
    return {b.name: b.dtype.itemsize if b.name in misaligned else ALIGNMENT for b in kernel.buffers}
