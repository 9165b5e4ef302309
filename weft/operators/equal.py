"""`weft.equal`: whether two formulas are equal, with a proof or a witness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from weft.ir.at_the_call import told_at_the_call
from weft.ir.errors import ArgumentError
from weft.operators.operator import Operator

if TYPE_CHECKING:
    from weft.algebra.equal import Equality
    from weft.tensor.program import TensorProgram


@told_at_the_call
def equal(
    first: str | Operator, second: str | Operator, *, sizes: Mapping[str, int] | None = None, seconds: float = 2.0
) -> Equality:
    """Whether two formulas give the same for all inputs of all sizes: an answer that prints its proof or a witness.

    Formulas are texts of the whiteboard language (the last definition of each counts) or operators; parameters
    correspond by position. ``sizes`` gives sizes or integer parameters of the first formula a value; ``seconds`` is
    what isl may take for a question. What is not decided is not true: ``answer`` is None, ``reason`` says why.

    >>> weft.equal("def f(float(N) A) -> (C) { C(i) = 2 * A(i) }", "def g(float(N) A) -> (C) { C(i) = A(i) + A(i) }")
    equal (fast), proved in 0.2 ms
      C: 1 and 2 products, as weighted sets of what they read
    """
    from weft.algebra.equal import check_equal

    return check_equal(_program(first), _program(second), sizes=sizes, seconds=seconds)


def _program(formula: str | Operator) -> TensorProgram:
    if isinstance(formula, Operator):
        return formula.program
    if not isinstance(formula, str):
        raise ArgumentError(
            f"equal takes formulas as text or operators, not {type(formula).__name__}",
            help='weft.equal("def f(float(N) A) -> (C) { … }", "def g(float(N) A) -> (C) { … }")',
        )
    from weft.lang.parse import parse_programs

    return next(reversed(parse_programs(formula).values()))
