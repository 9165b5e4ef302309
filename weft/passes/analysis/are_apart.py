"""Whether two subscripts never name one element, from the ranges of the loops around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.ir.affine import affine_form
from weft.ir.expr import Binary, Expr, Ramp
from weft.ir.solve import Form, combine, solve
from weft.ir.stmt import For


def are_apart(a: Sequence[Expr], b: Sequence[Expr], loops: Sequence[For]) -> bool:
    """Whether ``a`` and ``b`` differ in every iteration of ``loops``, as in ``x[j]`` and ``x[i]`` for ``j`` in ``0:i``.

    Variables have one value in both.
    """
    equations: list[Form] = []
    lanes: list[Form] = []
    for left, right in zip(a, b):
        one, other = _lane_form(left, lanes), _lane_form(right, lanes)
        if one is not None and other is not None:
            equations.append(combine(one, other, -1))
    if not equations:
        return False
    return solve(equations, [*lanes, *(form for loop in loops for form in loop_bounds(loop))]) is None


def _lane_form(e: Expr, lanes: list[Form]) -> Form | None:
    """The subscript of some lane; what is known of the lane is added to ``lanes``."""
    if not isinstance(e, Ramp):
        return affine_form(e)
    base, stride = affine_form(e.base), affine_form(e.stride)
    if base is None or stride is None or set(stride) - {""}:
        return None
    name = f"lane {len(lanes)}"
    lanes += [{name: 1}, {name: -1, "": e.lanes - 1}]
    return combine(base, {name: stride.get("", 0)}) if stride else base


def loop_bounds(loop: For) -> Iterator[Form]:
    """What is known of the variable: ``lo <= v`` and ``v < hi``, each of several where they are extremes."""
    name = loop.var.name
    for e in sides(loop.lo, "max"):
        if (form := affine_form(e)) is not None:
            yield combine({name: 1}, form, -1)
    for e in sides(loop.hi, "min"):
        if (form := affine_form(e)) is not None:
            yield combine(combine(form, {name: 1}, -1), {"": -1})


def sides(e: Expr, op: str) -> Iterator[Expr]:
    """What ``e`` is the extreme of: ``a``, ``b`` and ``c`` of ``min(a, min(b, c))``."""
    if isinstance(e, Binary) and e.op == op:
        yield from sides(e.left, op)
        yield from sides(e.right, op)
    else:
        yield e
