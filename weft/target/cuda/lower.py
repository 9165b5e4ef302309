"""From a loop program to machine code for a GPU: the passes in order, then CUDA C++ text, then NVRTC."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from weft.ir.errors import UnsupportedError
from weft.ir.simplify import simplify
from weft.ir.stmt import Assert, Kernel
from weft.ir.visit import walk
from weft.passes.guards.cut_pieces import cut_pieces
from weft.passes.plain.lower_blocks import lower_blocks
from weft.passes.plain.lower_reduce import lower_reduce
from weft.passes.plain.multiply_reciprocals import multiply_reciprocals
from weft.passes.plain.rebase_loops import rebase_loops
from weft.passes.plain.shrink_storage import shrink_storage
from weft.passes.registers.promote_registers import promote_registers
from weft.passes.to_grid.check_divergence import check_divergence
from weft.passes.to_grid.join_threads import join_threads
from weft.passes.vectors.keep_within_rows import keep_within_rows
from weft.passes.vectors.shift_rows import shift_rows
from weft.target.cuda.check_supported import check_supported
from weft.target.cuda.disassemble import disassemble
from weft.target.cuda.emit import emit_program
from weft.target.cuda.machine import GpuMachine
from weft.target.cuda.nvrtc import compile_cubin, compile_ptx
from weft.target.cuda.program import CudaProgram, Site
from weft.target.cuda.ride_asserts import ride_asserts
from weft.target.cuda.scalarize import scalarize
from weft.target.cuda.spread_asserts import spread_asserts

Pass = Callable[[Kernel], Kernel]


def lowering_passes(machine: GpuMachine, fast: bool) -> dict[str, Pass]:
    """Every step from a loop program to its grid form, by name, in order."""
    return {
        "check_supported": check_supported,
        "check_divergence": check_divergence,
        "lower_blocks": lower_blocks,
        "lower_reduce": lower_reduce,
        "rebase_loops": rebase_loops,
        "scalarize": scalarize,
        "ride_asserts": ride_asserts,
        "spread_asserts": spread_asserts,
        "shrink_storage": shrink_storage,
        "simplify": simplify,
        **({"multiply_reciprocals": multiply_reciprocals} if fast else {}),
        "join_threads": functools.partial(
            join_threads,
            fast=fast,
            shared_bytes=machine.shared_per_block,
            most_threads=machine.max_threads_per_block,
        ),
        "shift_rows": shift_rows,
        "keep_within_rows": keep_within_rows,
        "cut_pieces": cut_pieces,
        "promote_registers": functools.partial(promote_registers, scopes=("global", "shared")),
    }


def lower_kernel(kernel: Kernel, machine: GpuMachine, *, fast: bool = False) -> Kernel:
    """``kernel`` in grid form."""
    try:
        for apply in lowering_passes(machine, fast).values():
            kernel = apply(kernel)
    except RecursionError:
        raise _too_deep(kernel) from None
    return kernel


def emit_kernel(
    kernel: Kernel, machine: GpuMachine, *, fast: bool = False, aligned: Mapping[str, int] | None = None
) -> str:
    """The CUDA C++ text of ``kernel``; pointers are multiples of as many bytes as ``aligned`` says."""
    return _emit(kernel, machine, fast, aligned).source


def _emit(kernel: Kernel, machine: GpuMachine, fast: bool, aligned: Mapping[str, int] | None) -> CudaProgram:
    lowered = lower_kernel(kernel, machine, fast=fast)
    numbers: dict[tuple[str, object], int] = {}
    for n in walk(kernel):
        if isinstance(n, Assert):
            numbers.setdefault((n.message, n.span), len(numbers) + 1)
    sites = tuple(Site(message, str(span) if span else None) for message, span in numbers)
    try:
        return emit_program(lowered, machine, fast=fast, aligned=aligned or {}, numbers=numbers, sites=sites)
    except RecursionError:
        raise _too_deep(kernel) from None


def compile_kernel(
    kernel: Kernel, machine: GpuMachine, *, fast: bool = False, aligned: Mapping[str, int] | None = None
) -> CudaProgram:
    """Machine code and launches of ``kernel`` for ``machine``.

    ``fast`` numerics allow float sums and products in another order, a product fused into a sum, and division
    by reciprocals. ``aligned`` says how many bytes each buffer parameter's address is a multiple of.
    """
    program = _emit(kernel, machine, fast, aligned)
    cubin = compile_cubin(program.source, machine.code_arch, fast=fast)
    return CudaProgram(program.source, cubin, program.launches, program.temporaries, program.sites)


def ptx(kernel: Kernel, machine: GpuMachine, *, fast: bool = False, aligned: Mapping[str, int] | None = None) -> str:
    """The PTX text of ``kernel``."""
    return compile_ptx(emit_kernel(kernel, machine, fast=fast, aligned=aligned), machine.code_arch, fast=fast)


def sass(kernel: Kernel, machine: GpuMachine, *, fast: bool = False, aligned: Mapping[str, int] | None = None) -> str:
    """The machine instructions of ``kernel``, where this machine has a disassembler."""
    return disassemble(compile_kernel(kernel, machine, fast=fast, aligned=aligned).cubin)


def _too_deep(kernel: Kernel) -> UnsupportedError:
    return UnsupportedError(
        f"kernel `{kernel.name}` is nested too deeply to compile",
        span=kernel.span,
        help="name parts of the expression as temporaries",
    )
