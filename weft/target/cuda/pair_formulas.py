"""What formulas of small integers are, as far as two lanes of a word can compute them: found by looking at all values.

A formula of 4 bits has 16 values, and one of a byte 256: those of floats of 4 bits are known by them, however the
formula is written, and so is that numbers need no more bits than a narrow float has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache

import numpy as np
import numpy.typing as npt

from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.expr import Binary, Cast, Expr, Load, Select, Var
from weft.ir.interval import Interval, bounds
from weft.ir.numpy_dtypes import convert, to_numpy
from weft.ir.visit import Node, children, free_vars, loads, rewrite
from weft.tensor.array_arithmetic import OPERATIONS, apply

#: How many integers side by side floats have for one exponent.
TOGETHER = {"bfloat16": 128, "float16": 1024}
#: The most that 4 bits hold, and what such codes are as floats of 4 bits (e2m1).
CODE = 15
_SIZES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
POWERS = np.append(np.exp2(np.arange(255.0) - 127), np.nan).astype(np.float32)
FLOAT4 = np.array([*_SIZES, *(-x for x in _SIZES)], np.float32)


def split_scale(value: Expr, lane: Var, lanes: Collection[Expr]) -> tuple[Expr | None, Expr | None]:
    """What a narrow float is made of in each lane, as an integer or as a formula of one, and what that is multiplied by
    in all of them; None where it is no narrow float."""
    if not isinstance(value, Cast) or not value.type.is_narrow_float:
        return None, None
    made, scale = value.operand, None
    if isinstance(made, Binary) and made.op == "*" and made.dtype == dt.float32:
        for one, other in ((made.left, made.right), (made.right, made.left)):
            own = {*loads(other)}
            if lane.name not in free_vars(other) and own and own.isdisjoint(lanes):
                made, scale = one, other
                break
    if isinstance(made, Cast) and made.operand.dtype.is_integer:
        made = made.operand
    return made, scale


def least_of(value: Expr, narrow: str, ranges: Mapping[str, Interval]) -> int | None:
    """The least of integers that are to be floats of 16 bits; None where they are not such, or too many."""
    most = TOGETHER[narrow]
    values = bounds(value, ranges) if value.dtype.is_integer else Interval(None, None)
    if values.lo is None or values.hi is None or values.lo < -most or values.hi >= values.lo + most:
        return None
    return values.lo


@cache
def is_float4_of(value: Expr, code: Expr) -> bool:
    """Whether ``value`` is what the low four bits of ``code`` stand for as a float of 4 bits."""
    if not value.dtype.is_float:
        return False
    found = _values(value, code, CODE + 1)
    return found is not None and found.shape == FLOAT4.shape and bool((found == FLOAT4).all())


def is_narrow(value: Expr, narrow: DType) -> bool:
    """Whether a float32 is one of ``narrow``, too, whatever it is made of."""
    read = {*loads(value)}
    if len(read) != 1:
        return False
    (load,) = read
    if value == Cast(dt.float32, load) and load.dtype.is_narrow_float:
        return load.dtype == narrow or (load.dtype.bits == 8 and narrow.bits == 16)
    found = _values(value, load, 256) if load.dtype == dt.uint8 else None
    return found is not None and np.array_equal(convert(found, narrow).astype(np.float32), found, equal_nan=True)


def power_of(value: Expr) -> Load | None:
    """The byte that ``value`` is the power of two of, as a float of 8 bits that is all exponent (e8m0)."""
    read = {*loads(value)}
    (load,) = read if len(read) == 1 else (None,)
    found = _values(value, load, 256) if load is not None and load.dtype == dt.uint8 else None
    return load if found is not None and np.array_equal(found, POWERS, equal_nan=True) else None


def _values(value: Expr, code: Expr, count: int) -> npt.NDArray[np.float32] | None:
    """``value`` for all of so many values of ``code``; None where it is made of something else, too."""
    name = Var("code_", code.dtype)

    def visit(n: Node) -> Node | None:
        return name if n == code else None

    formula = rewrite(value, visit)
    if not isinstance(formula, Expr) or {*free_vars(formula)} != {name.name} or loads(formula):
        return None
    with np.errstate(all="ignore"):
        found = _evaluated(formula, np.arange(count).astype(to_numpy(code.dtype)))
    return None if found is None else np.broadcast_to(found, (count,)).astype(np.float32)


def _evaluated(e: Expr, codes: npt.NDArray[np.generic]) -> npt.NDArray[np.generic] | None:
    if isinstance(e, Var):
        return codes
    operands = [_evaluated(n, codes) for n in children(e) if isinstance(n, Expr)]
    known = [x for x in operands if x is not None]
    if len(known) < len(operands) or isinstance(e, Load):
        return None
    if isinstance(e, Select):
        return np.where(*known)
    if not isinstance(e, OPERATIONS):
        return None
    if not any(isinstance(x, np.ndarray) and x.shape for x in known) and known:
        known = [np.broadcast_to(x, codes.shape) for x in known]
    return apply(e, known)
