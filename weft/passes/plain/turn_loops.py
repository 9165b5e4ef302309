"""Loops that run backward in some iterations of another, as loops that count on, with subscripts that count down.

::

    for j in 0:n backward if t % 2 == 1 { ... j ... }
    ->  for turn in 0:n { let j = t % 2 == 1 ? n - 1 - turn : turn { ... j ... } }

Last of the passes: all others see a loop with plain subscripts, and what they take apart keeps its order or loses it,
which changes no result. Panels change their places, what is inside one does not: it is fetched ahead as before.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Select, Var, idx
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Kernel, Let, Stmt
from weft.ir.visit import fresh_name, rewrite, used_names


def turn_loops(kernel: Kernel) -> Kernel:
    """``kernel`` with no loop that runs backward."""
    taken = used_names(kernel)

    def visit(n: object) -> Stmt | None:
        if not isinstance(n, For) or n.backward is None:
            return None
        if n.kind != "serial":  # written out, it has no order to speak of
            return replace(n, backward=None)
        turn = Var(fresh_name(f"{n.var.name}_turn", taken))
        place = Select(n.backward, simplify(n.lo + n.hi - idx(1)) - turn, turn)
        return replace(n, var=turn, body=Let(n.var, place, n.body), backward=None)

    return replace(kernel, body=rewrite(kernel.body, visit))
