"""From a loop program to machine code for a CPU: the passes in order, then text, then LLVM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft.ir.stmt import Kernel
from weft.target.cpu.emit import AssertSite, assert_sites, emit_module, entry_name
from weft.target.cpu.host import Machine, host_machine
from weft.target.cpu.llvm import assemble_llvm, compile_llvm

Pass = Callable[[Kernel], Kernel]


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code of one kernel. A call that returns k >= 1 failed at ``sites[k - 1]``."""

    object: bytes
    entry: str
    sites: tuple[AssertSite, ...]
    llvm: str

    @property
    def messages(self) -> tuple[str, ...]:
        return tuple(s.message for s in self.sites)


def lowering_passes(machine: Machine) -> dict[str, Pass]:
    """Every step from a loop program to its final form on ``machine``, by name, in order."""
    return {}


def lower_kernel(kernel: Kernel, machine: Machine | None = None) -> Kernel:
    """``kernel`` with all its loops in the form the emitter writes down."""
    for apply in lowering_passes(machine or host_machine()).values():
        kernel = apply(kernel)
    return kernel


def emit_kernel(kernel: Kernel, machine: Machine | None = None) -> str:
    """The LLVM text of ``kernel``."""
    machine = machine or host_machine()
    return emit_module(lower_kernel(kernel, machine), machine, assert_sites(kernel))


def compile_kernel(kernel: Kernel, machine: Machine | None = None) -> Compiled:
    """Machine code for ``kernel`` on ``machine``, this host unless given."""
    machine = machine or host_machine()
    text = emit_kernel(kernel, machine)
    return Compiled(compile_llvm(text, machine), entry_name(kernel), assert_sites(kernel), text)


def assembly(kernel: Kernel, machine: Machine | None = None) -> str:
    """The assembly text of ``kernel``."""
    machine = machine or host_machine()
    return assemble_llvm(emit_kernel(kernel, machine), machine)
