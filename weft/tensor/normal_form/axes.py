"""Axes of a statement: from 0, and the digits of one number as one axis.

=========  ===============================================================  ======
rewrite    before → after                                                   class
=========  ===============================================================  ======
turned     ``C(m,n) +=! B(k,n) * A(m,k)`` → ``C(m,n) +=! A(m,k) * B(k,n)``    exact
drop       a sum over one point that nothing depends on → no sum             exact
from_zero  ``O(i-1) = X(i) where i in 1:N`` → ``O(i) = X(i+1)``              exact
digits     ``X(k*32+r) where k in 0:64, r in 0:32`` → ``X(r), r in 0:2048``  exact ¹
order      ``sum over p, c of X(c,p)`` → over c, p                           fast ²
=========  ===============================================================  ======

¹ Two axes of a sum that are not neighbours in its order: fast. ² Exact for min, max and integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from weft.ir.expr import Axis, Binary, Const, Expr, Load, Var, idx
from weft.ir.visit import free_vars, loads, rewrite, substitute, walk
from weft.tensor.normal_form.statements import is_element
from weft.tensor.polynomial import Polynomial, canonical
from weft.tensor.program import Statement


def put(s: Statement, at: Mapping[Var, Expr]) -> Statement:
    """The statement with other subscripts in the place of variables, each subscript in its normal form."""
    values = dict(at)
    return replace(s, indices=tuple(_placed(i, values) for i in s.indices), value=put_value(s.value, values))


def put_value(value: Expr, at: Mapping[Var, Expr]) -> Expr:
    """A formula with ``at`` put in; subscripts come out in their normal form."""
    return rewrite(substitute(value, dict(at)), _tidy)


def _tidy(node: object) -> Expr | None:
    if not isinstance(node, Load):
        return None
    indices = tuple(map(_canonical, node.indices))
    return None if indices == node.indices else replace(node, indices=indices)


def _placed(index: Expr, at: dict[Var, Expr]) -> Expr:
    return _canonical(substitute(index, at))


def _canonical(index: Expr) -> Expr:
    return index if isinstance(index, (Var, Const)) or loads(index) else canonical(index)


def from_zero(s: Statement) -> Statement:
    """Every axis from 0, unless ranges depend on it."""
    at = {a.var: a.var + a.lo for a in s.axes if a.lo != idx(0)}
    if not at or _in_ranges(s.axes) & {v.name for v in at}:
        return s
    return put(replace(s, axes=tuple(replace(a, lo=idx(0), hi=canonical(a.hi - a.lo)) for a in s.axes)), at)


def _in_ranges(axes: Iterable[Axis]) -> set[str]:
    return {name for a in axes for bound in (a.lo, a.hi) for name in free_vars(bound)}


def drop_single(s: Statement) -> Statement:
    """Axes of a sum that have one point, which nothing mentions, go."""
    named = {*free_vars(s.value), *_in_ranges(s.axes)}
    gone = [a for a in s.reduce_axes if (a.lo, a.hi) == (idx(0), idx(1)) and a.var.name not in named]
    return replace(s, axes=tuple(a for a in s.axes if a not in gone)) if gone else s


def turn_factors(s: Statement) -> Statement:
    """Of two elements multiplied in a sum, the one first that goes along with the outer axes of the result."""
    e = s.value
    if s.op != "+" or not isinstance(e, Binary) or e.op != "*" or not (is_element(e.left) and is_element(e.right)):
        return s
    places = [a.var.name for a in s.spatial_axes]

    def key(factor: Expr) -> list[int]:
        used = free_vars(factor)
        return [n for n, name in enumerate(places) if name in used] or [len(places)]

    return replace(s, value=Binary("*", e.right, e.left, span=e.span)) if key(e.right) < key(e.left) else s


def merge_digits(s: Statement, fast: bool) -> Statement:
    """Axes that stand together in every subscript, as digits of one number, as one."""
    for _ in range(len(s.axes)):
        found = _pair(s, fast)
        if found is None:
            return s
        a, b = found
        one = replace(b, hi=canonical(a.hi * b.hi))
        s = put(replace(s, axes=tuple(one if x is b else x for x in s.axes if x is not a)), {a.var: idx(0)})
    return s


def _pair(s: Statement, fast: bool) -> tuple[Axis, Axis] | None:
    """A digit and the one below it."""
    subscripts = [*s.indices, *(i for load in loads(s.value) for i in load.indices)]
    if all(isinstance(i, (Var, Const)) for i in subscripts):
        return None
    sums = {i: Polynomial.of(i) for i in subscripts if not isinstance(i, (Var, Const)) and not loads(i)}
    own, summed = {a.var: a for a in s.axes}, {a.var for a in s.reduce_axes}
    for p in sums.values():
        steps = {own[m[0]]: c for m, c in p.terms.items() if len(m) == 1 and m[0] in own}  # type: ignore[index]
        for a, step in steps.items():
            for b, unit in steps.items():
                width = b.hi.value if isinstance(b.hi, Const) else None
                if width is None or step != unit * width or a is b or (a.var in summed) != (b.var in summed):
                    continue
                near = fast or s.op in ("min", "max") or s.value.dtype.is_integer or a.var not in summed
                near = near or s.axes.index(a) + 1 == s.axes.index(b)
                if near and _go_together(s, a, b, int(width), sums):
                    return a, b
    return None


def order_sums(s: Statement, fast: bool) -> Statement:
    """Axes of a sum in the order in which its value mentions them."""
    summed = s.reduce_axes
    if len(summed) < 2 or not (fast or s.op in ("min", "max") or s.value.dtype.is_integer):
        return s
    if _in_ranges(s.axes) & {a.var.name for a in s.axes}:
        return s
    seen = [*free_vars(s.value), *(a.var.name for a in summed)]
    axes = (*s.spatial_axes, *sorted(summed, key=lambda a: seen.index(a.var.name)))
    return s if axes == s.axes else replace(s, axes=axes)


def _go_together(s: Statement, a: Axis, b: Axis, width: int, sums: Mapping[Expr, Polynomial]) -> bool:
    """Whether both are digits of one number in each of these sums and are mentioned nowhere else."""
    if (a.lo, b.lo) != (idx(0), idx(0)):
        return False
    for p in sums.values():
        x, y = p.coefficient(a.var), p.coefficient(b.var)
        if x is None or y is None or x != y * width:
            return False
    pair = {a.var.name, b.var.name}
    others = [atom for p in sums.values() for atom in p.atoms() if not isinstance(atom, Var)]
    others += [*(i for i in s.indices if i not in sums), *(e for x in s.axes for e in (x.lo, x.hi))]
    if any(pair & free_vars(e).keys() for e in others):
        return False
    inside = [i for load in loads(s.value) for i in load.indices if i in sums]
    return all(_count(s.value, name) == sum(_count(i, name) for i in inside) for name in pair)


def _count(e: Expr, name: str) -> int:
    return Counter(n.name for n in walk(e) if isinstance(n, Var))[name]
