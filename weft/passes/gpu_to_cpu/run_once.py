"""Threads that all do the same, run once.

    thread ty in 0:8 { thread tx in 0:32 { for k in 0:n { s[tx] = s[tx] + A[tx, k] } } }

No thread asks for its ``ty``: eight of them do the same to the same memory, without atomic updates. Unless what they
store is what is there already, that is a race, and a GPU may run them in any order: here in step, as a warp does, all
of them load before one stores. Then they leave what one of them leaves, and one is run.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import AddressOf, Binary, idx
from weft.ir.nesting import around, perfect_nest
from weft.ir.simplify import simplify
from weft.ir.stmt import Atomic, Barrier, Evaluate, For, Kernel, Stmt
from weft.ir.visit import free_vars, map_statements, walk
from weft.passes.analysis.loop_ranges import constant_extent

#: What counts how often it is done, or waits for others.
_COUNTED = (AddressOf, Atomic, Barrier, Evaluate)


def run_once(kernel: Kernel) -> Kernel:
    """``kernel`` with one thread in place of several that do the same."""
    return replace(kernel, body=_visit(kernel.body))


def _visit(s: Stmt) -> Stmt:
    if not isinstance(s, For) or s.kind != "thread":
        return map_statements(s, _visit)
    loops, body = perfect_nest(s, "thread")
    used = set(free_vars(body)).union(*(free_vars(e) for loop in loops for e in (loop.lo, loop.hi)))
    alike = [loop for loop in loops if loop.var.name not in used and (constant_extent(loop) or 0) > 1]
    if not alike or any(isinstance(n, _COUNTED) for n in walk(body)):
        return s
    others = [loop for loop in loops if loop not in alike]
    return around(others or [replace(loops[-1], lo=simplify(Binary("-", loops[-1].hi, idx(1))))], body)
