"""Where arrays on a GPU begin, as far as code depends on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.runtime.executor import ALIGNMENT

if TYPE_CHECKING:
    from weft.ir.stmt import Kernel


def alignments(kernel: Kernel, misaligned: frozenset[str]) -> dict[str, int]:
    """To how many bytes the array of each buffer is aligned."""
    return {b.name: b.dtype.itemsize if b.name in misaligned else ALIGNMENT for b in kernel.buffers}
