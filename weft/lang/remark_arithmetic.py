"""What is told of integer arithmetic that goes into something wider: quotients rounded down, sums that wrapped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.ir.dtype import DType
from weft.ir.expr import Binary, BinaryOp, Expr
from weft.ir.remark import Remark
from weft.lang import ast
from weft.lang.reader import text_of
from weft.tensor.build import ProgramBuilder
from weft.tensor.text import describe

#: The arithmetic of integers, by how it is written.
INTEGER_OPS: Mapping[str, BinaryOp] = {"+": "+", "-": "-", "*": "*", "/": "//", "%": "%", "//": "//"}
#: Narrower integers wrap sooner than is expected.
_WIDE = 32


def remark_divisions(builder: ProgramBuilder, node: ast.Expr) -> None:
    """Of quotients in an integer that becomes a float by itself."""
    for quotient in _quotients(node):
        whole, part = (text_of(e) for e in (quotient.left, quotient.right))
        as_text = f"`{whole}/{part}`" if whole and part else "this quotient"
        real = f"`float({whole}) / {part}`" if whole and part else "`float(a) / b`"
        builder.remark(
            Remark(
                "integer-division",
                f"{as_text} of integers is rounded down before it becomes a float",
                quotient.span,
                "`/` of integers gives an integer",
                f"write {real} for the ratio, `float(...)` around it or `//` where rounding down is meant",
            )
        )


def remark_narrow(builder: ProgramBuilder, value: Expr, to: DType) -> None:
    """Of a sum or product of narrow integers that may have wrapped before it is made wider."""
    t = value.dtype
    if not (t.is_integer and t.bits < _WIDE and (to.is_float or to.bits > t.bits)):
        return
    if isinstance(value, Binary) and value.op in ("+", "-", "*"):
        builder.remark(
            Remark(
                "narrow-arithmetic",
                f"`{describe(value)}` of {t} wraps at {t.bits} bits before it becomes {to}",
                value.span,
                "an operation has the type of its operands, as in numpy",
                f"make one of them wider first: `{to}({describe(value.left)})`",
            )
        )


def _quotients(node: ast.Expr) -> Iterator[ast.Binary]:
    """The divisions by `/` in a value, but for those in subscripts, in conversions and in tests."""
    if isinstance(node, ast.Binary) and node.op == "/":
        yield node
    elif isinstance(node, ast.Ternary):
        yield from (*_quotients(node.then), *_quotients(node.otherwise))
    elif isinstance(node, ast.Unary) or (isinstance(node, ast.Binary) and node.op in INTEGER_OPS):
        for part in ast.operands(node):
            yield from _quotients(part)
