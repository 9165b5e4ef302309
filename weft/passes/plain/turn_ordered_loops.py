"""Loops that run backward at times and whose iterations have an order, as loops that count on: before any other pass.

A schedule only turns loops whose iterations may run in any order (`weft.schedules.alternate`), and passes may then let
the mark fall. In a program that somebody wrote the order may be what it is about: what one iteration stores another
reads. Whether it is, is asked of each such loop; those that are left `turn_loops` writes out in the end.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.nesting import statements
from weft.ir.stmt import For, Kernel, Stmt
from weft.ir.visit import rewrite, used_names
from weft.passes.plain.turn_loops import turned
from weft.poly.check_parallel import check_any_order


def turn_ordered_loops(kernel: Kernel, *, fast: bool) -> Kernel:
    """``kernel`` with loops backward only where the order of iterations changes no result."""
    numerics = "fast" if fast else "strict"
    found = [s for s in statements(kernel.body) if isinstance(s, For) and s.backward is not None]
    ordered = {s.var.name for s in found if not check_any_order(kernel, s, numerics).ok}
    taken = used_names(kernel)

    def visit(n: object) -> Stmt | None:
        is_turned = isinstance(n, For) and n.backward is not None and n.var.name in ordered
        return turned(n, taken) if is_turned else None  # type: ignore[arg-type]

    return replace(kernel, body=rewrite(kernel.body, visit))
