"""What fast numerics have instead of exact functions: as near to these as sums in another order are to one another.

Each has a way that needs AVX-512's scaling by powers of two, for float32; elsewhere it is the exact function.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.target.cpu.math.coefficients import fitted
from weft.target.cpu.math.exp_log import exp, sigmoid, tanh
from weft.target.cpu.math.formula import Term, at_least, at_most, fma, horner, where
from weft.target.cpu.math.registers import can_scale, scale_by
from weft.target.cpu.math.rounding import rint

LOG2_E = 1.0 / math.log(2.0)
#: What of it float32 does not hold.
LOG2_E_REST = 1.925963033500e-08
#: Smaller x have no e^x that is normal.
LEAST = {"float": -87.33, "double": -708.39}


def _is_quick(x: Term) -> bool:
    return x.is_single and can_scale(x)


def quick_exp(x: Term) -> Term:
    """As `exp`, but 0 where the result would be subnormal: whoever computes with such numbers waits for each."""
    least = LEAST[x.format.type]
    if not _is_quick(x):
        return where(x < least, 0.0, exp(at_least(x, least)))
    whole = rint(x * LOG2_E)
    rest = fma(x, LOG2_E_REST, fma(x, LOG2_E, -whole))
    return where(x < least, 0.0, scale_by(horner(rest, fitted("EXP2_MEDIUM")), whole))


def quick_sigmoid(x: Term) -> Term:
    """1 / (1 + 2^(-x / ln 2)), where the power may be infinite: within 3 ulp of ordinary numbers, 30 of e^-87."""
    if not _is_quick(x):
        return sigmoid(x)
    x = at_most(x, 104.0)  # far below zero, whatever the polynomial is, it is positive, and scaled to infinity
    whole = rint(x * -LOG2_E)
    power = scale_by(horner(fma(x, -LOG2_E, -whole), fitted("EXP2_MEDIUM")), whole)
    return 1.0 / (power + 1.0)


def quick_tanh(x: Term) -> Term:
    """(e^2x - 1) / (e^2x + 1), the numerator without cancellation: within 4 ulp."""
    if not _is_quick(x):
        return tanh(x)
    steps = at_least(at_most(x, 10.0), -10.0) * (2.0 * LOG2_E)
    whole = rint(steps)
    rest = steps - whole
    small = rest * horner(rest, fitted("EXP2_MEDIUM")[1:])
    scale = scale_by(x.like(1.0), whole)
    excess = fma(scale, small, scale - 1.0)
    return excess / (excess + 2.0)


QUICK: dict[str, Callable[[Term], Term]] = {"exp": quick_exp, "sigmoid": quick_sigmoid, "tanh": quick_tanh}
