"""What goes into a target and what comes out: the description of a machine, and code for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from weft.ir.asserts import AssertSite
    from weft.ir.memory import MemoryScope


class MachineDescription(Protocol):
    """All that code and schedules depend on: every field of it is in ``key``, which is part of every cache key."""

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def caches(self) -> Mapping[str, int]: ...

    @property
    def scopes(self) -> Mapping[str, MemoryScope]: ...

    def lanes(self, bits: int) -> int: ...


class Code(NamedTuple):
    """What a target makes of a kernel: machine code, and ``facts`` as plain data for the executor that loads it.

    A call that fails at ``sites[k - 1]`` says so by the number k.
    """

    blob: bytes
    facts: Mapping[str, Any]
    sites: Sequence[AssertSite]
