"""``skip_masked``: iterations left out in which masks make zeros of all that is added to sums.

::

    for t in 0:T                                    for t in 0:min(T, s + 1)
      W = t <= s ? exp(x[s, t]) : 0           =>      W = t <= s ? exp(x[s, t]) : 0
      S[s] = S[s] + W * v[t]                          S[s] = S[s] + W * v[t]

This is the sparsity of masks; the loop may be one over tiles. Formulas in it are followed from the sums to their
masks: a product is zero where a factor is, which takes other factors to be finite; that, and that zeros have no signs,
is for fast numerics. Of a loop that surely runs at least one iteration is left, so that whoever counts them need not
ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.ir.expr import Binary, Cast, Const, Expr, Load, Select, Unary, Var
from weft.ir.inequality import conjuncts
from weft.ir.numerics import is_fast
from weft.ir.simplify import simplify
from weft.ir.stmt import Block, For, Kernel, Store
from weft.ir.visit import loads, mentions, substitute
from weft.poly.leaves import leaves, update_of
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import blocks_inside, find_loop, loops_around, ranges_at
from weft.schedules.loop_facts import check_runs_through
from weft.schedules.masks import narrowed, with_one_iteration
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt
from weft.schedules.tile_extremes import TileExtremes
from weft.schedules.trace import Numerics


class NotMasked(Exception):
    """Why no iteration is left out."""


def check_skip_masked(kernel: Kernel, loop: str, *, numerics: Numerics) -> Verdict:
    """All that the loop leaves behind must be sums, of which masks make zeros in the iterations left out."""
    found = find_loop(kernel, loop)
    if not is_fast(numerics):
        return replace(refuse("zeros that are not added may have signs, or be none"), offers=('numerics="fast"',))
    runs = check_runs_through(found)
    if not runs.ok:
        return runs
    try:
        _range(kernel, found, TileExtremes(kernel, found))
    except NotMasked as why:
        return refuse(str(why))
    return OK


@primitive(check_skip_masked, "cannot leave out iterations of `{0}`")
def skip_masked(kernel: Kernel, loop: str) -> Rewrite:
    """``loop`` with a shorter range."""
    old = find_loop(kernel, loop)
    extremes = TileExtremes(kernel, old)
    lo, hi = _range(kernel, old, extremes)
    made, place = replace_stmt(kernel, old, replace(old, lo=lo, hi=hi)), [x.var.name for x in extremes.outer[:1]]
    return Rewrite(extremes.placed(made, find_loop(made, place[0])) if place else made)


def _range(kernel: Kernel, loop: For, extremes: TileExtremes) -> tuple[Expr, Expr]:
    """From where to where any sum gets more than zeros."""
    inside = mentions(loop.body).allocated
    blocks = blocks_inside(loop)
    made = [(name, b) for b in blocks for name in mentions(b).stored & inside]
    formulas = {name: b for name, b in made if [n for n, _ in made].count(name) == 1}
    kept = [b for b in blocks if any(s not in inside for s in mentions(b).stored)]
    if not kept:
        raise NotMasked(f"nothing that `{loop.var.name}` computes is kept")
    lo, hi = loop.hi, loop.lo
    for block in kept:
        own = _range_of(kernel, loop, block, formulas, extremes)
        lo, hi = Binary("min", lo, own[0]), Binary("max", hi, own[1])
    ranges = ranges_at(kernel, loop)
    lo, hi = simplify(lo, ranges), simplify(hi, ranges)
    if (lo, hi) == (loop.lo, loop.hi):
        raise NotMasked(f"no mask makes all of an iteration of `{loop.var.name}` zeros")
    return with_one_iteration(loop, lo, hi, ranges)


def _range_of(
    kernel: Kernel, loop: For, block: Block, formulas: Mapping[str, Block], extremes: TileExtremes
) -> tuple[Expr, Expr]:
    """From where to where ``block`` adds more than zeros."""
    update = update_of(block.body) if isinstance(block.body, Store) and block.init is None else None
    if update is None or update[0] != "+":
        raise NotMasked(f"block `{block.name}` does not only add to what is kept")
    leaf = next(x for x in leaves(kernel, block) if x.stmt is block.body)
    conditions = [simplify(leaf.resolve(c)) for c in _where_not_zero(update[1], formulas)]
    inner = [x for x in loops_around(kernel, block) if x not in loops_around(kernel, loop) and x is not loop]
    return narrowed(loop, conditions, inner, extremes)


def _where_not_zero(e: Expr, formulas: Mapping[str, Block]) -> list[Expr]:
    """Conditions that all hold where ``e`` is not zero."""
    if isinstance(e, Cast):
        return _where_not_zero(e.operand, formulas)
    if isinstance(e, Unary) and e.op == "-":
        return _where_not_zero(e.operand, formulas)
    if isinstance(e, Binary) and e.op in ("*", "/"):
        factors = (e.left, e.right) if e.op == "*" else (e.left,)
        return [c for factor in factors for c in _where_not_zero(factor, formulas)]
    if isinstance(e, Select):
        if _is_zero(e.otherwise):
            return [*conjuncts(e.condition), *_where_not_zero(e.then, formulas)]
        if _is_zero(e.then):
            return [*conjuncts(e.condition, False), *_where_not_zero(e.otherwise, formulas)]
    value = _written_out(e, formulas) if isinstance(e, Load) else None
    return [] if value is None else _where_not_zero(value, formulas)


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 0


def _written_out(read: Load, formulas: Mapping[str, Block]) -> Expr | None:
    """The formula of what is read, where it is one."""
    block = formulas.get(read.buffer.name)
    store = None if block is None or block.init is not None else block.body
    if block is None or not isinstance(store, Store) or store.buffer in [x.buffer for x in loads(store.value)]:
        return None
    values: dict[Var, Expr] = {p: i for p, i in zip(store.indices, read.indices) if isinstance(p, Var)}
    plain = len(values) == len(store.indices) and {i.var for i in block.iters} <= values.keys()
    return substitute(store.value, values) if plain else None
