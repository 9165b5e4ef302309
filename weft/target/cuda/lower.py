"""From a loop program to machine code for a GPU: the passes in order, then CUDA C++ text, then NVRTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from weft.ir.asserts import assert_sites
from weft.ir.stmt import Assert, Kernel
from weft.ir.visit import walk
from weft.passes.declare import Context, declared_in
from weft.passes.registry import register, run_passes, too_deep
from weft.target.cuda.disassemble import disassemble
from weft.target.cuda.emit_hardware import missing_for
from weft.target.cuda.emit_launch import emit_program
from weft.target.cuda.launch_bounds import choose_roles, engine_blocks
from weft.target.cuda.machine import GpuMachine
from weft.target.cuda.nvrtc import compile_cubin, compile_ptx
from weft.target.cuda.program import CudaProgram, Site
from weft.target.description import Code

#: The passes in order; `weft passes` tells what each needs, gives and is for.
PASSES = (
    "check_supported",
    "turn_ordered_loops",
    "check_divergence",
    "select_copies",
    "lower_blocks",
    "run_ahead",
    "lower_reduce",
    "rebase_loops",
    "scalarize",
    "ride_asserts",
    "spread_asserts",
    "shrink_storage",
    "simplify",
    "multiply_reciprocals",
    "join_threads",
    "fill_edges",
    "defer_totals",
    "shift_rows",
    "keep_within_rows",
    "cut_pieces",
    "promote_registers",
    "split_casts",
    "hoist_addends",
    "start_sums",
    "place_waits",
    "persist_blocks",
    "select_products",
    "separate_masks",
    "decide_by_first_lane",
)
_own = declared_in(__package__)
register(
    [
        _own(
            "select_copies",
            only_if="what runs ahead, hardware intrinsics",
            options="aligned, missing_for, has_registers",
        ),
        _own("persist_blocks", needs="grid form", only_if="hardware intrinsics", options="cores, blocks_a_core"),
        _own("select_products", needs="grid form", only_if="hardware intrinsics", options="missing_for, fast"),
    ]
)
#: The forms of program that can be written down as CUDA C++.
NEEDS = ("no blocks", "no reductions", "no vectors", "grid form")


def context_of(machine: GpuMachine, *, fast: bool = False, aligned: Mapping[str, int] | None = None) -> Context:
    """What the passes may know; ``fast`` numerics let floats be added and multiplied in another order."""
    return Context(
        target="CUDA",
        machine_name=machine.name,
        fast=fast,
        memory=machine.scopes,
        shared_bytes=machine.shared_per_block,
        most_threads=machine.max_threads_per_block,
        scopes=("global", "shared"),
        has_async_copies=machine.has("cp.async"),
        aligned=(aligned or {}) if machine.has("tma") else None,
        cores=machine.sms,
        blocks_a_core=partial(engine_blocks, machine=machine),
        has_registers=lambda words, threads: choose_roles(words, threads, machine) is not None,
        missing_for=partial(missing_for, machine=machine),
    )


def lower_kernel(
    kernel: Kernel, machine: GpuMachine, *, fast: bool = False, aligned: Mapping[str, int] | None = None
) -> Kernel:
    """``kernel`` in grid form; pointers are multiples of as many bytes as ``aligned`` says."""
    return run_passes(PASSES, kernel, context_of(machine, fast=fast, aligned=aligned))


def emit_kernel(
    kernel: Kernel, machine: GpuMachine, *, fast: bool = False, aligned: Mapping[str, int] | None = None
) -> str:
    """The CUDA C++ text of ``kernel``; pointers are multiples of as many bytes as ``aligned`` says."""
    return _emit(kernel, machine, fast, aligned).source


def _emit(kernel: Kernel, machine: GpuMachine, fast: bool, aligned: Mapping[str, int] | None) -> CudaProgram:
    lowered = lower_kernel(kernel, machine, fast=fast, aligned=aligned)
    numbers: dict[tuple[str, object], int] = {}
    for n in walk(kernel):
        if isinstance(n, Assert):
            numbers.setdefault((n.message, n.span), len(numbers) + 1)
    sites = tuple(Site(message, str(span) if span else None) for message, span in numbers)
    try:
        return emit_program(lowered, machine, fast=fast, aligned=aligned or {}, numbers=numbers, sites=sites)
    except RecursionError:
        raise too_deep(kernel) from None


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


def compile_code(kernel: Kernel, machine: GpuMachine, *, fast: bool, aligned: Mapping[str, int]) -> Code:
    """`compile_kernel` as what is kept and loaded."""
    made = compile_kernel(kernel, machine, fast=fast, aligned=aligned)
    return Code(made.cubin, replace(made, cubin=b"").to_json(), assert_sites(kernel))


def emit_stage(kernel: Kernel, stage: str, machine: GpuMachine, *, fast: bool, aligned: Mapping[str, int]) -> str:
    write = {"cuda": emit_kernel, "ptx": ptx, "sass": sass}[stage]
    return write(kernel, machine, fast=fast, aligned=aligned)
