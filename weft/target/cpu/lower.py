"""From a loop program to machine code for a CPU: the passes in order, then text, then LLVM."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from weft.ir.asserts import AssertSite, assert_sites
from weft.ir.errors import UnsupportedError
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Kernel, Tensorized
from weft.ir.visit import walk
from weft.passes.gpu_to_cpu.coalesce_blocks import coalesce_blocks
from weft.passes.gpu_to_cpu.forward_phases import forward_phases
from weft.passes.gpu_to_cpu.forward_shared import forward_shared
from weft.passes.gpu_to_cpu.merge_blocks import Limits, merge_blocks
from weft.passes.gpu_to_cpu.narrow_threads import narrow_threads
from weft.passes.gpu_to_cpu.peel_borders import peel_borders
from weft.passes.gpu_to_cpu.remove_barriers import remove_barriers
from weft.passes.gpu_to_cpu.separate_blocks import separate_blocks
from weft.passes.gpu_to_cpu.split_threads import check_barriers, split_threads
from weft.passes.gpu_to_cpu.spread_selects import spread_selects
from weft.passes.gpu_to_cpu.swap_copies import swap_copies
from weft.passes.gpu_to_cpu.sweep_phases import sweep_phases
from weft.passes.gpu_to_cpu.unroll_phases import unroll_phases
from weft.passes.guards.drop_guards import drop_guards
from weft.passes.guards.guard_loads import guard_loads
from weft.passes.guards.hoist_guards import hoist_guards
from weft.passes.guards.narrow_loops import narrow_loops
from weft.passes.guards.partition_loops import partition_loops
from weft.passes.guards.peel_last_tile import peel_last_tile
from weft.passes.guards.separate_borders import separate_borders
from weft.passes.guards.separate_tiles import separate_tiles
from weft.passes.plain.inline_indices import inline_indices
from weft.passes.plain.lower_blocks import lower_blocks
from weft.passes.plain.lower_reduce import lower_reduce
from weft.passes.plain.multiply_reciprocals import multiply_reciprocals
from weft.passes.plain.rebase_loops import rebase_loops
from weft.passes.plain.shrink_storage import shrink_storage
from weft.passes.registers.carry_stores import carry_stores
from weft.passes.registers.pad_registers import pad_registers
from weft.passes.registers.promote_registers import promote_registers
from weft.passes.registers.unroll_registers import unroll_registers
from weft.passes.vectors.interleave_stores import interleave_stores
from weft.passes.vectors.strip_vector_loops import strip_vector_loops
from weft.passes.vectors.transpose_tiles import transpose_tiles
from weft.passes.vectors.vectorize_innermost import Vectorizer, vectorize_innermost
from weft.target.cpu.check_supported import check_supported
from weft.target.cpu.choose_lanes import choose_lanes
from weft.target.cpu.emit import emit_module, entry_name
from weft.target.cpu.host import Machine, host_machine
from weft.target.cpu.intrinsics import lower_intrinsics
from weft.target.cpu.llvm import assemble_llvm, compile_llvm

Pass = Callable[[Kernel], Kernel]


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code of one kernel. A call that returns k >= 1 failed at ``sites[k - 1]``."""

    object: bytes
    entry: str
    sites: tuple[AssertSite, ...]
    llvm: str

    @property
    def messages(self) -> tuple[str, ...]:
        return tuple(s.message for s in self.sites)


def lowering_passes(machine: Machine, *, scheduled: bool, fast: bool = False) -> dict[str, Pass]:
    """Every step from a loop program to its final form on ``machine``, by name, in order.

    A ``scheduled`` program has vector loops where it wants them; nests without any get default ones,
    which add and multiply floats in another order only where ``fast`` allows it.
    """

    lanes, asked = (functools.partial(choose_lanes, machine=machine, scheduled=given) for given in (False, True))

    def vectorize(kernel: Kernel) -> Kernel:
        return vectorize_innermost(kernel, Vectorizer(machine.lanes(32), lanes, machine.has_masks, reassociate=fast))

    def strip(kernel: Kernel) -> Kernel:
        return strip_vector_loops(kernel, asked, has_masks=machine.has_masks)

    limits = Limits(machine.cores, machine.caches.get("L2", 1 << 20) // 2)
    return {
        "check_supported": check_supported,
        "lower_intrinsics": functools.partial(lower_intrinsics, machine=machine),
        "lower_blocks": lower_blocks,
        "lower_reduce": lower_reduce,
        "check_barriers": check_barriers,
        "inline_indices": inline_indices,
        "forward_shared": forward_shared,
        "remove_barriers": remove_barriers,
        "split_threads": split_threads,
        "unroll_phases": unroll_phases,
        "coalesce_blocks": coalesce_blocks,
        "merge_blocks": functools.partial(merge_blocks, limits=limits),
        "separate_blocks": separate_blocks,
        "narrow_threads": narrow_threads,
        "spread_selects": spread_selects,
        "shrink_storage": shrink_storage,
        "rebase_loops": rebase_loops,
        "simplify": simplify,
        "sweep_phases": sweep_phases,
        "peel_last_tile": peel_last_tile,
        "hoist_guards": hoist_guards,
        "peel_borders": peel_borders,
        "swap_copies": swap_copies,
        "forward_phases": forward_phases,
        "drop_guards": drop_guards,
        "narrow_loops": narrow_loops,
        "partition_loops": partition_loops,
        "separate_tiles": separate_tiles,
        **({"guard_loads": guard_loads} if machine.has_masks else {}),
        **({"multiply_reciprocals": multiply_reciprocals} if fast else {}),
        "vectorize_innermost": vectorize,
        **({"strip_vector_loops": strip} if scheduled else {}),
        "separate_borders": separate_borders,
        "promote_registers": promote_registers,
        "carry_stores": carry_stores,
        "pad_registers": pad_registers,
        "unroll_registers": unroll_registers,
        "interleave_stores": interleave_stores,
        "transpose_tiles": functools.partial(transpose_tiles, vector_bits=machine.vector_bits),
    }


def is_scheduled(kernel: Kernel) -> bool:
    """Whether somebody said how loops run."""
    return any(isinstance(n, Tensorized) or (isinstance(n, For) and n.kind != "serial") for n in walk(kernel))


def lower_kernel(kernel: Kernel, machine: Machine | None = None, *, fast: bool = False) -> Kernel:
    """``kernel`` with all its loops in the form the emitter writes down."""
    machine = machine or host_machine()
    try:
        for apply in lowering_passes(machine, scheduled=is_scheduled(kernel), fast=fast).values():
            kernel = apply(kernel)
    except RecursionError:
        raise _too_deep(kernel) from None
    return kernel


def emit_kernel(kernel: Kernel, machine: Machine | None = None, *, fast: bool = False) -> str:
    """The LLVM text of ``kernel``."""
    machine = machine or host_machine()
    lowered = lower_kernel(kernel, machine, fast=fast)
    try:
        return emit_module(lowered, machine, assert_sites(kernel), contract=fast)
    except RecursionError:
        raise _too_deep(kernel) from None


def _too_deep(kernel: Kernel) -> UnsupportedError:
    return UnsupportedError(
        f"kernel `{kernel.name}` is nested too deeply to compile",
        span=kernel.span,
        help="name parts of the expression as temporaries",
    )


def compile_kernel(kernel: Kernel, machine: Machine | None = None, *, fast: bool = False) -> Compiled:
    """Machine code for ``kernel`` on ``machine``, this host unless given.

    ``fast`` numerics allow float sums and products in another order, and a product fused into a sum.
    """
    machine = machine or host_machine()
    text = emit_kernel(kernel, machine, fast=fast)
    return Compiled(compile_llvm(text, machine), entry_name(kernel), assert_sites(kernel), text)


def assembly(kernel: Kernel, machine: Machine | None = None, *, fast: bool = False) -> str:
    """The assembly text of ``kernel``."""
    machine = machine or host_machine()
    return assemble_llvm(emit_kernel(kernel, machine, fast=fast), machine)
