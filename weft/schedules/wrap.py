"""``wrap``: a loop of one iteration around a block or a loop, so that it can be merged with a loop beside it.

A statement before a loop, as the division in an LU step, becomes part of that loop's nest: wrapped at the value
of the loop where it is to run, and then merged by ``fuse_loops(..., by="value")``.
"""

from __future__ import annotations

from weft.ir.errors import ScheduleError
from weft.ir.expr import Expr, Var, idx
from weft.ir.nesting import path_to
from weft.ir.simplify import simplify
from weft.ir.stmt import Block, For, Kernel, Stmt
from weft.ir.visit import fresh_name
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import loops_around, node_of, ranges_at
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, taken_names
from weft.schedules.specialize import parse_index
from weft.schedules.trace import Numerics


def check_wrap(kernel: Kernel, node: str, at: int | str = 0, *, numerics: Numerics) -> Verdict:
    """Always legal outside of vectors and threads: the loop runs once."""
    target_node = node_of(kernel, node)
    loop_value(kernel, target_node, at)
    inside = next((f for f in loops_around(kernel, target_node) if f.kind in ("vector", "unroll")), None)
    return OK if inside is None else refuse(f"`{node}` is in the {inside.kind} loop `{inside.var.name}`")


@primitive(check_wrap, "cannot put a loop around `{0}`")
def wrap(kernel: Kernel, node: str, at: int | str = 0) -> Rewrite:
    """Makes the loop ``u_at``, whose only value is ``at``."""
    target_node = node_of(kernel, node)
    value = loop_value(kernel, target_node, at)
    var = Var(fresh_name(f"{node}_at", taken_names(kernel)))
    end = simplify(value + idx(1), ranges_at(kernel, target_node))
    return Rewrite(replace_stmt(kernel, target_node, For(var, value, end, "serial", target_node)), (var.name,))


def loop_value(kernel: Kernel, node: Stmt, at: int | str) -> Expr:
    """What ``at`` means where ``node`` stands: a number, or a text over scalars and the loops around it.

    Inside a block these are the loops of the block and its iterators.
    """
    if isinstance(at, int) and not isinstance(at, bool) and abs(at) < 1 << 62:
        return idx(at)
    if not isinstance(at, str):
        raise ScheduleError(f"{at!r} is not a value for a loop", help='use a number, or a text such as "k + 1"')
    seen: list[Var] = []
    for s in path_to(kernel, node)[:-1]:
        if isinstance(s, Block):
            seen = [i.var for i in s.iters]
        elif isinstance(s, For):
            seen.append(s.var)
    variables: dict[str, Expr] = {v.name: v for v in (*seen, *kernel.scalars)}
    return simplify(parse_index(at, variables), ranges_at(kernel, node))
