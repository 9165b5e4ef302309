"""What a target is, on the side that compiles.

The other side, which loads code, allocates and launches, is an `Executor` of `weft.runtime.executor`: one for each
kind of device, since targets that make code for the same device share it. Between them goes `Code`, plain data that
the artifact store keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from weft.ir.asserts import AssertSite
    from weft.ir.memory import MemoryScope
    from weft.ir.stmt import Kernel
    from weft.passes.declare import Context


class MachineDescription(Protocol):
    """All that code and schedules depend on: every field of it is in ``key``, which is part of every cache key."""

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def key(self) -> str: ...

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


class Target:
    """A code generator. Methods load what they need on first use: a start from kept code needs no compiler."""

    def toolchain(self) -> str:
        """What tells one release of the compilers that it uses from another, found without loading them."""
        raise NotImplementedError

    def passes(self, machine: Any, *, fast: bool) -> tuple[tuple[str, ...], Context]:
        """The passes, by name, that bring a program into a form that can be written down, and what they may know."""
        raise NotImplementedError

    def compile(self, kernel: Kernel, machine: Any, *, fast: bool, aligned: Mapping[str, int]) -> Code:
        """Machine code; ``aligned`` says how many bytes the address of a parameter is a multiple of."""
        raise NotImplementedError

    def emit(self, kernel: Kernel, stage: str, machine: Any, *, fast: bool, aligned: Mapping[str, int]) -> str:
        """The text of one of its stages."""
        raise NotImplementedError

    def lower(self, kernel: Kernel, machine: Any, *, fast: bool = False) -> Kernel:
        """``kernel`` in the form that is written down."""
        from weft.passes.registry import run_passes

        names, context = self.passes(machine, fast=fast)
        return run_passes(names, kernel, context)

    def show(self, kernel: Kernel, stage: str, machine: Any, *, fast: bool, aligned: Mapping[str, int]) -> str:
        """``kernel`` at a stage after the loop program."""
        if stage != "lowered":
            return self.emit(kernel, stage, machine, fast=fast, aligned=aligned)
        from weft.ir.printer import print_kernel

        return print_kernel(self.lower(kernel, machine, fast=fast))
