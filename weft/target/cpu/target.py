"""The CPU target: LLVM makes object code, which the runtime links itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from weft.target.cpu.host import Machine
from weft.target.cpu.llvm import llvm_version
from weft.target.target import Code, Target

if TYPE_CHECKING:
    from weft.ir.stmt import Kernel
    from weft.passes.declare import Context


class CpuTarget(Target):
    def toolchain(self) -> str:
        return llvm_version()

    def passes(self, machine: Machine, *, fast: bool) -> tuple[tuple[str, ...], Context]:
        from weft.target.cpu.lower import PASSES, context_of

        return PASSES, context_of(machine, fast=fast)

    def compile(self, kernel: Kernel, machine: Machine, *, fast: bool, aligned: Mapping[str, int]) -> Code:
        from weft.target.cpu.lower import compile_kernel

        made = compile_kernel(kernel, machine, fast=fast)
        return Code(made.object, {"entry": made.entry, "format": "object"}, made.sites)

    def emit(self, kernel: Kernel, stage: str, machine: Machine, *, fast: bool, aligned: Mapping[str, int]) -> str:
        from weft.target.cpu import lower

        return (lower.emit_kernel if stage == "llvm" else lower.assembly)(kernel, machine, fast=fast)


TARGET = CpuTarget()
