"""Grid barriers taken out of a program: block loops split around them, as between two launches.

``block b { A; barrier(grid); B }`` becomes ``block b { A }; block b { B }``; loops around a barrier come to stand
around the block loops. What a block keeps across the barrier, its shared memory too, gets a place for each block.
Blocks are split as threads are (`split_threads`); threads that meet at the barrier come first, within their block.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.nesting import perfect_nest
from weft.ir.stmt import Barrier, For, Kernel, Stmt
from weft.ir.visit import map_statements, used_names
from weft.passes.analysis.thread_teams import Team, check_shared, holds, sink_lets
from weft.passes.gpu_to_cpu.split_threads import split_team


def split_grids(kernel: Kernel) -> Kernel:
    """``kernel`` without grid barriers."""
    if not holds(kernel.body, "grid"):
        return kernel
    check_shared(kernel.body)
    return replace(kernel, body=_visit(kernel.body, used_names(kernel)))


def _visit(s: Stmt, taken: set[str]) -> Stmt:
    if not holds(s, "grid"):
        return s
    if isinstance(s, For) and s.kind == "block":
        blocks, body = perfect_nest(s, "block")
        return split_team(Team(blocks, "grid"), _split_inside(body, taken), taken)
    if isinstance(s, For) and s.kind == "thread":
        return _within_block(s)
    return map_statements(s, lambda n: _visit(n, taken))


def _split_inside(s: Stmt, taken: set[str]) -> Stmt:
    """What a block does, with grid barriers between its thread loops instead of in them."""
    if not holds(s, "grid"):
        return s
    if isinstance(s, For) and s.kind == "thread":
        threads, body = perfect_nest(sink_lets(s), "thread")
        return split_team(Team(threads, "grid"), body, taken)
    return map_statements(s, lambda n: _split_inside(n, taken))


def _within_block(s: Stmt) -> Stmt:
    """``s``, threads of which there is one block, which is all of the grid."""
    if isinstance(s, Barrier) and s.scope == "grid":
        return replace(s, scope="block")
    return map_statements(s, _within_block)
