"""Which values may go into which tensors."""

from __future__ import annotations

from weft.ir.dtype import DType, can_hold
from weft.ir.errors import LanguageError
from weft.ir.expr import Const, Expr
from weft.ir.span import Span


def check_target_dtype(name: str, target: DType, op: str, value: Expr, span: Span | None) -> None:
    """Raises where ``value`` would be narrowed, or where ``op`` has no meaning for the target's type."""
    if target.is_bool and op in ("+", "*"):
        raise LanguageError(
            f"`{op}=` into bool tensor `{name}`",
            span=span,
            why="bools have no sums and products",
            help=f"use `{'max' if op == '+' else 'min'}=` for {'any' if op == '+' else 'all'}, or an int tensor",
        )
    if can_hold(target, value.dtype) or _fits(target, value):
        return
    raise LanguageError(
        f"cannot put {value.dtype} into {target} tensor `{name}`",
        span=span,
        why=f"{value.dtype} narrows to {target}, and values are never narrowed silently",
        help=f"convert the value: `{target}(...)`, or declare `{name}` as {value.dtype}",
    )


def _fits(target: DType, value: Expr) -> bool:
    """A literal goes into any tensor that can represent it: ``O(i) = 0`` into uint8, ``1.5`` into float16."""
    if not isinstance(value, Const):
        return False
    if target.is_float:
        return True
    return target.is_integer and value.dtype.is_integer and target.min_value <= value.value <= target.max_value
