"""From a tensor program to machine code, one named stage after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from weft.ir.errors import ArgumentError
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.operators.signature import Signature
from weft.target.cpu.host import Machine
from weft.target.cpu.lower import Compiled, assembly, compile_kernel, emit_kernel, lower_kernel
from weft.tensor.lower import lower
from weft.tensor.normalize import normalize
from weft.tensor.printer import print_program
from weft.tensor.program import TensorProgram
from weft.tensor.specialize import solve_sizes, specialize

if TYPE_CHECKING:  # a program without a schedule does not load the rewrites
    from weft.schedules.trace import Trace

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
    schedule: Trace | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)

    def kernel(self) -> Kernel:
        kernel = lower(normalize(self.program), checks=self.checks)
        if self.schedule is None:
            return kernel
        from weft.schedules.schedule import replay

        return replay(kernel, self.schedule, self.machine, self.sizes)

    @property
    def fast(self) -> bool:
        return self.schedule is not None and self.schedule.numerics == "fast"

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
    program: TensorProgram, signature: Signature | None, machine: Machine, checks: bool, trace: str | None = None
) -> Build:
    """The build for ``signature``; without one, sizes stay symbolic. ``trace`` is the text of its schedule."""
    sizes: dict[str, int] = {}
    if signature is not None:
        sizes = solve_sizes(program, signature.shapes, dict(signature.constants))
        program = specialize(program, sizes, signature.strides)
    return Build(program, machine, checks, None if trace is None else _read_trace(trace), sizes)


def _read_trace(text: str) -> Trace:
    from weft.schedules.trace import parse_trace

    return parse_trace(text)
