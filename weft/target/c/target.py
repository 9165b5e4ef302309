"""The C target: text that the system's compiler makes a shared library of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from weft.target.c.compiler import compiler_key
from weft.target.cpu.host import Machine
from weft.target.target import Code, Target

if TYPE_CHECKING:
    from weft.ir.stmt import Kernel
    from weft.passes.declare import Context


class CTarget(Target):
    def toolchain(self) -> str:
        return compiler_key()

    def passes(self, machine: Machine, *, fast: bool) -> tuple[tuple[str, ...], Context]:
        from weft.target.c.lower import PASSES, context_of

        return PASSES, context_of(machine, fast=fast)

    def compile(self, kernel: Kernel, machine: Machine, *, fast: bool, aligned: Mapping[str, int]) -> Code:
        from weft.target.c.lower import compile_kernel

        made = compile_kernel(kernel, machine, fast=fast)
        return Code(made.object, {"entry": made.entry, "format": "library"}, made.sites)

    def emit(self, kernel: Kernel, stage: str, machine: Machine, *, fast: bool, aligned: Mapping[str, int]) -> str:
        from weft.target.c import lower

        return (lower.emit_kernel if stage == "c" else lower.assembly)(kernel, machine, fast=fast)


TARGET = CTarget()
