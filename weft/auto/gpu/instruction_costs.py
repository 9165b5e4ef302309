"""Instructions that a formula takes on a GPU, by where they run."""

from __future__ import annotations

from dataclasses import dataclass

from weft.ir import dtype as dt
from weft.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Load, Select, Unary, Var
from weft.ir.visit import children

#: Instructions and special functions of each call, fast numerics, as in machine code made from the text we write.
CALLS = {
    "exp": (2, 1), "exp2": (1, 1), "log": (2, 1), "log2": (1, 1), "sqrt": (1, 1), "rsqrt": (1, 1), "sin": (20, 0),
    "cos": (20, 0), "tanh": (10, 2), "sigmoid": (4, 2), "erf": (18, 1), "erfc": (24, 2), "pow": (24, 2), "fma": (1, 0),
    "abs": (1, 0), "expm1": (12, 1), "log1p": (14, 1),
}  # fmt: skip
#: What a call takes that is not listed, and a division by what is no constant.
OTHER_CALL, DIVISION = (30, 1), (3, 1)


@dataclass(frozen=True, slots=True)
class Cost:
    """Instructions of a thread, and how many of them are special functions."""

    issued: float
    special: float


def value_cost(e: Expr) -> Cost:
    """What one evaluation of ``e`` takes; subscripts are not counted, nor what is known when compiling.

    What is loaded is made wider where it is loaded, once for all that use it.
    """
    issued, special = _cost(e)
    return Cost(issued, special)


def _cost(e: Expr) -> tuple[float, float]:
    if isinstance(e, (Const, Var, Load)) or e.dtype == dt.index:
        return 0.0, 0.0
    inner = [_cost(c) for c in children(e) if isinstance(c, Expr)]
    issued, special = sum(i for i, _ in inner), sum(s for _, s in inner)
    own = _own(e)
    return issued + own[0], special + own[1]


def _own(e: Expr) -> tuple[float, float]:
    match e:
        case Call(name=name):
            return CALLS.get(name, OTHER_CALL)
        case Binary(op="/", right=right):
            return (1, 0) if isinstance(right, Const) else DIVISION
        case Binary(op="//" | "%" | "tdiv" | "tmod"):
            return (12, 1)
        case Binary(op="+" | "-", left=left, right=right) if _is_product(left) or _is_product(right):
            return (0, 0)  # fused with the product
        case Cast(operand=operand):
            return (0, 0) if operand.dtype == e.dtype or isinstance(operand, Load) else (1, 0)
        case Binary() | Compare() | Unary() | Select():
            return (1, 0)
    return (0, 0)


def _is_product(e: Expr) -> bool:
    return isinstance(e, Binary) and e.op == "*" and e.dtype.is_float
