"""From a loop program to C: the passes in order, then text, then the system's compiler.

Loops keep their shape: what the C compiler does itself (vectors of a given width, unrolling, registers) is left to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.ir.asserts import assert_sites
from weft.ir.stmt import Kernel
from weft.passes.declare import Context
from weft.passes.registry import run_passes, too_deep
from weft.target.c.emit import emit_module, entry_name
from weft.target.c.toolchain import build_assembly, build_library
from weft.target.cpu.host import Machine
from weft.target.cpu.lower import PASSES as CPU_PASSES
from weft.target.cpu.lower import Compiled
from weft.target.description import Code

#: Passes of the CPU target that prepare for its own code generator.
_NOT_FOR_C = frozenset((
    "guard_loads", "vectorize_innermost", "strip_vector_loops", "separate_borders", "carry_stores", "pad_registers",
    "unroll_registers", "unroll_steps", "transpose_tiles", "prefetch_rows", "jam_threads", "fold_rounds",
    "search_ahead",
))  # fmt: skip
#: The passes in order; `weft passes` tells what each needs, gives and is for.
_FIRST = CPU_PASSES.index("lower_reduce") + 1
PASSES = (*CPU_PASSES[:_FIRST], "scalarize", *(name for name in CPU_PASSES[_FIRST:] if name not in _NOT_FOR_C))
#: The forms of program that can be written down as C.
NEEDS = ("no blocks", "no reductions", "no tensorized nests", "no barriers", "no vectors")


def context_of(machine: Machine, *, fast: bool = False) -> Context:
    """What the passes may know; ``fast`` numerics let floats be added and multiplied in another order."""
    return Context(
        target="C",
        machine_name="C",
        fast=fast,
        memory=machine.scopes,
        missing_for=lambda hardware: ("a way to say it in C",),
        cores=machine.cores,
        cache_bytes=machine.caches.get("L2", 1 << 20),
    )


def lower_kernel(kernel: Kernel, machine: Machine, *, fast: bool = False) -> Kernel:
    """``kernel`` with all its loops in the form that is written down."""
    return run_passes(PASSES, kernel, context_of(machine, fast=fast))


def emit_kernel(kernel: Kernel, machine: Machine, *, fast: bool = False) -> str:
    """The C text of ``kernel``."""
    numbers = {(s.message, s.span): n for n, s in enumerate(assert_sites(kernel), 1)}
    lowered = lower_kernel(kernel, machine, fast=fast)
    try:
        return emit_module(lowered, numbers, fast=fast)
    except RecursionError:
        raise too_deep(kernel) from None


def compile_kernel(kernel: Kernel, machine: Machine, *, fast: bool = False) -> Compiled:
    """A shared library for ``kernel``."""
    text = emit_kernel(kernel, machine, fast=fast)
    return Compiled(build_library(text, machine, fast=fast), entry_name(kernel), assert_sites(kernel), text)


def assembly(kernel: Kernel, machine: Machine, *, fast: bool = False) -> str:
    """The assembly text that the compiler makes of ``kernel``."""
    return build_assembly(emit_kernel(kernel, machine, fast=fast), machine, fast=fast)


def compile_code(kernel: Kernel, machine: Machine, *, fast: bool, aligned: Mapping[str, int]) -> Code:
    """`compile_kernel` as what is kept and loaded."""
    made = compile_kernel(kernel, machine, fast=fast)
    return Code(made.object, {"entry": made.entry, "format": "library"}, made.sites)


def emit_stage(kernel: Kernel, stage: str, machine: Machine, *, fast: bool, aligned: Mapping[str, int]) -> str:
    return (emit_kernel if stage == "c" else assembly)(kernel, machine, fast=fast)
