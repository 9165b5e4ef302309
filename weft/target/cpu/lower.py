"""From a loop program to machine code for a CPU: the passes in order, then text, then LLVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from weft.ir.asserts import AssertSite, assert_sites
from weft.ir.nesting import has_loop
from weft.ir.stmt import Kernel
from weft.passes.declare import Context
from weft.passes.registry import run_passes, too_deep
from weft.passes.vectors.choose_lanes import choose_lanes
from weft.target.cpu.emit import emit_module, entry_name
from weft.target.cpu.host import Machine, host_machine
from weft.target.cpu.intrinsics import missing_for
from weft.target.cpu.llvm import assemble_llvm, compile_llvm
from weft.target.description import Code

#: The passes in order; `weft passes` tells what each needs, gives and is for.
PASSES = (
    "check_supported",
    "turn_ordered_loops",
    "lower_intrinsics",
    "lower_blocks",
    "lower_reduce",
    "split_grids",
    "check_barriers",
    "unroll_rounds",
    "inline_indices",
    "forward_shared",
    "remove_barriers",
    "split_threads",
    "run_once",
    "unroll_phases",
    "fold_rounds",
    "undo_strides",
    "coalesce_blocks",
    "merge_blocks",
    "privatize_atomics",
    "separate_blocks",
    "narrow_threads",
    "recover_rows",
    "interleave_threads",
    "shrink_storage",
    "rebase_loops",
    "simplify",
    "peel_last_tile",
    "hoist_guards",
    "peel_borders",
    "drop_guards",
    "cut_loops",
    "separate_tiles",
    "guard_loads",
    "multiply_reciprocals",
    "convert_ifs",
    "search_ahead",
    "vectorize_innermost",
    "jam_threads",
    "strip_vector_loops",
    "separate_borders",
    "promote_registers",
    "carry_stores",
    "pad_registers",
    "unroll_registers",
    "transpose_tiles",
    "prefetch_rows",
    "unroll_steps",
    "turn_loops",
)
#: The forms of program that can be written down as LLVM IR.
NEEDS = ("no blocks", "no reductions", "no tensorized nests", "no barriers", "strip mined")


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


def context_of(machine: Machine, *, fast: bool = False) -> Context:
    """What the passes may know; ``fast`` numerics let floats be added and multiplied in another order."""
    return Context(
        target="CPU",
        machine_name=machine.name,
        fast=fast,
        memory=machine.scopes,
        vector_bits=machine.vector_bits,
        has_masks=machine.has_masks,
        choose_lanes=partial(choose_lanes, machine=machine),
        missing_for=partial(missing_for, machine=machine),
        slots=machine.model.issue_width / machine.model.fma_units,
        cores=machine.cores,
        cache_bytes=machine.caches.get("L2", 1 << 20),
    )


def lower_kernel(kernel: Kernel, machine: Machine | None = None, *, fast: bool = False) -> Kernel:
    """``kernel`` with all its loops in the form the emitter writes down."""
    return run_passes(PASSES, kernel, context_of(machine or host_machine(), fast=fast))


def emit_kernel(
    kernel: Kernel,
    machine: Machine | None = None,
    *,
    fast: bool = False,
    contract: bool = False,
    shown_as: str = "",
) -> str:
    """The LLVM text of ``kernel``."""
    machine = machine or host_machine()
    lowered = lower_kernel(kernel, machine, fast=fast)
    try:
        return emit_module(lowered, machine, assert_sites(kernel), fast=fast, contract=contract, shown_as=shown_as)
    except RecursionError:
        raise too_deep(kernel) from None


def compile_kernel(
    kernel: Kernel,
    machine: Machine | None = None,
    *,
    fast: bool = False,
    contract: bool = False,
    shown_as: str = "",
) -> Compiled:
    """Machine code for ``kernel`` on ``machine``, this host unless given.

    ``fast`` numerics allow float sums and products in another order; they and ``contract`` a product fused into a sum.
    With lines of the source where debuggers are to show it, as ``shown_as``.
    """
    machine = machine or host_machine()
    text = emit_kernel(kernel, machine, fast=fast, contract=contract, shown_as=shown_as)
    code = compile_llvm(text, machine, thorough=_is_of_threads(kernel))
    return Compiled(code, entry_name(kernel), assert_sites(kernel), text)


def _is_of_threads(kernel: Kernel) -> bool:
    """Whether ``kernel`` says what each thread of a GPU does, as its author wrote it, in loops of any form."""
    return has_loop(kernel.body, "thread") or has_loop(kernel.body, "block")


def assembly(kernel: Kernel, machine: Machine | None = None, *, fast: bool = False) -> str:
    """The assembly text of ``kernel``."""
    machine = machine or host_machine()
    return assemble_llvm(emit_kernel(kernel, machine, fast=fast), machine, thorough=_is_of_threads(kernel))


def compile_code(kernel: Kernel, machine: Machine, *, fast: bool, aligned: Mapping[str, int]) -> Code:
    """`compile_kernel` as what is kept and loaded."""
    made = compile_kernel(kernel, machine, fast=fast)
    return Code(made.object, {"entry": made.entry, "format": "object"}, made.sites)


def emit_stage(kernel: Kernel, stage: str, machine: Machine, *, fast: bool, aligned: Mapping[str, int]) -> str:
    return (emit_kernel if stage == "llvm" else assembly)(kernel, machine, fast=fast)
