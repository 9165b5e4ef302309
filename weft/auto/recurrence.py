"""Recurrences: loops whose iterations are the steps of several nests, one after another.

The steps stay in order and outermost; the nests of a step are scheduled as if each were a program of its own, with
threads, packing and what follows a product joined to its tiles. What does not change from step to step (packed weights)
is made once, before them.
"""

from __future__ import annotations

from weft.ir.nesting import inner_statements
from weft.ir.stmt import Block, For, Kernel, Stmt


def find_steps(kernel: Kernel) -> frozenset[str]:
    """The loops around several nests of a program that nobody has fused anything in yet."""
    found: set[str] = set()

    def count(s: Stmt) -> int:
        blocks = 1 if isinstance(s, Block) else sum(map(count, inner_statements(s)))
        if isinstance(s, For) and s.kind == "serial" and blocks > 1:
            found.add(s.var.name)
        return blocks

    count(kernel.body)
    return frozenset(found)
