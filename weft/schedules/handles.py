"""References to loops, blocks and buffers of a schedule.

A handle is a name and the step that made it, so one whose loop is gone stays gone even where a
later step uses the name again; `Schedule` then says what became of it. Wherever a handle is
accepted, so is the plain name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Handle:
    """``step`` is the number of trace steps that were done when the name came to be."""

    name: str
    step: int = 0

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Loop(Handle):
    """A loop, by the name of its variable."""


@dataclass(frozen=True, slots=True)
class BlockRef(Handle):
    """A block: the unit of computation."""


@dataclass(frozen=True, slots=True)
class BufferRef(Handle):
    """A parameter or an allocated buffer."""


AnyLoop: TypeAlias = "Loop | str"
AnyBlock: TypeAlias = "BlockRef | str"
AnyBuffer: TypeAlias = "BufferRef | str"
