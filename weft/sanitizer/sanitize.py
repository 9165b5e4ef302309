"""Runs a program with every access watched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.ir.buffer import Buffer
from weft.ir.errors import ArgumentError, ShapeError
from weft.ir.expr import Var
from weft.ir.interpret import call_with_stack
from weft.ir.interpret_stmt import has_parallel_loop
from weft.ir.numpy_dtypes import convert, from_numpy
from weft.ir.stmt import Alloc, Atomic, Barrier, Kernel, Store
from weft.ir.verify import verify
from weft.ir.visit import walk
from weft.passes.plain.lower_blocks import lower_blocks
from weft.passes.plain.lower_reduce import lower_reduce
from weft.sanitizer.findings import Report
from weft.sanitizer.memory import Memory
from weft.sanitizer.run import Run
from weft.sanitizer.run_expr import evaluate
from weft.sanitizer.run_stmt import run_stmt
from weft.sanitizer.run_threads import concurrent_depth


def sanitize_kernel(kernel: Kernel, args: Sequence[Any]) -> Report:
    """Runs ``kernel`` on copies of ``args`` and says what is wrong with it."""
    verify(kernel)
    plain = lower_reduce(lower_blocks(kernel))
    warps = any(isinstance(n, Barrier) and n.scope == "warp" for n in walk(plain))
    run = Run(max(1, concurrent_depth(plain, warps)), find_watched(plain), warps)
    _bind(kernel, args, run)

    def execute() -> None:
        with np.errstate(all="ignore"):
            run_stmt(plain.body, run.root, run)

    call_with_stack(execute, plain)
    return Report(kernel.name, max(1, run.threads), list(run.findings.values()), run.outputs(kernel.outputs))


def find_watched(kernel: Kernel) -> frozenset[str]:
    """Buffers in which accesses of different threads may meet: written, and made outside a concurrent loop."""
    written = {n.buffer.name for n in walk(kernel) if isinstance(n, (Store, Atomic))}
    shared = {b.name for b in kernel.buffers} if has_parallel_loop(kernel.body) else set()
    shared |= {n.buffer.name for n in walk(kernel) if isinstance(n, Alloc) and has_parallel_loop(n.body)}
    return frozenset(written & shared)


def _bind(kernel: Kernel, args: Sequence[Any], run: Run) -> None:
    if len(args) != len(kernel.params):
        raise ArgumentError(
            f"`{kernel.name}` takes {len(kernel.params)} arguments, got {len(args)}",
            why="its parameters are " + ", ".join(p.name for p in kernel.params),
        )
    pairs = list(zip(kernel.params, args))
    for param, value in pairs:
        if isinstance(param, Var):
            run.variables[param.name] = (run.root, _number(param, value))
    for param, value in pairs:
        if isinstance(param, Buffer):
            run.memories[param.name] = _parameter(param, value, run)


def _number(param: Var, value: Any) -> Any:
    if not isinstance(value, (int, float, np.number, np.bool_)):
        raise ArgumentError(f"argument `{param.name}` must be a number, got {type(value).__name__}")
    return convert(np.asarray(value), param.dtype)


def _parameter(buffer: Buffer, value: Any, run: Run) -> Memory:
    array = np.asarray(value)
    if from_numpy(array.dtype) != buffer.dtype:
        raise ArgumentError(f"argument `{buffer.name}` must be {buffer.dtype}, got {array.dtype}")
    shape = tuple(int(evaluate(e, run.root, run)) for e in buffer.shape)
    if array.shape != shape:
        raise ShapeError(
            f"argument `{buffer.name}` has shape {array.shape}", span=buffer.span, why=f"the kernel wants {shape}"
        )
    memory = Memory(buffer, run.root, shape, data=np.array(array).reshape(-1))
    if buffer.name in run.watched:
        memory.watch(run.depth)
    return memory
