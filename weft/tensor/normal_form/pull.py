"""What does not depend on the axes of a sum of products, out of it. Fast.

``T(m,n) +=! a(m,k) * b(k,n) * 0.5 / s(m)`` is ``U(m,n) +=! a(m,k) * b(k,n)``, then ``T(m,n) = U(m,n) * 0.5 / s(m)``.

Only out of products with reuse (two factors of different axes): those are products of matrices, of which a factor too
many makes something else; a mean scaled inside costs nothing and stays.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Binary, Call, Expr, Load, const
from weft.ir.visit import free_vars, fresh_name, rewrite
from weft.tensor.normal_form.axes import put_value
from weft.tensor.normal_form.factors import Factors, factors_of, sum_of, terms_of
from weft.tensor.normal_form.statements import is_whole
from weft.tensor.normal_form.views import Formulas
from weft.tensor.program import Statement


def pull_factors(s: Statement, formulas: Formulas, taken: set[str]) -> list[Statement]:
    """The sum alone, and what is done with it; ``formulas`` are those of temporaries that it may read."""
    if s.op != "+" or not s.initialize or not s.value.dtype.is_float or not is_whole(s):
        return [s]
    if s.target.dtype != s.value.dtype:
        return [s]
    summed = {a.var.name for a in s.reduce_axes}
    found = factors_of(s.value, lambda e: _behind(e, formulas, summed))
    within = [e for e in found.above if summed & free_vars(e).keys()]
    over = [e for e in found.below if summed & free_vars(e).keys()]
    left = [a.var.name for a in s.spatial_axes]
    if not _has_reuse(within, left) or found.number == 0:
        return [s]
    outside = Factors(
        found.number, tuple(e for e in found.above if e not in within), tuple(e for e in found.below if e not in over)
    )
    if outside == Factors(1.0, ()):
        return [s]
    within = sorted(within, key=lambda e: [n for n, name in enumerate(left) if name in free_vars(e)] or [len(left)])
    own = replace(s.target, name=fresh_name(f"{s.target.name}_sum", taken))
    t = s.target.dtype
    total = Factors(1.0, (Load(own, s.indices, span=s.span),)).times(outside)
    value = Factors(1.0, tuple(within), tuple(over)).expr(t)
    assert total is not None
    end = Statement(s.target, s.indices, "=", False, total.expr(t), s.spatial_axes, span=s.span)
    return [replace(s, target=own, value=value), end]


def _has_reuse(factors: list[Expr], left: list[str]) -> bool:
    """Whether two factors go along with different axes of the result."""
    return len({frozenset({*left} & free_vars(e).keys()) for e in factors}) > 1


def _behind(e: Expr, formulas: Formulas, summed: set[str]) -> Expr | None:
    """The product that a factor is stored as, where some of it comes out of the sum and the rest is one element."""
    if not isinstance(e, Load) or e.buffer.name not in formulas:
        return None
    places, formula = formulas[e.buffer.name]
    value = put_value(formula, dict(zip(places, e.indices)))  # type: ignore[arg-type]
    found = factors_of(value)
    parts = (*found.above, *found.below)
    stays = [p for p in parts if summed & free_vars(p).keys()]
    comes = len(stays) < len(parts) or found.number != 1
    return value if comes and len(stays) == 1 and stays[0] in found.above and isinstance(stays[0], Load) else None


def open_logarithms(value: Expr, formulas: Formulas) -> Expr:
    """``exp(x - (m + log(s)))`` as ``exp(x - m) / s``. Fast; where s < 0 it is not NaN any more."""

    def behind(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer.name not in formulas:
            return None
        places, formula = formulas[e.buffer.name]
        if not any(_is_log(a) for _, a in terms_of(formula)):
            return None
        return put_value(formula, dict(zip(places, e.indices)))  # type: ignore[arg-type]

    def step(e: object) -> Expr | None:
        if not isinstance(e, Call) or e.name != "exp":
            return None
        terms = terms_of(e.args[0], look=behind)
        logs = [(c, a.args[0]) for c, a in terms if isinstance(a, Call) and a.name == "log" and abs(c) == 1]
        if not logs:
            return None
        rest = [(c, a) for c, a in terms if not (_is_log(a) and abs(c) == 1)]
        power = (Call("exp", (sum_of(rest, e.dtype),), e.dtype, span=e.span),) if rest else ()
        above = (*power, *(a for c, a in logs if c > 0))
        return Factors(1.0, above, tuple(a for c, a in logs if c < 0)).expr(e.dtype)

    return rewrite(value, step)


def open_reciprocals(s: Statement, formulas: Formulas) -> Expr:
    """``a * r(n)`` where ``r(n) = 1.0 / s(n)`` is stored, as ``a / s(n)``. Fast.

    Only where neighbouring elements are divided by the same: what is divided by is inverted once there.
    """
    along = s.axes[-1].var.name if s.axes else ""

    def behind(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer.name not in formulas or along in free_vars(e):
            return None
        places, formula = formulas[e.buffer.name]
        found = factors_of(formula)
        if found.number != 1 or found.above or len(found.below) != 1 or not isinstance(found.below[0], Load):
            return None
        return put_value(formula, dict(zip(places, e.indices)))  # type: ignore[arg-type]

    def step(e: object) -> Expr | None:
        if not isinstance(e, Binary) or e.op not in ("*", "/"):
            return None
        if e.op == "*" and (opened := _divided(e.left, e.right) or _divided(e.right, e.left)):
            return opened[0]
        if all(behind(x) is None for x in (e.left, e.right)):
            return None
        return factors_of(e, behind).expr(e.dtype)

    return rewrite(s.value, step)


def _divided(e: Expr, by: Expr) -> tuple[Expr] | None:
    """``e / b`` where ``by`` is ``1.0 / b``."""
    is_inverse = isinstance(by, Binary) and by.op == "/" and by.left == const(1.0, by.dtype)
    return (Binary("/", e, by.right, span=e.span),) if is_inverse else None  # type: ignore[attr-defined]


def _is_log(e: Expr | None) -> bool:
    return isinstance(e, Call) and e.name == "log"
