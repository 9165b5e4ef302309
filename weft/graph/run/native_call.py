"""A call of a framework's library that machine code does: a row of the table, as kernels have."""

from __future__ import annotations

from typing import Any, NamedTuple

#: The slots of such a row before the addresses of the tensors it is given: what is called, its result while that is
#: there, and whose slots the address of that goes to.
ROW = ("call", "made", "readers", "nreaders")
#: A slot that a result's address goes to, that many words behind the row's own slots, and bytes behind the address.
READER = ("place", "offset")


class NativeCall(NamedTuple):
    """``address`` is of a function of the row's slots; ``release`` of one that gives the result back, whose only slot
    says how many words from it the row's slots are. ``keeps`` is memory that must live as long as both."""

    address: int
    release: int
    call: int
    tensors: tuple[str, ...]
    keeps: Any
