"""From a tensor program to machine code, one named stage after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from weft.ir.errors import ArgumentError
from weft.ir.expr import Expr
from weft.ir.numerics import is_fast
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.operators.describe import describe_program
from weft.operators.interface import remarks_to_json
from weft.operators.scheduling import DEFAULT, Scheduling, apply_scheduling
from weft.operators.signature import Signature
from weft.operators.specialization import alignments
from weft.passes.plain.separate_constants import Separated, separate_constants
from weft.target import TARGETS, target_of
from weft.target.description import MachineDescription
from weft.tensor.lower import lower
from weft.tensor.normalize import normalize
from weft.tensor.printer import print_program
from weft.tensor.program import TensorProgram
from weft.tensor.remark_sizes import remarks_at
from weft.tensor.specialize import solve_sizes, specialize

if TYPE_CHECKING:
    from weft.schedules.schedule import Schedule
    from weft.schedules.trace import Form

#: tensor: the math, sizes filled in. loops: one nest a statement, or what a schedule made of them.
#: lowered: after the passes of the target. Then those of each target: on a CPU, llvm: as handed to LLVM; c: as C; asm:
#: what the machine runs. On a GPU, cuda: as handed to NVRTC; ptx: NVIDIA's portable assembly; sass: what the GPU runs.
STAGES: tuple[str, ...] = (
    "tensor", "loops", "lowered", *dict.fromkeys(stage for target in TARGETS.values() for stage in target.stages),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Build:
    """A program, specialized or symbolic, and the stages made from it."""

    program: TensorProgram
    machine: MachineDescription
    checks: bool
    how: Scheduling = DEFAULT
    sizes: Mapping[str, int] = field(default_factory=dict)
    constants: frozenset[str] = frozenset()

    def unscheduled(self) -> Kernel:
        """One nest a statement, as the program is written."""
        return lower(normalize(self.program), checks=self.checks)

    def formed(self, form: Form) -> tuple[TensorProgram, Form]:
        """The program in a form, and which that is: as written where the normal form is no other."""
        if form == "written":
            return self.program, form
        from weft.tensor.normal_form.normal_form import normal_form

        formed = normal_form(self.program, self.fast)
        return formed, "written" if formed is self.program else form

    def loops(self, form: Form) -> tuple[Kernel, Form]:
        """One nest a statement of the program in a form, and which that is."""
        program, form = self.formed(form)
        return lower(normalize(program), checks=self.checks), form

    def start(self) -> Schedule:
        """The schedule that scheduling begins with."""
        from weft.schedules.schedule import Schedule

        loops, form = self.loops(self.how.form)
        return Schedule(loops, numerics=self.how.numerics, machine=self.machine, sizes=self.sizes, form=form)

    def kernel(self) -> Kernel:
        if self.how.how == "naive":  # does not load the rewrites
            return self.unscheduled()
        schedule = self.start()
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

    def show(self, stage: str) -> str:
        if stage == "tensor":
            return print_program(self.program)
        if stage == "loops":
            return print_kernel(self.kernel())
        return show_kernel(self.kernel(), stage, self.machine, fast=self.fast)


def show_kernel(kernel: Kernel, stage: str, machine: MachineDescription, *, fast: bool) -> str:
    """``kernel`` at a stage after the loop program."""
    if stage not in STAGES:
        raise ArgumentError(f"there is no stage `{stage}`", help=f"use one of: {', '.join(STAGES)}")
    target = target_of(machine)
    if stage not in ("lowered", *target.stages):
        raise ArgumentError(
            f"stage `{stage}` is not one of a {target.name} program",
            help=f"leave target= out: {stage} says which it is",
        )
    return target.show(kernel, stage, machine, fast=fast, aligned=alignments(kernel, frozenset()))


def specialized_facts(program: TensorProgram, signature: Signature) -> dict[str, Any]:
    """What a call of ``signature`` needs to know of ``program``; raises where its sizes do not fit."""
    sizes = solve_sizes(program, signature.shapes, dict(signature.constants))
    described = describe_program(specialize(program, sizes, signature.strides))
    return described | remark_facts(program, signature)


def remark_facts(program: TensorProgram, signature: Signature) -> dict[str, Any]:
    """What is to be told of ``program`` where calls of ``signature`` are compiled or their code is loaded."""
    sizes = solve_sizes(program, signature.shapes, dict(signature.constants))
    return {"remarks": remarks_to_json(remarks_at(program, sizes))}


def build(
    program: TensorProgram,
    signature: Signature | None,
    machine: MachineDescription,
    checks: bool,
    how: Scheduling = DEFAULT,
    *,
    symbolic: frozenset[str] = frozenset(),
    strides: Mapping[str, Sequence[Expr]] | None = None,
    constants: frozenset[str] = frozenset(),
) -> Build:
    """The build for ``signature``; without one, sizes stay symbolic, and with one those named in ``symbolic``.

    ``strides`` are those of tensors that are not dense, where they follow from such sizes; ``constants`` are parameters
    that have the same values in every call.
    """
    sizes: dict[str, int] = {}
    if signature is not None:
        sizes = solve_sizes(program, signature.shapes, dict(signature.constants))
        program = specialize(program, sizes, strides or signature.strides, symbolic)
        sizes = {name: value for name, value in sizes.items() if name not in symbolic}
    return Build(program, machine, checks, how, sizes, constants)
