"""Memory that is a file's: the system reads a page in when somebody asks for it, and takes it out again when it needs
the room, or when told to. What is written to it later is of this process alone, and stays."""

from __future__ import annotations

import contextlib
import mmap
import tempfile
import weakref
from collections.abc import Sequence
from typing import Any

from weft.runtime.store import default_store

#: Linux takes the pages of a range out of memory. Pages that were written to stay, unless they can be swapped out.
_PAGEOUT = 21

_mappings: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


def map_parts(parts: Sequence[Any]) -> tuple[mmap.mmap, list[int]]:
    """A copy of ``parts``, arrays of bytes, in a file without a name, and where in it each begins.

    The file is where compiled code is kept, else where temporary files are; it goes with the last user of the memory.
    An `OSError` says that there is no room for it.
    """
    places, end = [], 0
    with tempfile.TemporaryFile(dir=default_store().directory) as file:
        for part in parts:
            places.append(end)
            file.seek(end)
            file.write(part)
            end += -(-len(part) // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        file.truncate(end)
        file.flush()
        memory = mmap.mmap(file.fileno(), end, access=mmap.ACCESS_COPY)
    _mappings.add(memory)
    return memory, places


def page_out() -> None:
    """Takes all that was only read out of memory until it is read again, where the system lets one ask for that."""
    for memory in list(_mappings):
        with contextlib.suppress(OSError, AttributeError, ValueError):
            memory.madvise(_PAGEOUT)
