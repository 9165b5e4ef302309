"""Loops that run backward in some iterations of another, as loops that count on, with subscripts that count down.

::

    for j in 0:n backward if t % 2 == 1 { ... j ... }
    ->  for turn in 0:n { let j = t % 2 == 1 ? n - 1 - turn : turn { ... j ... } }

Last of the passes: all others see a loop with plain subscripts, and what they take apart keeps its order or loses it,
which changes no result. Panels change their places, what is inside one does not: it is fetched ahead as before.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Call, Expr, Load, Select, Var, idx
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import For, Kernel, Let, Stmt
from weft.ir.visit import fresh_name, rewrite, used_names, walk


def turn_loops(kernel: Kernel) -> Kernel:
    """``kernel`` with no loop that runs backward."""
    taken = used_names(kernel)

    def visit(n: object) -> Stmt | None:
        if not isinstance(n, For) or n.backward is None:
            return None
        if n.kind != "serial":  # written out, it has no order to speak of
            return replace(n, backward=None)
        return turned(n, taken)

    return replace(kernel, body=rewrite(kernel.body, visit))


def turned(loop: For, taken: set[str]) -> Stmt:
    """``loop`` counting on. What its body could change is looked at before it, as it was."""
    assert loop.backward is not None
    turn = Var(fresh_name(f"{loop.var.name}_turn", taken))
    last, backward = simplify(loop.lo + loop.hi - idx(1)), loop.backward
    before: list[tuple[Var, Expr]] = []
    if not _stays(last, loop):
        low, high = (Var(fresh_name(f"{loop.var.name}_{end}", taken)) for end in ("first", "end"))
        before += [(low, loop.lo), (high, loop.hi)]
        loop, last = replace(loop, lo=low, hi=high), low + high - idx(1)
    if not _stays(backward, loop):
        before.append((Var(fresh_name(f"{loop.var.name}_backward", taken), backward.dtype), backward))
        backward = before[-1][0]
    place = Select(backward, last - turn, turn)
    made: Stmt = replace(loop, var=turn, body=Let(loop.var, place, loop.body), backward=None)
    for var, value in reversed(before):
        made = Let(var, value, made)
    return made


def _stays(e: Expr, loop: For) -> bool:
    """Whether ``e`` is the same in all iterations."""
    changing = assigned_names(loop.body)
    return not any(isinstance(n, (Load, Call)) or (isinstance(n, Var) and n.name in changing) for n in walk(e))
