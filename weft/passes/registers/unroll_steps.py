"""Steps of sums that are kept in registers written out several at a time.

Counting and testing take instructions beside those of a step, about one of eight where a step updates twelve sums. A
core that two threads use at once has no room for them, and one alone looks further ahead without. Two kinds of steps
stay as they are, since more code is all that would come of it: those of a core whose vectors take so long that counting
is done meanwhile (AVX-512 by halves), and those that update many sums, which leave no registers for what LLVM loads of
the next step (27 sums in 32 registers: eight of them went through the stack, a third of the speed). What counts are
stores, of which one may be of two registers, but where steps read the same elements, as those along a window do: LLVM
keeps these from step to step, and then registers count (28 sums of 7x7 windows 1.6 times slower written out).

Where each vector that is read serves one update alone, as in one row times a matrix, the matrix should come as fast as
a cache gives it. Processors foresee what an instruction reads next by how far apart it read before, and know few such
instructions: 512 KB from the second cache of a Zen 5 came at 255 GB/s to a loop of 8 or 16 loads, at 130 to one of 32.
Steps of so many loads stay as they are.
"""

from __future__ import annotations

import math
from dataclasses import replace

from weft.ir.expr import Const, Var, idx
from weft.ir.stmt import For, Kernel, Seq, Stmt, Store
from weft.ir.visit import free_vars, fresh_name, loads, map_statements, substitute, used_names, walk
from weft.passes.analysis.loop_ranges import constant_extent

#: Steps at a time, and updates of sums up to which they are written out.
MOST_STEPS, MOST_UPDATES = 8, 96
#: Updates of one step beside which counting is nothing, and instructions for each of them that leave room for it.
LARGE_STEP, ENOUGH_SLOTS = 20, 4.0
#: Loads of a step, each from a place of its own, beside which no others of the loop would be foreseen.
MANY_STREAMS = 8


def unroll_steps(kernel: Kernel, *, slots: float = 2.0, vector_bits: int = 128) -> Kernel:
    """Every innermost serial loop of constant extent that does nothing but update registers, some steps at a time."""
    if slots > ENOUGH_SLOTS:
        return kernel
    return replace(kernel, body=_visit(kernel.body, used_names(kernel), vector_bits))


def _visit(s: Stmt, taken: set[str], vector_bits: int) -> Stmt:
    if isinstance(s, For) and s.kind == "serial":
        count, updates = constant_extent(s), _updates(s.body)
        if count is not None and updates and max(updates, _kept(s, vector_bits)) < LARGE_STEP:
            sums = _registers(s.body, vector_bits)
            if sums >= MANY_STREAMS and _streamed(s.body, s.var.name, vector_bits) >= sums:
                return s
            return _cut(s, count, min(MOST_STEPS, MOST_UPDATES // updates), taken)
    return map_statements(s, lambda n: _visit(n, taken, vector_bits))


def _updates(s: Stmt) -> int | None:
    """How many stores to registers ``s`` is when it is written out; None where it is anything else."""
    if isinstance(s, Seq):
        parts = [_updates(part) for part in s.body]
        return None if None in parts else sum(part or 0 for part in parts)
    if isinstance(s, For) and s.kind in ("unroll", "vector"):
        count, inside = constant_extent(s), _updates(s.body)
        return None if count is None or inside is None else inside * (count if s.kind == "unroll" else 1)
    return 1 if isinstance(s, Store) and s.buffer.scope == "register" else None


def _kept(loop: For, vector_bits: int) -> int:
    """Registers that a step updates where the next one reads some of the same elements; else none."""
    rows = {n.var.name for n in walk(loop.body) if isinstance(n, For) and n.kind == "unroll"}
    subscripts = (free_vars(i) for load in loads(loop.body) for i in load.indices)
    if not any(loop.var.name in names and rows & names.keys() for names in subscripts):
        return 0
    return _registers(loop.body, vector_bits)


def _registers(s: Stmt, vector_bits: int, lanes: int = 1) -> int:
    """How many registers ``s``, which updates registers alone, updates in each of so many ``lanes``."""
    if isinstance(s, Seq):
        return sum(_registers(part, vector_bits, lanes) for part in s.body)
    if isinstance(s, For):
        count = constant_extent(s) or 1
        if s.kind == "vector":
            return _registers(s.body, vector_bits, count)
        return count * _registers(s.body, vector_bits, lanes)
    return -(-lanes * s.buffer.dtype.bits // vector_bits) if isinstance(s, Store) else 0


def _streamed(s: Stmt, step: str, vector_bits: int, around: tuple[For, ...] = ()) -> int:
    """How many registers ``s`` loads side by side from memory that ``step`` goes through."""
    if isinstance(s, Seq):
        return sum(_streamed(part, step, vector_bits, around) for part in s.body)
    if isinstance(s, For):
        return _streamed(s.body, step, vector_bits, (*around, s))
    total = 0
    for load in loads(s):
        names = {name for i in load.indices for name in free_vars(i)}
        moving = [loop for loop in around if loop.var.name in names]
        if step in names and any(loop.kind == "vector" for loop in moving):
            elements = math.prod(constant_extent(loop) or 1 for loop in moving)
            total += -(-elements * load.buffer.dtype.bits // vector_bits)
    return total


def _cut(loop: For, count: int, most: int, taken: set[str]) -> Stmt:
    """``loop`` by steps that leave nothing over, of which there are more than half of ``most``; else by ``most``."""
    assert isinstance(loop.lo, Const)
    by = next((n for n in range(most, most // 2, -1) if count % n == 0), most)
    if by < 2 or count < by:
        return loop
    first, whole = int(loop.lo.value), count // by
    outer = Var(fresh_name(f"{loop.var.name}_steps", taken), loop.var.dtype)
    step = Var(fresh_name(f"{loop.var.name}_step", taken), loop.var.dtype)
    body = substitute(loop.body, {loop.var: outer * idx(by) + step + idx(first)})
    inner = replace(loop, var=step, lo=idx(0), hi=idx(by), kind="unroll", body=body)
    main = replace(loop, var=outer, lo=idx(0), hi=idx(whole), body=inner)
    return main if count % by == 0 else Seq((main, replace(loop, lo=idx(first + whole * by))))
