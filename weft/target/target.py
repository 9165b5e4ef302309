"""What a target is, on the side that compiles.

The other side, which loads code, allocates and launches, is an `Executor` of `weft.runtime.executor`: one for each
kind of device, since targets that make code for the same device share it. Between them goes `Code`, plain data that
the artifact store keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from weft.ir.stmt import Kernel
    from weft.passes.declare import Context
    from weft.target.description import Code, MachineDescription


class Target(NamedTuple):
    """The code generator in the folder ``name``, loaded on first use: a start from kept code needs no compiler.

    ``device`` says whose arrays its code takes: those on the ``cpu``, or on a ``cuda`` device. ``stages`` are the
    texts that it makes of a lowered program, in order. Its folder has two modules: ``toolchain``, unless another is
    named, with a function ``toolchain_key``; and ``lower`` with ``PASSES``, ``NEEDS`` (the forms of program that it
    can write down) and the functions ``context_of``, ``compile_code`` and ``emit_stage``, which the methods here call.
    """

    name: str
    device: str
    stages: tuple[str, ...]
    toolchain_module: str = "toolchain"

    def toolchain(self) -> str:
        """What tells one release of the compilers that it uses from another, found without loading them."""
        return str(import_module(f"weft.target.{self.name}.{self.toolchain_module}").toolchain_key())

    @property
    def pass_names(self) -> tuple[str, ...]:
        """The passes that bring a program into a form that can be written down, in order."""
        names: tuple[str, ...] = self._lower.PASSES
        return names

    def passes(self, machine: MachineDescription, *, fast: bool) -> tuple[tuple[str, ...], Context]:
        """Its passes, and what they may know."""
        return self.pass_names, self._lower.context_of(machine, fast=fast)

    def lower(self, kernel: Kernel, machine: MachineDescription, *, fast: bool = False) -> Kernel:
        """``kernel`` in the form that is written down."""
        from weft.passes.registry import run_passes

        names, context = self.passes(machine, fast=fast)
        return run_passes(names, kernel, context)

    def compile(self, kernel: Kernel, machine: MachineDescription, *, fast: bool, aligned: Mapping[str, int]) -> Code:
        """Machine code; ``aligned`` says how many bytes the address of a parameter is a multiple of."""
        found: Code = self._lower.compile_code(kernel, machine, fast=fast, aligned=aligned)
        return found

    def show(
        self, kernel: Kernel, stage: str, machine: MachineDescription, *, fast: bool, aligned: Mapping[str, int]
    ) -> str:
        """``kernel`` at ``lowered``, or as one of its own texts."""
        if stage != "lowered":
            return str(self._lower.emit_stage(kernel, stage, machine, fast=fast, aligned=aligned))
        from weft.ir.printer import print_kernel

        return print_kernel(self.lower(kernel, machine, fast=fast))

    @property
    def _lower(self) -> Any:
        return import_module(f"weft.target.{self.name}.lower")
