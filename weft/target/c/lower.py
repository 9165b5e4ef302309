"""From a loop program to C: the passes in order, then text, then the system's compiler.

Loops keep their shape: what the C compiler does itself (vectors of a given width, unrolling, registers) is left to it.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.asserts import assert_sites
from weft.ir.stmt import Kernel
from weft.target.c.compiler import build_assembly, build_library
from weft.target.c.emit import emit_module, entry_name
from weft.target.cpu.host import Machine
from weft.target.cpu.lower import Compiled, Pass
from weft.target.cpu.lower import lowering_passes as cpu_passes

#: Passes of the CPU target that are for its own code generator.
_NOT_FOR_C = frozenset((
    "guard_loads", "vectorize_innermost", "strip_vector_loops", "separate_borders", "carry_stores", "pad_registers",
    "unroll_registers", "interleave_stores", "transpose_tiles",
))  # fmt: skip


def lowering_passes(machine: Machine, *, fast: bool = False) -> dict[str, Pass]:
    """Every step from a loop program to its final form, by name, in order."""
    plain = replace(machine, features=(), has_masks=False)  # no instructions beyond what C can say
    return {name: p for name, p in cpu_passes(plain, scheduled=True, fast=fast).items() if name not in _NOT_FOR_C}


def lower_kernel(kernel: Kernel, machine: Machine, *, fast: bool = False) -> Kernel:
    """``kernel`` with all its loops in the form that is written down."""
    for apply in lowering_passes(machine, fast=fast).values():
        kernel = apply(kernel)
    return kernel


def emit_kernel(kernel: Kernel, machine: Machine, *, fast: bool = False) -> str:
    """The C text of ``kernel``."""
    numbers = {(s.message, s.span): n for n, s in enumerate(assert_sites(kernel), 1)}
    return emit_module(lower_kernel(kernel, machine, fast=fast), numbers, fast=fast)


def compile_kernel(kernel: Kernel, machine: Machine, *, fast: bool = False) -> Compiled:
    """A shared library for ``kernel``."""
    text = emit_kernel(kernel, machine, fast=fast)
    return Compiled(build_library(text, machine, fast=fast), entry_name(kernel), assert_sites(kernel), text)


def assembly(kernel: Kernel, machine: Machine, *, fast: bool = False) -> str:
    """The assembly text that the compiler makes of ``kernel``."""
    return build_assembly(emit_kernel(kernel, machine, fast=fast), machine, fast=fast)
