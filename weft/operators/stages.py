"""From a tensor program to machine code, one named stage after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from weft.ir.errors import ArgumentError
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.operators.describe import describe_program
from weft.operators.scheduling import DEFAULT, Scheduling, apply_scheduling
from weft.operators.signature import Signature
from weft.passes.separate_constants import Separated, separate_constants
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
    constants: frozenset[str] = frozenset()

    def unscheduled(self) -> Kernel:
        """One nest a statement."""
        return lower(normalize(self.program), checks=self.checks)

    def kernel(self) -> Kernel:
        if self.how.how == "naive":  # does not load the rewrites
            return self.unscheduled()
        from weft.schedules.schedule import Schedule

        schedule = Schedule(self.unscheduled(), numerics=self.how.numerics, machine=self.machine, sizes=self.sizes)
        apply_scheduling(schedule, self.how, self.machine, self.constants)
        return schedule.kernel

    @property
    def fast(self) -> bool:
        return self.how.numerics == "fast"

    def separated(self) -> Separated:
        """What calls run, and what is done once for all of them; sizes are the last parameters."""
        kernel = self.kernel()
        sizes = tuple(p for p in kernel.params if p in self.program.sizes)
        made = separate_constants(kernel, self.constants)
        params = (*(p for p in made.main.params if p not in sizes), *sizes)
        return replace(made, main=replace(made.main, params=params))

    def compiled(self, kernel: Kernel) -> Compiled:
        return compile_kernel(kernel, self.machine, fast=self.fast)

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


def specialized_facts(program: TensorProgram, signature: Signature) -> dict[str, Any]:
    """What a call of ``signature`` needs to know of ``program``; raises where its sizes do not fit."""
    sizes = solve_sizes(program, signature.shapes, dict(signature.constants))
    return describe_program(specialize(program, sizes, signature.strides))


def build(
    program: TensorProgram,
    signature: Signature | None,
    machine: Machine,
    checks: bool,
    how: Scheduling = DEFAULT,
    *,
    symbolic: frozenset[str] = frozenset(),
    constants: frozenset[str] = frozenset(),
) -> Build:
    """The build for ``signature``; without one, sizes stay symbolic, and with one those named in ``symbolic``.

    ``constants`` are parameters that have the same values in every call.
    """
    sizes: dict[str, int] = {}
    if signature is not None:
        sizes = solve_sizes(program, signature.shapes, dict(signature.constants))
        program = specialize(program, sizes, signature.strides, symbolic)
        sizes = {name: value for name, value in sizes.items() if name not in symbolic}
    return Build(program, machine, checks, how, sizes, constants)
