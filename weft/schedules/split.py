"""``split``: one loop becomes two, an outer one over tiles and an inner one through each tile: strip-mining.

Where the tiles may not come out even, ``tail`` says what happens to the last one: ``"guard"`` tests
every iteration, ``"separate"`` gives the rest a loop of its own, ``"pad"`` promises there is no rest.
``"clip"`` cuts at multiples of the factor, wherever the loop starts: the tiles of a loop whose range depends
on loops around it (a triangle, a skewed loop) then lie at the same places for all of them.

``tile`` splits two nested loops and reorders, so that the inner pair walks through one tile (blocking).
"""

from __future__ import annotations

from typing import Literal

from weft.ir.expr import Binary, Compare, Const, Expr, Var, idx
from weft.ir.nesting import sequence
from weft.ir.printer import print_expr
from weft.ir.simplify import simplify
from weft.ir.stmt import For, If, Kernel, LoopKind, Stmt
from weft.ir.visit import fresh_name, substitute
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_loop, ranges_at
from weft.schedules.loop_facts import (
    check_no_barrier,
    check_number,
    check_runs_through,
    extent,
    first_no,
    is_multiple,
    is_true,
    most_trips,
    not_negative,
)
from weft.schedules.reorder import check_reorder, reorder
from weft.schedules.rewrite import Rewrite, fresh_copy, primitive, replace_stmt, simplify_bounds, taken_names
from weft.schedules.trace import Numerics

Tail = Literal["guard", "separate", "pad", "clip"]
_TAILS = ("guard", "separate", "pad", "clip")
#: What the outer and the inner loop of a split run like. Tiles of concurrent iterations may run in order, but
#: threads stay threads: barriers count them.
KINDS: dict[LoopKind, tuple[LoopKind, LoopKind]] = {
    "serial": ("serial", "serial"),
    "parallel": ("parallel", "serial"),
    "vector": ("serial", "vector"),
    "unroll": ("serial", "unroll"),
    "block": ("block", "block"),
    "thread": ("thread", "thread"),
}


def check_split(kernel: Kernel, loop: str, factor: int, tail: Tail = "guard", *, numerics: Numerics) -> Verdict:
    """Splitting keeps the order of all iterations; what can go wrong is the tail."""
    old = find_loop(kernel, loop)
    if tail not in _TAILS:
        return refuse(f"tail={tail!r} is not known", alternatives=tuple(f'tail="{t}"' for t in _TAILS))
    wrong = first_no([check_number("factor", factor, 1), check_runs_through(old)])
    if not wrong.ok:
        return wrong
    ranges = ranges_at(kernel, old)
    if tail == "clip" and old.kind not in ("serial", "parallel"):
        return refuse(f"tiles that are cut short would not fit the {old.kind} loop `{loop}`")
    if is_multiple(extent(old, ranges), factor, ranges):
        return OK
    if tail == "pad":
        count = extent(old, ranges)
        relation = "is not" if isinstance(count, Const) else "is not known to be"
        return refuse(
            f"`{loop}` runs {print_expr(count)} times, which {relation} a multiple of {factor}",
            alternatives=tuple(f's.split("{loop}", {factor}, tail="{t}")' for t in ("guard", "separate")),
        )
    return check_no_barrier(old, "an incomplete tile")


@primitive(check_split, "cannot split loop `{0}`")
def split(kernel: Kernel, loop: str, factor: int, tail: Tail = "guard") -> Rewrite:
    """Makes ``m_o`` and ``m_i`` of ``m`` (and ``m_t`` for a separate tail that may not be empty)."""
    old = find_loop(kernel, loop)
    taken, ranges = taken_names(kernel), ranges_at(kernel, old)
    outer, inner = (Var(fresh_name(f"{loop}_{part}", taken), span=old.var.span) for part in "oi")
    if tail == "clip":
        return _clip(kernel, old, factor, outer, inner)
    total = extent(old, ranges)
    even = is_multiple(total, factor, ranges)
    if not even and tail == "separate":
        return _separate(kernel, old, factor, outer, inner, taken)
    point = simplify(old.lo + outer * factor + inner, {})
    body: Stmt = substitute(old.body, {old.var: point})
    if not even:
        body = If(Compare("<", point, old.hi), body)
    tiles: Expr = Binary("//", total if even else total + (factor - 1), idx(factor))
    most = None if even or isinstance(total, Const) else most_trips(old, ranges)
    if most is not None and most <= factor:  # one tile, of which the guard leaves out what there is not
        tiles = idx(1)
    nest = simplify_bounds(_tiles(old, outer, inner, tiles, factor, body), ranges)
    fate = {loop: f"was split into {outer.name} and {inner.name}"}
    return Rewrite(replace_stmt(kernel, old, _drop_true_guard(nest)), (outer.name, inner.name), fate)


def _tiles(old: For, outer: Var, inner: Var, tiles: Expr, factor: int, body: Stmt) -> For:
    around, through = KINDS[old.kind]
    inside = For(inner, idx(0), idx(factor), through, body, span=old.span)
    return For(outer, idx(0), tiles, around, inside, span=old.span)


def _drop_true_guard(nest: For) -> For:
    """``nest`` without the guard around its inner body where that always holds."""
    inside = nest.body
    if isinstance(inside, For) and isinstance(inside.body, If) and is_true(inside.body.condition):
        inside = For(inside.var, inside.lo, inside.hi, inside.kind, inside.body.then, span=inside.span)
        return For(nest.var, nest.lo, nest.hi, nest.kind, inside, span=nest.span)
    return nest


def _clip(kernel: Kernel, old: For, factor: int, outer: Var, inner: Var) -> Rewrite:
    """The inner loop has the values of the old one, from one multiple of ``factor`` to the next."""
    size, ranges = idx(factor), ranges_at(kernel, old)
    around, through = KINDS[old.kind]
    lo, hi = Binary("max", old.lo, outer * size), Binary("min", old.hi, outer * size + size)
    inside = For(inner, lo, hi, through, substitute(old.body, {old.var: inner}), span=old.span)
    end = Binary("//", old.hi + (size - idx(1)), size)
    nest = simplify_bounds(For(outer, Binary("//", old.lo, size), end, around, inside, span=old.span), ranges)
    fate = {old.var.name: f"was split into {outer.name} and {inner.name}"}
    return Rewrite(replace_stmt(kernel, old, nest), (outer.name, inner.name), fate)


def _separate(kernel: Kernel, old: For, factor: int, outer: Var, inner: Var, taken: set[str]) -> Rewrite:
    name, ranges = old.var.name, ranges_at(kernel, old)
    tiles = simplify(Binary("//", not_negative(extent(old, ranges), ranges), idx(factor)), ranges)
    point = simplify(old.lo + outer * factor + inner, {})
    full = _tiles(old, outer, inner, tiles, factor, substitute(old.body, {old.var: point}))
    rest = Var(fresh_name(f"{name}_t", taken), span=old.var.span)
    kind: LoopKind = "serial" if old.kind == "vector" else old.kind
    copied = fresh_copy(substitute(old.body, {old.var: rest}), taken, "_t")
    tail = For(rest, simplify(old.lo + tiles * factor, ranges), old.hi, kind, copied, span=old.span)
    both = simplify_bounds(sequence([full, tail]), ranges)
    fate = {name: f"was split into {outer.name} and {inner.name}, with {rest.name} for the rest"}
    return Rewrite(replace_stmt(kernel, old, both), (outer.name, inner.name, rest.name), fate)


def check_tile(
    kernel: Kernel, i: str, j: str, rows: int, columns: int, tail: Tail = "guard", *, numerics: Numerics
) -> Verdict:
    if i == j:
        return refuse("these are one loop")
    verdict = first_no([check_split(kernel, loop, n, tail, numerics=numerics) for loop, n in ((i, rows), (j, columns))])
    if not verdict.ok:
        return verdict
    nested = check_reorder(kernel, i, j, numerics=numerics)
    if not nested.ok:
        return nested
    first = split(kernel, i, rows, tail)
    if tail == "separate":
        out = check_reorder(first.kernel, j, first.made[1], numerics=numerics)
        if not out.ok:
            return out
        second = split(reorder(first.kernel, j, first.made[1]).kernel, j, columns, tail)
        return check_reorder(second.kernel, *_order(first, second)[2:], numerics=numerics)
    second = split(first.kernel, j, columns, tail)
    return check_reorder(second.kernel, *_order(first, second), numerics=numerics)


@primitive(check_tile, "cannot tile loops `{0}` and `{1}`")
def tile(kernel: Kernel, i: str, j: str, rows: int, columns: int, tail: Tail = "guard") -> Rewrite:
    """Makes ``i_o, j_o, i_i, j_i``, in that order from outside in."""
    first = split(kernel, i, rows, tail)
    inside = first.kernel
    if tail == "separate":
        # The two parts of j would stand between the loops, so j goes out first.
        inside = reorder(inside, j, first.made[1]).kernel
    second = split(inside, j, columns, tail)
    order = _order(first, second)
    done = reorder(second.kernel, *(order[2:] if tail == "separate" else order))
    return Rewrite(done.kernel, order, {**first.fates, **second.fates})


def _order(first: Rewrite, second: Rewrite) -> tuple[str, str, str, str]:
    return first.made[0], second.made[0], first.made[1], second.made[1]
