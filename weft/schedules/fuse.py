"""``fuse``: loops directly inside one another become one that visits the same points in the same order: loop
collapsing, or coalescing."""

from __future__ import annotations

from weft.ir.expr import Binary, Expr, Var, idx
from weft.ir.simplify import simplify
from weft.ir.stmt import For, If, Kernel, Stmt
from weft.ir.visit import free_vars, fresh_name, substitute
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_loop, ranges_at
from weft.schedules.loop_facts import check_runs_through, extent, first_no, has_barrier, not_negative
from weft.schedules.reorder import chain_of
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, simplify_bounds, taken_names
from weft.schedules.trace import Numerics


def check_fuse(kernel: Kernel, *loops: str, numerics: Numerics) -> Verdict:
    """Fusing keeps the order; the loops must be directly nested, alike in kind, and rectangular."""
    nodes = [find_loop(kernel, name) for name in loops]
    if len(nodes) < 2:
        return refuse("it takes at least two loops")
    if len(set(loops)) != len(loops):
        return refuse("a loop is named twice")
    chain = chain_of(kernel, nodes)
    if isinstance(chain, Verdict):
        return chain
    names = [s.var.name for s in chain if isinstance(s, For)]
    if names != list(loops):
        inner_first = sorted(names) == sorted(loops)
        between = [n for n in names if n not in loops]
        call = ", ".join(f'"{n}"' for n in names)
        why = "they are nested in another order" if inner_first else f"`{between[0]}` is between them"
        return refuse(why, alternatives=(f"s.fuse({call})",))
    return first_no([_check_alike(nodes), *map(check_runs_through, nodes), _check_rectangle(nodes, chain)])


def _check_alike(nodes: list[For]) -> Verdict:
    first = nodes[0]
    for other in nodes[1:]:
        if other.kind != first.kind:
            return refuse(f"`{first.var.name}` is {first.kind} and `{other.var.name}` is {other.kind}")
    return OK


def _check_rectangle(nodes: list[For], chain: list[For | If]) -> Verdict:
    names = {n.var.name for n in nodes}
    for node in nodes[1:]:
        needed = {*free_vars(node.lo), *free_vars(node.hi)} & names
        if needed:
            return refuse(f"the range of `{node.var.name}` depends on `{sorted(needed)[0]}`")
    if len(chain) > len(nodes) and has_barrier(chain[0]):
        return refuse("there is a guard between them, and a barrier inside")
    return OK


@primitive(check_fuse, "cannot fuse loops {*}")
def fuse(kernel: Kernel, *loops: str) -> Rewrite:
    """Makes ``i_j`` of ``i`` and ``j``."""
    nodes = [find_loop(kernel, name) for name in loops]
    outer = nodes[0]
    ranges = ranges_at(kernel, outer)
    chain = chain_of(kernel, nodes)
    assert not isinstance(chain, Verdict), "check_fuse answers this first"
    fused = Var(fresh_name("_".join(loops), taken_names(kernel)), span=outer.var.span)
    sizes = [not_negative(extent(n, ranges), ranges) for n in nodes]
    values: dict[Var, Expr] = {}
    rest: Expr = fused
    for node, size in reversed(list(zip(nodes[1:], sizes[1:]))):
        values[node.var] = node.lo + Binary("%", rest, size)
        rest = Binary("//", rest, size)
    values[outer.var] = outer.lo + rest
    total = sizes[0]
    for size in sizes[1:]:
        total = simplify(Binary("*", total, size), ranges)
    last = chain[-1]
    body: Stmt = last.body if isinstance(last, For) else last.then
    for guard in reversed([s for s in chain if isinstance(s, If)]):
        body = If(guard.condition, body, span=guard.span)
    nest = For(fused, idx(0), total, outer.kind, substitute(body, values), span=outer.span)
    fates = dict.fromkeys(loops, f"was fused into {fused.name}")
    return Rewrite(replace_stmt(kernel, outer, simplify_bounds(nest, ranges)), (fused.name,), fates)
