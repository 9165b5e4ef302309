"""Whether a GPU can run a scheduled program: by what its nests ask for, or, where that leaves a doubt, by its text."""

from __future__ import annotations

from dataclasses import replace

from weft.auto.driver import Misfit
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.persistent import most_iterations
from weft.auto.stages import buffer_bytes
from weft.ir.errors import Error, TargetError
from weft.ir.faults import refused
from weft.ir.stmt import Alloc, Kernel, Seq, Stmt
from weft.ir.visit import map_statements
from weft.schedules.find import all_allocs, all_loops, blocks_inside, top_nests
from weft.target.cuda.lower import emit_kernel
from weft.target.cuda.machine import MAX_GRID, GpuMachine

#: The part of a block's shared memory that is left for what lowering adds: exchanges, barriers, gaps.
SPARE = 1 / 4
#: Bytes that parameters are multiples of: the copy engine may be used.
ALIGNED = 16


def find_misfit(draft: GpuDraft) -> Misfit | None:
    """The nests for which no text can be written, where there are such."""
    kernel = draft.s.kernel
    if all(surely_fits(nest, draft.machine) for nest in top_nests(kernel)):
        return None
    error = _refusal(draft, kernel)
    if error is None:
        return None
    nests = [n for n in top_nests(kernel) if _refusal(draft, _alone(kernel, n)) is not None] or list(top_nests(kernel))
    return Misfit(frozenset(b.name for nest in nests for b in blocks_inside(nest)), error)


def surely_fits(nest: Stmt, machine: GpuMachine) -> bool:
    """Whether ``nest`` asks for so little that there is no need to write it down to know."""
    shared = [a.buffer for a in all_allocs(nest) if a.buffer.scope == "shared"]
    if any(b.element_count() is None for b in shared):
        return False
    room = machine.shared_per_block * (1 - SPARE)
    return sum(map(buffer_bytes, shared)) <= room and _has_registers(nest, machine) and _has_threads(nest, machine)


def _has_registers(nest: Stmt, machine: GpuMachine) -> bool:
    kept = [a.buffer for a in all_allocs(nest) if a.buffer.scope == "register"]
    words = [(b.element_count(), max(1, b.dtype.itemsize // 4)) for b in kept]
    return all(count is not None and count * size <= machine.max_registers_per_thread for count, size in words)


def _has_threads(nest: Stmt, machine: GpuMachine) -> bool:
    """Whether blocks and threads are as many as a launch can have; every block loop of a persistent one waits."""
    blocks, threads = most_iterations(nest, "block"), most_iterations(nest, "thread")
    waits = any(f.kind == "serial" and most_iterations(f, "block") > 1 for f in all_loops(nest))
    return blocks <= MAX_GRID[0] and threads <= machine.max_threads_per_block and not waits


def _alone(kernel: Kernel, nest: Stmt) -> Kernel:
    """``kernel`` without the nests beside ``nest``."""

    def visit(s: Stmt) -> Stmt:
        if isinstance(s, (Seq, Alloc)):
            return map_statements(s, visit)
        return s if s is nest else Seq(())

    return replace(kernel, body=visit(kernel.body))


def _refusal(draft: GpuDraft, kernel: Kernel) -> Error | None:
    """Why ``kernel`` cannot be written as text."""
    try:
        emit_kernel(kernel, draft.machine, fast=draft.is_fast, aligned={b.name: ALIGNED for b in kernel.buffers})
    except Error as error:
        refused(error)
        return error
    except Exception as error:
        return TargetError(refused(error))
    return None
