"""Memories by name: what the scope of a buffer means, and what a machine says of each of its own.

A program may name any memory (``alloc T: float32[64] in scratch``); which there are, and how large, is for the
description of a machine to say. Those that all machines have some form of are declared here, others by their target.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

#: Who can address one and the same memory: every thread, those of a block, or one thread alone.
Holder = Literal["all", "block", "thread"]


class MemoryScope(NamedTuple):
    """A memory: ``size`` bytes of it for each that can address it (None: no limit), filled at ``rate`` bytes a second.

    ``read_by`` names the hardware intrinsics that alone can read it; without any, every load can.
    """

    name: str
    addressed_by: Holder
    size: int | None = None
    rate: float | None = None
    read_by: tuple[str, ...] = ()


#: What programs and schedules may name without being refused, by name.
SCOPES: dict[str, MemoryScope] = {
    s.name: s
    for s in (
        MemoryScope("global", "all"),
        MemoryScope("shared", "block"),
        MemoryScope("register", "thread"),
        MemoryScope("constant", "all"),
        MemoryScope("local", "thread"),
    )
}
#: Loops whose iterations cannot share a memory, by who can address it.
APART: dict[Holder, tuple[str, ...]] = {
    "all": (),
    "block": ("parallel", "block"),
    "thread": ("parallel", "block", "thread"),
}
#: Those whose size is known only once a program is lowered: passes move buffers between them.
PLAIN_SCOPES = tuple(SCOPES)


def declare_scope(scope: MemoryScope) -> MemoryScope:
    """Makes ``scope`` known, so that schedules can put buffers there."""
    SCOPES[scope.name] = scope
    return scope


def storage_scopes() -> list[str]:
    """The memories that temporaries can be in."""
    return [name for name in SCOPES if name != "constant"]
