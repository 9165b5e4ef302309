"""Where in memory an access goes, in terms of loops alone: what subscripts take apart is put together again.

Loops that were fused and cut again have subscripts ``f // 320``, ``f // 10 % 32``, ``(512*f + t) // 160 % 32`` and
``(512*f + t) % 160``, with ``t`` in 0:512: in rows of 160 elements they are one sum, ``512*f + t``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from weft.ir.affine import Linear, linear_form
from weft.ir.expr import Binary, Expr, Var, idx
from weft.ir.interval import Ranges
from weft.ir.offsets import linear_offset
from weft.ir.simplify import simplify
from weft.ir.solve import Form, variables
from weft.ir.visit import Node, rewrite, substitute, walk
from weft.poly.leaves import Access, Leaf

#: Stands for the sum whose quotients and remainders subscripts are.
_WHOLE = Var("whole ")


def place_of(leaf: Leaf, access: Access) -> Form | None:
    """Elements from the start of the buffer to what is touched; None where that is no sum of loops."""
    kept = leaf.place_cache.get(id(access))
    if kept is None:  # with the access itself, or another one could be made in its place
        kept = leaf.place_cache[id(access)] = access, _place_of(leaf, access)
    return kept[1]


def _place_of(leaf: Leaf, access: Access) -> Form | None:
    indices = [leaf.resolve(i) for i in access.indices]
    offset = linear_offset(access.buffer, tuple(indices))
    place = None if offset is None else _form(offset, leaf)
    found = _sum(indices, leaf.ranges) if place is None else None
    if found is None:
        return place
    whole, first, step = found
    joined = linear_offset(access.buffer, tuple(_in_terms_of(i, whole, first, step, leaf.ranges) for i in indices))
    times = 0 if joined is None else joined.terms.pop(_WHOLE, 0)
    return None if joined is None or not times else _form(joined.add(linear_form(whole), times), leaf)


def _form(offset: Linear, leaf: Leaf) -> Form | None:
    form = offset.by_name()
    return form if form is not None and all(name in leaf.loop_names for name in variables(form)) else None


def _sum(indices: Sequence[Expr], ranges: Ranges) -> tuple[Expr, Var, int] | None:
    """The only sum that is divided, so many ``step`` times a first variable and less than that of others; the first may
    be divided besides."""
    divided = {n.left for i in indices for n in walk(i) if _is_division(n) and not _is_division(n.left)}
    sums = [e for e in divided if not isinstance(e, Var)]
    linear = linear_form(sums[0]) if len(sums) == 1 else Linear()
    first = max(linear.terms, key=lambda v: linear.terms[v], default=None)
    if not isinstance(first, Var) or linear.constant or not divided <= {first, sums[0]}:
        return None
    step = linear.terms[first]
    rest = Linear({v: c for v, c in linear.terms.items() if v != first})
    return (sums[0], first, step) if step > 1 and rest.bounds(ranges).within(0, step - 1) else None


def _is_division(n: object) -> TypeGuard[Binary]:
    return isinstance(n, Binary) and n.op in ("//", "%")


def _in_terms_of(e: Expr, whole: Expr, first: Var, step: int, ranges: Ranges) -> Expr:
    """``e`` with ``whole`` as one variable, of which ``first`` is a quotient."""

    def visit(n: Node) -> Node | None:
        return _WHOLE if n == whole else None

    rewritten = substitute(rewrite(e, visit), {first: _WHOLE // idx(step)})
    return simplify(rewritten, {**ranges, _WHOLE.name: linear_form(whole).bounds(ranges)})
