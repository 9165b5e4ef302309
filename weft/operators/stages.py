"""From a tensor program to machine code, one named stage after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from weft.ir.errors import ArgumentError
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.operators.scheduling import DEFAULT, Scheduling, apply_scheduling
from weft.operators.signature import Signature
from weft.target.cpu.host import Machine
from weft.target.cpu.lower import Compiled, assembly, compile_kernel, emit_kernel, lower_kernel
from weft.tensor.lower import lower
from weft.tensor.normalize import normalize
from weft.tensor.printer import print_program
from weft.tensor.program import TensorProgram
from weft.tensor.specialize import solve_sizes, specialize

#: tensor: the math, sizes filled in. loops: one nest a statement, or what a schedule made of them.
#: lowered: after the passes of the target. llvm: as handed to LLVM. asm: what the machine runs.
Stage = Literal["tensor", "loops", "lowered", "llvm", "asm"]
STAGES: tuple[str, ...] = get_args(Stage)


@dataclass(frozen=True, slots=True)
class Build:
    """A program, specialized or symbolic, and the stages made from it."""

    program: TensorProgram
    machine: Machine
    checks: bool
    how: Scheduling = DEFAULT
    sizes: Mapping[str, int] = field(default_factory=dict)

    def unscheduled(self) -> Kernel:
        """One nest a statement."""
        return lower(normalize(self.program), checks=self.checks)

    def kernel(self) -> Kernel:
        if self.how.how == "naive":  # does not load the rewrites
            return self.unscheduled()
        from weft.schedules.schedule import Schedule

        schedule = Schedule(self.unscheduled(), numerics=self.how.numerics, machine=self.machine, sizes=self.sizes)
        apply_scheduling(schedule, self.how, self.machine)
        return schedule.kernel

    @property
    def fast(self) -> bool:
        return self.how.numerics == "fast"

    def compiled(self) -> Compiled:
        return compile_kernel(self.kernel(), self.machine, fast=self.fast)

    def show(self, stage: str) -> str:
        if stage == "tensor":
            return print_program(self.program)
        if stage == "loops":
            return print_kernel(self.kernel())
        if stage == "lowered":
            return print_kernel(lower_kernel(self.kernel(), self.machine, fast=self.fast))
        if stage == "llvm":
            return emit_kernel(self.kernel(), self.machine, fast=self.fast)
        if stage == "asm":
            return assembly(self.kernel(), self.machine, fast=self.fast)
        raise ArgumentError(f"there is no stage `{stage}`", help=f"use one of: {', '.join(STAGES)}")


def build(
    program: TensorProgram, signature: Signature | None, machine: Machine, checks: bool, how: Scheduling = DEFAULT
) -> Build:
    """The build for ``signature``; without one, sizes stay symbolic."""
    sizes: dict[str, int] = {}
    if signature is not None:
        sizes = solve_sizes(program, signature.shapes, dict(signature.constants))
        program = specialize(program, sizes, signature.strides)
    return Build(program, machine, checks, how, sizes)
