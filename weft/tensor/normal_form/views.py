"""Copies, paddings, transpositions and conversions composed into their readers. Exact.

Only what is free to do again wherever it is read: another place, a test on it, a conversion to a wider type, a number
as a factor where no more is read than was stored. What costs more stays stored, and the scheduler decides by what it
takes: a formula in each of its readers would be computed as often as it is read, and grow without end along a chain.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.ir.expr import Binary, Const, Expr, Load, Var
from weft.ir.visit import rebuild
from weft.tensor.boundary import Outside, expand_outside
from weft.tensor.normal_form.axes import put_value
from weft.tensor.normal_form.statements import is_element, is_formula
from weft.tensor.program import Statement

#: Formulas of tensors by name: the variables that are its subscripts, and the value there.
Formulas = Mapping[str, tuple[tuple[Expr, ...], Expr]]


def is_view(s: Statement) -> bool:
    """Whether each element is one of another tensor, or a number: read again, it costs nothing."""
    return is_formula(s) and is_element(s.value)


def is_scaled(s: Statement) -> bool:
    """Whether each element is another tensor's, times a number."""
    match s.value:
        case Binary(op="*", left=left, right=Const()) | Binary(op="*", left=Const(), right=left):
            return is_formula(s) and is_element(left)
    return False


def inline(e: Expr, formulas: Formulas) -> Expr:
    """``e`` with formulas in the place of what they are of."""
    if isinstance(e, (Var, Const)):
        return e
    if isinstance(e, Outside) and e.load.buffer.name in formulas:
        e = expand_outside(e)
    e = rebuild(e, lambda n: inline(n, formulas) if isinstance(n, Expr) else n)
    if not isinstance(e, Load) or e.buffer.name not in formulas:
        return e
    places, formula = formulas[e.buffer.name]
    return put_value(formula, dict(zip(places, e.indices)))  # type: ignore[arg-type]
