"""Steps of sums that are kept in registers written out several at a time.

Counting and testing take instructions beside those of a step, about one of eight where a step updates twelve sums. A
core that two threads use at once has no room for them, and one alone looks further ahead without. Two kinds of steps
stay as they are, since more code is all that would come of it: those of a core whose vectors take so long that counting
is done meanwhile (AVX-512 by halves), and those that update many sums, which leave no registers for what LLVM loads of
the next step (27 sums in 32 registers: eight of them went through the stack, a third of the speed; 28 sums of windows,
whose steps read the same elements: a quarter).
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Const, Var, idx
from weft.ir.stmt import For, Kernel, Seq, Stmt, Store
from weft.ir.visit import fresh_name, map_statements, substitute, used_names
from weft.passes.analysis.loop_ranges import constant_extent

#: Steps at a time, and updates of sums up to which they are written out.
MOST_STEPS, MOST_UPDATES = 8, 96
#: Registers that one step updates beside which counting is nothing, and instructions for each of them that leave room for it.
LARGE_STEP, ENOUGH_SLOTS = 20, 4.0


def unroll_steps(kernel: Kernel, *, slots: float = 2.0, vector_bits: int = 128) -> Kernel:
    """Every innermost serial loop of constant extent that does nothing but update registers, some steps at a time."""
    if slots > ENOUGH_SLOTS:
        return kernel
    return replace(kernel, body=_visit(kernel.body, used_names(kernel), vector_bits))


def _visit(s: Stmt, taken: set[str], vector_bits: int) -> Stmt:
    if isinstance(s, For) and s.kind == "serial":
        count, updates = constant_extent(s), _updates(s.body, vector_bits)
        if count is not None and updates and updates < LARGE_STEP:
            return _cut(s, count, min(MOST_STEPS, MOST_UPDATES // updates), taken)
    return map_statements(s, lambda n: _visit(n, taken, vector_bits))


def _updates(s: Stmt, vector_bits: int, lanes: int = 1) -> int | None:
    """How many registers ``s`` updates when it is written out, each in so many ``lanes`` of a loop; None where it does
    anything else."""
    if isinstance(s, Seq):
        parts = [_updates(part, vector_bits, lanes) for part in s.body]
        return None if None in parts else sum(part or 0 for part in parts)
    if isinstance(s, For) and s.kind in ("unroll", "vector"):
        count, is_vector = constant_extent(s) or 0, s.kind == "vector"
        inside = _updates(s.body, vector_bits, count if is_vector else lanes)
        return None if not count or inside is None else inside * (1 if is_vector else count)
    if not isinstance(s, Store) or s.buffer.scope != "register":
        return None
    return -(-lanes * s.buffer.dtype.bits // vector_bits)


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
