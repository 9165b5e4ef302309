"""Whether a sum without one of its guards would only have zeros added to it.

Tiles of a reduction that do not come out even are guarded: ``if k < K`` around each update. Where what is multiplied
is read from storage filled up with zeros (`pack` with ``pad=True``) exactly where that guard fails, the products are
+0, and a sum that started at +0 is never -0: adding them changes no bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.ir.expr import Binary, Cast, Const, Expr, Load, Select, Var
from weft.ir.interval import Interval
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Block, If, Kernel, Store
from weft.ir.visit import free_vars, substitute
from weft.poly.leaves import Leaf, leaves
from weft.schedules.find import all_allocs, find_alloc, loops_around, ranges_at
from weft.schedules.project import conjuncts, gap_of


def adds_zeros(kernel: Kernel, block: Block, guard: If) -> bool:
    """Whether ``block``, a sum, adds +0 wherever ``guard`` keeps it from running."""
    (leaf,) = [f for f in leaves(kernel, block) if isinstance(f.stmt, Store)] or (None,)
    if leaf is None or leaf.update_op != "+" or not isinstance(leaf.stmt, Store):
        return False
    added = _added(leaf.stmt)
    ranges = ranges_at(kernel, block)
    gaps = {gap_of(c, ranges) for c in conjuncts(leaf.resolve(guard.condition))}
    if added is None or len(gaps) != 1 or not _starts_at_zero(kernel, leaf.stmt):
        return False
    (gap,) = gaps
    return gap is not None and _is_zero(kernel, leaf, added, gap, ranges)


def _added(s: Store) -> Expr | None:
    """The value that ``s`` adds to its element."""
    value = s.value
    if not isinstance(value, Binary) or value.op != "+":
        return None
    for old, new in ((value.left, value.right), (value.right, value.left)):
        if isinstance(old, Load) and old.buffer.name == s.buffer.name and old.indices == s.indices:
            return new
    return None


def _starts_at_zero(kernel: Kernel, update: Store) -> bool:
    """Whether nothing else is stored to the sums than a first +0."""
    others = [f.stmt for f in leaves(kernel, find_alloc(kernel, update.buffer.name))]
    stored = [s for s in others if isinstance(s, Store) and s.buffer.name == update.buffer.name and s != update]
    return all(isinstance(s.value, Const) and str(s.value.value) in ("0", "0.0") for s in stored)


def _is_zero(kernel: Kernel, leaf: Leaf, e: Expr, gap: Expr, ranges: Mapping[str, Interval]) -> bool:
    """Whether ``e`` is +0 where ``gap`` is negative: a product of such values, so that none is NaN."""
    if isinstance(e, Cast):
        return _is_zero(kernel, leaf, e.operand, gap, ranges)
    if isinstance(e, Binary) and e.op == "*":
        return all(_is_zero(kernel, leaf, side, gap, ranges) for side in (e.left, e.right))
    return isinstance(e, Load) and _is_filled_up(kernel, leaf, e, gap, ranges)


def _is_filled_up(kernel: Kernel, leaf: Leaf, load: Load, gap: Expr, ranges: Mapping[str, Interval]) -> bool:
    """Whether the storage that is read was filled with +0 where ``gap`` is negative."""
    alloc = next((a for a in all_allocs(kernel) if a.buffer.name == load.buffer.name), None)
    fill = None if alloc is None else _find_fill(kernel, alloc)
    if alloc is None or fill is None:
        return False
    subscripts, condition = fill
    around = {loop.var.name for loop in loops_around(kernel, alloc)}
    here = {var: leaf.resolve(i) for var, i in zip(subscripts, load.indices)}
    tests = [substitute(c, here) for c in conjuncts(condition)]
    fixed = all(n in around or Var(n) in here for c in conjuncts(condition) for n in free_vars(c))
    return fixed and any(gap_of(simplify(t, ranges), ranges) == gap for t in tests)


def _find_fill(kernel: Kernel, alloc: Alloc) -> tuple[Sequence[Var], Expr] | None:
    """The subscripts, loops of their own, and the condition of ``storage[i] = condition ? value : +0``."""
    name = alloc.buffer.name
    statements = [f for f in leaves(kernel, alloc) if any(a.writes and a.buffer.name == name for a in f.accesses)]
    if len(statements) != 1 or statements[0].tests or not isinstance(statements[0].stmt, Store):
        return None
    (leaf,), s = statements, statements[0].stmt
    value = s.value
    subscripts = [leaf.resolve(i) for i in s.indices]
    plain = [v for v in subscripts if isinstance(v, Var)]
    distinct = len(plain) == len(set(plain)) == len(subscripts)
    if not distinct or not isinstance(value, Select) or not isinstance(value.otherwise, Const):
        return None
    return (plain, leaf.resolve(value.condition)) if str(value.otherwise.value) in ("0", "0.0") else None
