"""``B outside v``: a value beyond the edge of a tensor must be one that the tensor could hold."""

from __future__ import annotations

from weft.ir.errors import LanguageError
from weft.ir.expr import Expr, Load
from weft.ir.span import Span
from weft.tensor.boundary import Outside
from weft.tensor.text import describe


def outside_value(load: Load, fill: Expr, span: Span | None) -> Outside:
    """``load``, and ``fill`` beyond the edge."""
    if fill.dtype != load.dtype:
        name, given = load.buffer.name, describe(fill)
        raise LanguageError(
            f"`{name}` cannot be {given} beyond its edge",
            span=span,
            why=f"its elements are {load.dtype}, and {given} is {fill.dtype} here",
            help=f"write a value of its type, converted if it may change: `{name} outside {load.dtype}({given})`",
        )
    return Outside(load, "value", fill, span=load.span)
