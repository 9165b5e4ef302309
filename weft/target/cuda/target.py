"""The CUDA target: CUDA C++ text that NVRTC makes machine code of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from weft.target.cuda import toolchain
from weft.target.cuda.machine import GpuMachine
from weft.target.target import Code, Target

if TYPE_CHECKING:
    from weft.ir.stmt import Kernel
    from weft.passes.declare import Context


class CudaTarget(Target):
    def toolchain(self) -> str:
        return toolchain.toolchain_key()

    def passes(self, machine: GpuMachine, *, fast: bool) -> tuple[tuple[str, ...], Context]:
        from weft.target.cuda.lower import PASSES, context_of

        return PASSES, context_of(machine, fast=fast)

    def compile(self, kernel: Kernel, machine: GpuMachine, *, fast: bool, aligned: Mapping[str, int]) -> Code:
        from weft.ir.asserts import assert_sites
        from weft.target.cuda import lower

        made = lower.compile_kernel(kernel, machine, fast=fast, aligned=aligned)
        return Code(made.cubin, made.without_code().to_json(), assert_sites(kernel))

    def emit(self, kernel: Kernel, stage: str, machine: GpuMachine, *, fast: bool, aligned: Mapping[str, int]) -> str:
        from weft.target.cuda import lower

        write = {"cuda": lower.emit_kernel, "ptx": lower.ptx, "sass": lower.sass}[stage]
        return write(kernel, machine, fast=fast, aligned=aligned)


TARGET = CudaTarget()
