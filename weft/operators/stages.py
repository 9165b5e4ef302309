"""From a tensor program to machine code, one named stage after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from weft.ir.errors import ArgumentError
from weft.ir.numerics import is_fast
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.operators.alignment import alignments
from weft.operators.describe import describe_program
from weft.operators.scheduling import DEFAULT, STAGE_TARGETS, Scheduling, apply_scheduling, target_of
from weft.operators.signature import Signature
from weft.passes.plain.separate_constants import Separated, separate_constants
from weft.target.cpu.host import Machine
from weft.target.cuda.machine import GpuMachine
from weft.tensor.lower import lower
from weft.tensor.normalize import normalize
from weft.tensor.printer import print_program
from weft.tensor.program import TensorProgram
from weft.tensor.specialize import solve_sizes, specialize

if TYPE_CHECKING:
    from weft.target.cpu.lower import Compiled

#: tensor: the math, sizes filled in. loops: one nest a statement, or what a schedule made of them.
#: lowered: after the passes of the target. On a CPU, llvm: as handed to LLVM; asm: what the machine runs.
#: On a GPU, cuda: as handed to NVRTC; ptx: NVIDIA's portable assembly; sass: what the GPU runs.
Stage = Literal["tensor", "loops", "lowered", "llvm", "asm", "cuda", "ptx", "sass"]
STAGES: tuple[str, ...] = get_args(Stage)


@dataclass(frozen=True, slots=True)
class Build:
    """A program, specialized or symbolic, and the stages made from it; ``aligned`` as in `show_kernel`."""

    program: TensorProgram
    machine: Machine | GpuMachine
    checks: bool
    how: Scheduling = DEFAULT
    sizes: Mapping[str, int] = field(default_factory=dict)
    constants: frozenset[str] = frozenset()
    aligned: Mapping[str, int] = field(default_factory=dict)

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
        return is_fast(self.how.numerics)

    def separated(self) -> Separated:
        """What calls run, and what is done once for all of them; sizes are the last parameters."""
        kernel = self.kernel()
        sizes = tuple(p for p in kernel.params if p in self.program.sizes)
        made = separate_constants(kernel, self.constants)
        params = (*(p for p in made.main.params if p not in sizes), *sizes)
        return replace(made, main=replace(made.main, params=params))

    def compiled(self, kernel: Kernel) -> Compiled:
        from weft.target.cpu.lower import compile_kernel

        assert isinstance(self.machine, Machine)
        return compile_kernel(kernel, self.machine, fast=self.fast)

    def show(self, stage: str) -> str:
        if stage == "tensor":
            return print_program(self.program)
        if stage == "loops":
            return print_kernel(self.kernel())
        return show_kernel(self.kernel(), stage, self.machine, fast=self.fast, aligned=self.aligned)


def show_kernel(
    kernel: Kernel, stage: str, machine: Machine | GpuMachine, *, fast: bool, aligned: Mapping[str, int] | None = None
) -> str:
    """``kernel`` at a stage after the loop program; for a GPU, ``aligned`` says to how many bytes arrays are."""
    if stage not in STAGES:
        raise ArgumentError(f"there is no stage `{stage}`", help=f"use one of: {', '.join(STAGES)}")
    target = target_of(machine)
    if STAGE_TARGETS.get(stage, target) != target:
        raise ArgumentError(
            f"stage `{stage}` is not one of a {target} program", help=f"leave target= out: {stage} says which it is"
        )
    if isinstance(machine, GpuMachine):
        return _show_gpu_kernel(kernel, stage, machine, fast=fast, aligned=aligned)
    from weft.target.cpu import lower as cpu

    if stage == "lowered":
        return print_kernel(cpu.lower_kernel(kernel, machine, fast=fast))
    if stage == "llvm":
        return cpu.emit_kernel(kernel, machine, fast=fast)
    return cpu.assembly(kernel, machine, fast=fast)


def _show_gpu_kernel(
    kernel: Kernel, stage: str, machine: GpuMachine, *, fast: bool, aligned: Mapping[str, int] | None
) -> str:
    from weft.target.cuda import lower as cuda

    if stage == "lowered":
        return print_kernel(cuda.lower_kernel(kernel, machine, fast=fast))
    known = alignments(kernel, frozenset()) | dict(aligned or {})
    if stage == "cuda":
        return cuda.emit_kernel(kernel, machine, fast=fast, aligned=known)
    if stage == "ptx":
        return cuda.ptx(kernel, machine, fast=fast, aligned=known)
    return cuda.sass(kernel, machine, fast=fast, aligned=known)


def specialized_facts(program: TensorProgram, signature: Signature) -> dict[str, Any]:
    """What a call of ``signature`` needs to know of ``program``; raises where its sizes do not fit."""
    sizes = solve_sizes(program, signature.shapes, dict(signature.constants))
    return describe_program(specialize(program, sizes, signature.strides))


def build(
    program: TensorProgram,
    signature: Signature | None,
    machine: Machine | GpuMachine,
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
